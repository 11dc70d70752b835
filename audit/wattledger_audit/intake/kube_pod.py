"""One pod's life as its facts tell it: when it ran, how it ended, whose it is. Pods of one name are told apart."""

from typing import NamedTuple

from wattledger_core.interval import FOREVER_US, Interval, merge

from wattledger_audit.intake.kube_facts import KubeFacts, PodKey, TimeKey, stamp_us
from wattledger_audit.intake.kube_series import Span
from wattledger_audit.intake.usage_opencost import PROJECT_LABELS, TENANT_LABELS

_REASON_STATES = {
    "OOMKilled": "OUT_OF_MEMORY", "Evicted": "PREEMPTED", "Preempting": "PREEMPTED", "Preempted": "PREEMPTED",
    "NodeLost": "NODE_FAIL", "NodeShutdown": "NODE_FAIL", "Terminated": "NODE_FAIL", "DeadlineExceeded": "TIMEOUT",
    "Error": "FAILED", "ContainerCannotRun": "FAILED", "StartError": "FAILED", "UnexpectedAdmissionError": "FAILED",
    "Completed": "COMPLETED",
}  # fmt: skip


class Life(NamedTuple):
    """One pod (a name that came again is another life). `running` None: no phase was told, so all of its time.

    `start_us` and `completion_us` bound it; `key` tells it from other lives of the same name."""

    key: str
    bounds: Interval
    running: list[Interval] | None
    submit_us: int | None


def lives(facts: KubeFacts, pod: PodKey, container: str, step_us: int) -> list[Life]:
    """The lives of a pod's name, earliest first. With a uid there is one."""
    same = facts.same_pods(pod)
    starts = _stamps(facts, same, "start", "", step_us)
    created = _stamps(facts, same, "created", "", step_us)
    began = starts or created
    running = _running(facts, same, step_us)
    if pod.uid or len({span.value for span in began}) < 2:
        first_us = max([stamp_us(span.value) for span in began[:1]], default=None)
        bounds = _bounds(facts, same, container, step_us, (first_us or 0, FOREVER_US))
        submit_us = stamp_us(created[0].value) if created else None
        return [Life(pod.uid or ("" if first_us is None else str(first_us)), bounds, running, submit_us)]
    found = []
    stamps = sorted({stamp_us(span.value) for span in began})
    for start_us, next_us in zip(stamps, [*stamps[1:], FOREVER_US], strict=True):
        bounds = _bounds(facts, same, container, step_us, (start_us, next_us))
        found.append(Life(str(start_us), bounds, running, None))
    return found


def end_state(facts: KubeFacts, pod: PodKey, container: str, open_at_end: bool, step_us: int) -> str:
    """How it ended in SLURM's words; RUNNING where the samples end first, empty where nothing tells."""
    if open_at_end:
        return "RUNNING"
    same = facts.same_pods(pod)
    if _phase_spans(facts, same, "Succeeded", step_us):
        return "COMPLETED"
    told = {reason for key in same for who, reason in facts.reasons.get(key, ()) if who in ("", container)}
    reason = next((reason for reason in _REASON_STATES if reason in told), "")
    failed = "FAILED" if _phase_spans(facts, same, "Failed", step_us) else ""
    return _REASON_STATES.get(reason, failed)


def terminated(facts: KubeFacts, pod: PodKey, container: str, step_us: int) -> list[Interval]:
    """When the container was down for good or between restarts: it held nothing then."""
    spans = [s for key in facts.same_pods(pod) for s in facts.terminated.spans((key, container), step_us)]
    return merge((span.start_us, span.end_us) for span in spans if span.value)


def was_pending(facts: KubeFacts, pod: PodKey, step_us: int) -> bool:
    """Whether the pod was seen to wait."""
    return bool(_phase_spans(facts, facts.same_pods(pod), "Pending", step_us))


def whose(facts: KubeFacts, pod: PodKey) -> tuple[str, str, dict[str, str]]:
    """Tenant (its label, or the namespace), project and all labels of a pod."""
    labels: dict[str, str] = {}
    for key in facts.same_pods(pod):
        labels |= facts.pod_labels.get(key, {})
    tenant = next((labels[name] for name in TENANT_LABELS if name in labels), pod.namespace)
    return tenant, next((labels[name] for name in PROJECT_LABELS if name in labels), ""), labels


def _running(facts: KubeFacts, same: list[PodKey], step_us: int) -> list[Interval] | None:
    if not any(key in facts.phases_of for key in same):
        return None
    return merge((span.start_us, span.end_us) for span in _phase_spans(facts, same, "Running", step_us))


def _phase_spans(facts: KubeFacts, same: list[PodKey], phase: str, step_us: int) -> list[Span]:
    return [span for key in same for span in facts.phases.spans((key, phase), step_us) if span.value]


def _stamps(facts: KubeFacts, same: list[PodKey], kind: str, container: str, step_us: int) -> list[Span]:
    return sorted(span for key in same for span in facts.times.spans(TimeKey(key, kind, container), step_us))


def _bounds(facts: KubeFacts, same: list[PodKey], container: str, step_us: int, within: Interval) -> Interval:
    """Start and end clipped by the container's own start and the pod's completion, where they lie inside `within`."""
    started = [stamp_us(s.value) for s in _stamps(facts, same, "container_started", container, step_us)]
    ended = [stamp_us(s.value) for s in _stamps(facts, same, "completion", "", step_us)]
    start_us = min((at for at in started if within[0] <= at < within[1]), default=within[0])
    return start_us, min((at for at in ended if start_us <= at <= within[1]), default=within[1])
