"""Events that sessions cannot take: why, and where they were. The shell makes dead letters of them."""

from dataclasses import dataclass

from wattledger_core.event import JOB_EVENT_KINDS, NODE_EVENT_KINDS, NODE_STATES, Claim, JobEvent, NodeEvent
from wattledger_core.interval import FOREVER_US


@dataclass(frozen=True, slots=True)
class Rejection:
    """One event that changed nothing. `reason` is a code; `detail` says what was wrong, for people."""

    offset: int
    event_id: str
    reason: str
    detail: str


def flaw(event: JobEvent | NodeEvent) -> tuple[str, str] | None:
    """Reason code and detail of what makes the event unusable, or None."""
    if not 0 <= event.at_us < FOREVER_US:
        return "bad_time", f"at_us {event.at_us} is not a time since 1970: set it to microseconds, UTC"
    if isinstance(event, JobEvent):
        return _job_flaw(event)
    return _node_flaw(event)


def _job_flaw(event: JobEvent) -> tuple[str, str] | None:
    where = f"job {event.cluster}/{event.job}"
    if event.kind not in JOB_EVENT_KINDS:
        return "unknown_kind", f"{where}: kind {event.kind!r} is none of {', '.join(JOB_EVENT_KINDS)}"
    if not event.job or event.attempt < 0:
        return "bad_job", f"{where}: job {event.job!r}, attempt {event.attempt}: need a name, and attempts from 0"
    for claim in event.claims:
        found = _claim_flaw(claim)
        if found is not None:
            return found[0], f"{where}: {found[1]}"
    return None


def _claim_flaw(claim: Claim) -> tuple[str, str] | None:
    if not claim.node or not claim.device:
        return "bad_claim", f"claim on node {claim.node!r}, device {claim.device!r}: both need a name"
    if not 0 < claim.share_num <= claim.share_den:
        share = f"{claim.share_num}/{claim.share_den}"
        return "bad_share", f"claim on {claim.node}/{claim.device}: share {share} is not in (0, 1]"
    return None


def _node_flaw(event: NodeEvent) -> tuple[str, str] | None:
    if event.kind not in NODE_EVENT_KINDS:
        return "unknown_kind", f"node {event.node}: kind {event.kind!r} is none of {', '.join(NODE_EVENT_KINDS)}"
    if not event.node:
        return "bad_node", f"{event.kind} event without a node: name it"
    if event.kind == "node_state" and event.state not in NODE_STATES:
        return "unknown_state", f"node {event.node}: state {event.state!r} is none of {', '.join(NODE_STATES)}"
    if event.kind in ("reservation", "reservation_cancelled") and not event.reservation_id:
        return "bad_reservation", f"node {event.node}: {event.kind} without a reservation id"
    if event.kind == "reservation":
        start_us = event.at_us if event.start_us is None else event.start_us
        end_us = FOREVER_US if event.end_us is None else event.end_us
        if not 0 <= start_us < end_us:
            return "bad_reservation", f"node {event.node}: reservation {event.reservation_id} [{start_us}, {end_us})"
    return None
