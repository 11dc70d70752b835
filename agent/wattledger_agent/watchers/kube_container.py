"""One container of a pod as the API tells of it: when it ran, whether it is done for good. Pure parser."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wattledger_agent.watchers.kube_quantity import stamp_us


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """`started_us` is the earliest start that the status still shows: of the run before this one, after a restart.
    `finished_us` is set once the container is down; `is_done` when it will not be started again; `is_cut` when it
    would have been, but for the end of its pod."""

    name: str
    container_id: str = ""
    started_us: int | None = None
    finished_us: int | None = None
    is_done: bool = False
    is_cut: bool = False
    restarts: int = 0
    reason: str = ""
    exit_code: int | None = None


def parse_container(
    name: str, spec: Mapping[str, Any], status: Mapping[str, Any], is_init: bool, pod_restarts: str, pod_ends: bool
) -> ContainerFacts:
    """`pod_restarts`: the pod's restartPolicy. `pod_ends`: the pod is being deleted or in its last phase, so nothing
    of it starts again."""
    states = [table(status.get("state")), table(status.get("lastState"))]
    started = [
        at
        for state in states
        for kind in ("running", "terminated")
        if (at := stamp_us(table(state.get(kind)).get("startedAt"))) is not None
    ]
    ended = table(states[0].get("terminated"))
    before = table(states[1].get("terminated"))
    policy = spec.get("restartPolicy") or ("OnFailure" if is_init and pod_restarts == "Always" else pod_restarts)
    last = ended or (before if pod_ends and not states[0].get("running") else {})
    exit_code = last.get("exitCode")
    exit_code = exit_code if isinstance(exit_code, int) else None
    is_down = bool(last)
    starts_again = policy == "Always" or (policy == "OnFailure" and exit_code != 0)
    return ContainerFacts(
        name=name,
        container_id=str(status.get("containerID") or "").partition("://")[2],
        started_us=min(started, default=None),
        finished_us=stamp_us(last.get("finishedAt")) if is_down else None,
        is_done=is_down and (pod_ends or not starts_again),
        is_cut=is_down and pod_ends and starts_again,
        restarts=count if isinstance(count := status.get("restartCount"), int) else 0,
        reason=str(last.get("reason") or ""),
        exit_code=exit_code,
    )


def table(value: object) -> Mapping[str, Any]:
    """A JSON object, or an empty one where there is none."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[Mapping[str, Any]]:
    """The objects of a JSON array, or none."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
