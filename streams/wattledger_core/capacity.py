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
EXCLUSIVE = "exclusive"
STATE_TENANTS = {
    UNAVAILABLE_STATE: UNAVAILABLE, RESERVED_STATE: RESERVED, STRANDED_STATE: STRANDED, FREE_STATE: IDLE,
}  # fmt: skip
"""Who stands in a line of that state where no customer does."""


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
    reserved = next((f for f in reservations if not f.reserved_devices or device in f.reserved_devices), None)
    exclusive = next((hold for hold in node_holds if hold.revision.exclusive and not hold.zombie), None)
    state, reason = unheld_rule(
        [fact.state for fact in states],
        reserved is not None,
        exclusive is not None,
        exhausted(cpus, [hold.revision.cpus for hold in node_holds]),
        exhausted(memory_bytes, [hold.revision.memory_bytes for hold in node_holds]),
    )
    if state == RESERVED_STATE and reserved is not None:
        return Unheld(state, reserved.reservation_id, reserved.tenant or RESERVED, "reserved")
    if reason == EXCLUSIVE and exclusive is not None:
        return Unheld(state, reason, exclusive.revision.tenant, exclusive.revision.plan, exclusive)
    return Unheld(state, reason, STATE_TENANTS[state])


def unheld_rule(
    states: Sequence[str], reserved: bool, exclusive: bool, cpus_exhausted: bool, memory_exhausted: bool
) -> tuple[str, str]:
    """State and reason of what nobody holds: the order of precedence, and nothing else. `states` are the node's."""
    reasons = [state for state in states if state != ACTIVE]
    if reasons:
        return UNAVAILABLE_STATE, FAILED if FAILED in reasons else min(reasons)
    if reserved:
        return RESERVED_STATE, ""
    if exclusive:
        return STRANDED_STATE, EXCLUSIVE
    if cpus_exhausted:
        return STRANDED_STATE, "cpu"
    return (STRANDED_STATE, "memory") if memory_exhausted else (FREE_STATE, "")


def exhausted(installed: int | None, taken: Sequence[int | None]) -> bool:
    """Nothing is left of a resource whose size is known; unknown takings count as nothing taken."""
    return installed is not None and sum(amount or 0 for amount in taken) >= installed > 0
