"""Capacity states: what an installed device was when nobody held it. Owns the order of precedence."""

from collections.abc import Sequence
from dataclasses import dataclass

from wattledger_core.book import FAILED
from wattledger_core.hold import Hold
from wattledger_core.line import IDLE, RESERVED, STRANDED, UNAVAILABLE
from wattledger_core.revision import NodeRevision

HELD_STATE = "held"
FREE_STATE = "free"
RESERVED_STATE = "reserved_unused"
STRANDED_STATE = "stranded"
UNAVAILABLE_STATE = "unavailable"
STOP_PENDING = "stop_pending"
ACTIVE = "active"


@dataclass(frozen=True, slots=True)
class Unheld:
    """State of the part of a device that nobody holds, and who it is charged to: `holder` for a reservation or an
    exclusive job, else a reserved tenant."""

    state: str
    reason: str
    tenant: str
    plan: str = ""
    exclusive: Hold | None = None


def unheld_state(
    device: str,
    states: Sequence[NodeRevision],
    reservations: Sequence[NodeRevision],
    node_holds: Sequence[Hold],
    cpus: int | None,
    memory_bytes: int | None,
) -> Unheld:
    """Precedence: failed, then maintenance and the like (held beats draining, so only the unheld part gets here),
    then a reservation's holder, then stranded by an exclusive job, then stranded by CPU or memory, then free.

    All arguments are what holds over the whole stretch asked about; `node_holds` are the holds of every device of
    the node. Source: ACCOUNTING.md, "Capacity".
    """
    reasons = [fact.state for fact in states if fact.state != ACTIVE]
    if reasons:
        reason = FAILED if FAILED in reasons else sorted(reasons)[0]
        return Unheld(UNAVAILABLE_STATE, reason, UNAVAILABLE)
    for fact in reservations:
        if not fact.reserved_devices or device in fact.reserved_devices:
            return Unheld(RESERVED_STATE, fact.reservation_id, fact.tenant or RESERVED, "reserved")
    for hold in node_holds:
        if hold.revision.exclusive and not hold.zombie:
            return Unheld(STRANDED_STATE, "exclusive", hold.revision.tenant, hold.revision.plan, hold)
    if _exhausted(cpus, [hold.revision.cpus for hold in node_holds]):
        return Unheld(STRANDED_STATE, "cpu", STRANDED)
    if _exhausted(memory_bytes, [hold.revision.memory_bytes for hold in node_holds]):
        return Unheld(STRANDED_STATE, "memory", STRANDED)
    return Unheld(FREE_STATE, "", IDLE)


def _exhausted(installed: int | None, taken: Sequence[int | None]) -> bool:
    """Nothing is left of a resource whose size is known; unknown takings count as nothing taken."""
    return installed is not None and sum(amount or 0 for amount in taken) >= installed > 0
