"""Who pays for which GPU-hour of a small fleet, found by looking at every quarter-hour of every GPU: an oracle.

It knows nothing of the engine: named devices, whole quarter-hours, ACCOUNTING.md's order of precedence.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

QUARTERS = 96
IDLE, UNAVAILABLE, OUT = "(idle)", "(unavailable)", "(out of service)"
QUARTER_H = Fraction(1, 4)


class Hold(NamedTuple):
    """A run on one named GPU of a machine. Times in quarters of the day, which may lie outside of it."""

    job: str
    tenant: str
    node: str
    device: int
    start: int
    end: int
    share: Fraction = Fraction(1)
    exclusive: bool = False
    state: str = "COMPLETED"


class Machine(NamedTuple):
    """A machine in service over `[start, end)` quarters."""

    name: str
    gpus: int
    start: int = 0
    end: int = QUARTERS


class Outage(NamedTuple):
    """`DOWN` ends what the machine held; `MAINT` takes only what nobody holds."""

    node: str
    start: int
    end: int
    state: str


class Reserved(NamedTuple):
    """All GPUs of a machine."""

    tenant: str
    node: str
    start: int
    end: int


class Day(NamedTuple):
    """A fleet's day."""

    machines: Sequence[Machine]
    holds: Sequence[Hold]
    outages: Sequence[Outage] = ()
    reserved: Sequence[Reserved] = ()


def who_pays(day: Day) -> dict[str, Fraction]:
    """GPU-hours by payer: tenants, idle, unavailable."""
    paid: dict[str, Fraction] = defaultdict(Fraction)
    for machine in day.machines:
        for device in range(machine.gpus):
            for quarter in range(max(machine.start, 0), min(machine.end, QUARTERS)):
                for payer, share in _parts(day, machine, device, quarter):
                    paid[payer] += share * QUARTER_H
    return {payer: found for payer, found in paid.items() if found}


def _parts(day: Day, machine: Machine, device: int, quarter: int) -> Iterator[tuple[str, Fraction]]:
    on_node = [hold for hold in day.holds if hold.node == machine.name and _holds(day, hold, quarter)]
    here = [hold for hold in on_node if hold.device == device]
    whole = sum((hold.share for hold in here), Fraction(0))
    for hold in here:
        yield _payer(hold), hold.share / max(whole, Fraction(1))
    if whole < 1:
        yield _unheld(day, machine, on_node, quarter), 1 - whole


def _holds(day: Day, hold: Hold, quarter: int) -> bool:
    """Whether it holds then: a failure of the machine ends it for good."""
    failures = [o.start for o in day.outages if o.node == hold.node and o.state == "DOWN" and o.end > hold.start]
    return hold.start <= quarter < min([hold.end, *failures])


def _payer(hold: Hold) -> str:
    return UNAVAILABLE if hold.state == "NODE_FAIL" else hold.tenant


def _unheld(day: Day, machine: Machine, on_node: Sequence[Hold], quarter: int) -> str:
    if any(o.node == machine.name and o.start <= quarter < o.end for o in day.outages):
        return UNAVAILABLE
    for found in day.reserved:
        if found.node == machine.name and found.start <= quarter < found.end:
            return found.tenant
    alone = sorted((hold.device, hold.job, hold) for hold in on_node if hold.exclusive)
    return _payer(alone[0][2]) if alone else IDLE
