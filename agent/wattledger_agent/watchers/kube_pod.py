"""One pod as the API tells of it: who it is, whose, when it ran. Pure parser; keeps nothing private of the pod."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from wattledger_agent.watchers.kube_container import ContainerFacts, parse_container, rows, table
from wattledger_agent.watchers.kube_quantity import stamp_us
from wattledger_agent.watchers.kube_request import asks_for_gpus, requested

PLANS = ("reserved", "on_demand", "spot", "internal", "trial")
_LONGEST_TAG = 256
_STATIC_HASH = "kubernetes.io/config.hash"
_LAST_PHASES = ("Succeeded", "Failed")
_OUTCOMES = {
    "OOMKilled": "OUT_OF_MEMORY", "Evicted": "PREEMPTED", "Preempting": "PREEMPTED", "Preempted": "PREEMPTED",
    "NodeLost": "NODE_FAIL", "NodeShutdown": "NODE_FAIL", "Terminated": "NODE_FAIL", "DeadlineExceeded": "TIMEOUT",
    "UnexpectedAdmissionError": "FAILED", "StartError": "FAILED", "ContainerCannotRun": "FAILED", "Error": "FAILED",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TagNames:
    """Labels that tag a pod; an annotation of the same name is read where the label is absent. An empty name reads
    nothing. `namespaces`: whose pods may tag themselves; None: all."""

    tenant: str = "wattledger.io/tenant"
    project: str = ""
    model: str = "wattledger.io/model"
    plan: str = "wattledger.io/plan"
    namespaces: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class PodFacts:
    """`stop_requested_us`: when its deletion was asked for. `is_last_phase`: nothing of it runs, nor will; its devices
    are free for others, whatever the kubelet still lists. `not_ready_us`: when it was last seen to stop being ready."""

    uid: str
    namespace: str
    name: str
    containers: Mapping[str, ContainerFacts]
    created_us: int | None = None
    initialized_us: int | None = None
    stop_requested_us: int | None = None
    not_ready_us: int | None = None
    is_last_phase: bool = False
    outcome: str = ""
    tenant: str = ""
    project: str = ""
    model_tag: str = ""
    plan: str = ""
    odd_plan: str = ""
    user: str = ""
    asks_for_gpus: bool = False
    cpus: int | None = None
    memory_bytes: int | None = None
    owner_keys: tuple[str, ...] = ()

    @property
    def job(self) -> str:
        return f"{self.namespace}/{self.name}/{self.uid}"

    def started_us(self, names: Collection[str]) -> int | None:
        """First start of any of these containers; of one that restarted more than once, when the pod's start was over
        (the status keeps only the last two runs). None: none has started."""
        starts: list[int] = []
        for one in self._of(names):
            if one.started_us is None:
                continue
            is_lost = one.restarts > 1 and self.initialized_us is not None
            starts.append(min(one.started_us, self.initialized_us or one.started_us) if is_lost else one.started_us)
        return min(starts, default=None)

    def is_over(self, names: Collection[str]) -> bool:
        """Whether none of these containers runs, nor will again."""
        those = self._of(names)
        return self.is_last_phase or (bool(those) and all(one.is_done for one in those))

    def finished_us(self, names: Collection[str]) -> int | None:
        """When the last of these containers ended, once they are over. A status that lost it (eviction) still has when
        the pod stopped being ready. None: not over, or not told."""
        if not self.is_over(names):
            return None
        those = self._of(names)
        ends = [one.finished_us for one in those if one.finished_us is not None]
        if ends and self.stop_requested_us is not None and any(one.is_cut for one in those):
            ends.append(self.stop_requested_us)  # down between restarts, it held its devices until it was deleted
        return max(ends, default=self.not_ready_us)

    def is_running(self, names: Collection[str]) -> bool:
        return not self.is_last_phase and any(not one.is_done and one.started_us for one in self._of(names))

    def restarts(self, names: Collection[str]) -> int:
        return sum(one.restarts for one in self._of(names))

    def _of(self, names: Collection[str]) -> list[ContainerFacts]:
        """These containers; all, where the status knows none of the names."""
        return [one for one in self.containers.values() if one.name in names] or list(self.containers.values())


def parse_pod(item: Mapping[str, Any], tags: TagNames, extra_resources: Collection[str] = ()) -> PodFacts:
    """Raises ValueError, with no content of the pod but its name, where it is none."""
    about, spec, status = table(item.get("metadata")), table(item.get("spec")), table(item.get("status"))
    uid, namespace, name = (about.get(key) for key in ("uid", "namespace", "name"))
    if not (isinstance(uid, str) and isinstance(namespace, str) and isinstance(name, str) and uid and name):
        raise ValueError(f"pod {namespace!r}/{name!r} has no uid, namespace or name")
    is_last = status.get("phase") in _LAST_PHASES
    deleted_us = stamp_us(about.get("deletionTimestamp"))
    containers = _containers(spec, status, is_last or deleted_us is not None)
    conditions = {str(one.get("type")): one for one in rows(status.get("conditions"))}
    tagged = _Tags(about, tags, namespace)
    plan = tagged.read(tags.plan).lower()
    return PodFacts(
        uid=uid,
        namespace=namespace,
        name=name,
        containers=containers,
        created_us=stamp_us(about.get("creationTimestamp")),
        initialized_us=_since(conditions, "Initialized", "True") or stamp_us(status.get("startTime")),
        stop_requested_us=_asked_us(about, deleted_us),
        not_ready_us=_since(conditions, "ContainersReady", "False") or _since(conditions, "Ready", "False"),
        is_last_phase=is_last,
        outcome=_outcome(status, containers.values(), deleted_us is not None),
        tenant=tagged.read(tags.tenant) or namespace,
        project=tagged.read(tags.project) or namespace,
        model_tag=tagged.read(tags.model),
        plan=plan if plan in PLANS else "",
        odd_plan=plan if plan not in PLANS else "",
        user=str(spec.get("serviceAccountName") or ""),
        asks_for_gpus=asks_for_gpus(spec, extra_resources),
        cpus=requested(spec, "cpu"),
        memory_bytes=requested(spec, "memory"),
        owner_keys=_owner_keys(uid, about, containers.values()),
    )


class _Tags:
    def __init__(self, about: Mapping[str, Any], tags: TagNames, namespace: str) -> None:
        is_trusted = tags.namespaces is None or namespace in tags.namespaces
        self._found = {**table(about.get("annotations")), **table(about.get("labels"))} if is_trusted else {}

    def read(self, name: str) -> str:
        value = self._found.get(name) if name else None
        return value.strip()[:_LONGEST_TAG] if isinstance(value, str) else ""


def _containers(spec: Mapping[str, Any], status: Mapping[str, Any], pod_ends: bool) -> dict[str, ContainerFacts]:
    policy = str(spec.get("restartPolicy") or "Always")
    found = {}
    for kind in ("init", ""):
        specs = rows(spec.get("initContainers" if kind else "containers"))
        statuses = rows(status.get("initContainerStatuses" if kind else "containerStatuses"))
        told = {str(one.get("name")): one for one in statuses}
        for one in specs:
            name = str(one.get("name"))
            found[name] = parse_container(name, one, told.get(name, {}), bool(kind), policy, pod_ends)
    return found


def _asked_us(about: Mapping[str, Any], deleted_us: int | None) -> int | None:
    """deletionTimestamp says by when the pod is to be gone: the request came a grace period earlier."""
    if deleted_us is None:
        return None
    grace_s = about.get("deletionGracePeriodSeconds")
    return deleted_us - grace_s * 1_000_000 if isinstance(grace_s, int) and grace_s > 0 else deleted_us


def _since(conditions: Mapping[str, Mapping[str, Any]], kind: str, value: str) -> int | None:
    one = conditions.get(kind, {})
    return stamp_us(one.get("lastTransitionTime")) if one.get("status") == value else None


def _outcome(status: Mapping[str, Any], containers: Collection[ContainerFacts], is_deleted: bool) -> str:
    """The end in SLURM's words, as the accounting of all schedulers has them; empty while nothing tells."""
    reasons = [str(status.get("reason") or "")] + [one.reason for one in containers if one.exit_code]
    told = next((_OUTCOMES[reason] for reason in reasons if reason in _OUTCOMES), "")
    phase = status.get("phase")
    if phase == "Succeeded":
        return "COMPLETED"
    if told in ("PREEMPTED", "NODE_FAIL", "TIMEOUT"):
        return told
    if is_deleted:
        return "CANCELLED"
    if phase == "Failed":
        return told or "FAILED"
    return ""


def _owner_keys(uid: str, about: Mapping[str, Any], containers: Collection[ContainerFacts]) -> tuple[str, ...]:
    """The pod's UID as both cgroup drivers write it (a static pod's cgroup is named by its config hash), and the ids
    of all its containers: one without a device may use one all the same."""
    hashed = table(about.get("annotations")).get(_STATIC_HASH)
    named = [uid, hashed] if isinstance(hashed, str) and hashed else [uid]
    spelled = [form for one in named for form in (one, one.replace("-", "_"))]
    return tuple(dict.fromkeys([*spelled, *(one.container_id for one in containers if one.container_id)]))
