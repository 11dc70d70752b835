"""Where each special case of the demo's day is: machine, cards, ids and times. Says where to look; finds nothing."""

from dataclasses import dataclass

from wattledger_audit.generated_fleet.day import DAY_END_US, DAY_START_US, MINUTE_US, at
from wattledger_audit.generated_fleet.job_row import Job
from wattledger_audit.generated_fleet.job_table import JOBS
from wattledger_audit.generated_fleet.machines import MACHINES
from wattledger_audit.generated_fleet.node_stream import (
    RESERVATION_ID,
    RESERVATION_NODE,
    RESERVED_CARDS,
    RESERVED_FROM,
    RESERVED_TO,
    STATES,
)
from wattledger_audit.generated_fleet.price_stream import LATE_PRICE_ARRIVES, LATE_PRICE_FROM, LATE_PRICE_ID, NOON
from wattledger_audit.generated_fleet.sample_day import IMPLAUSIBLE, RESET, SENTINELS, UNTAGGED
from wattledger_audit.generated_fleet.sample_stream import OUTAGE


@dataclass(frozen=True, slots=True)
class SpecialCase:
    """One case over `[start_us, end_us)`, µs since the epoch; a moment has `end_us == start_us`.

    `cards` are indexes on `node` (empty: all of them, or none in particular); `ids` are jobs, or the price or
    reservation it is about.
    """

    name: str
    start_us: int
    end_us: int
    node: str = ""
    cards: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()


_JOB_NAMES = {
    "exclusive": "exclusive job that strands GPUs",
    "requeue": "requeue",
    "suspend": "suspend and resume",
    "resize": "resize",
    "late_stop": "stop that comes late",
    "zombie": "zombie",
    "never_ends": "stop that never comes",
    "overlap": "two jobs claim one GPU",
}


def special_cases() -> tuple[SpecialCase, ...]:
    """Every special case, under the names of `generated_fleet.SPECIAL_CASES`."""
    return (*_from_machines(), *_from_jobs(), *_from_samples(), *_from_prices())


def _from_machines() -> list[SpecialCase]:
    drained = {state: at(clock) for node, clock, state, _ in STATES if node == "l40s-01"}
    return [
        SpecialCase("reservation partly unused", at(RESERVED_FROM), at(RESERVED_TO), RESERVATION_NODE, RESERVED_CARDS,
                    (RESERVATION_ID,)),
        SpecialCase("drained machine", drained["draining"], drained["active"], "l40s-01"),
        *(SpecialCase("machine without an agent", DAY_START_US, DAY_END_US, machine.node)
          for machine in MACHINES if not machine.has_agent),
        *(SpecialCase("card without a counter", DAY_START_US, DAY_END_US, machine.node, (card.index,))
          for machine in MACHINES for card in machine.cards if not card.has_counter),
    ]  # fmt: skip


def _from_jobs() -> list[SpecialCase]:
    found = []
    for kind, name in _JOB_NAMES.items():
        jobs = [job for job in JOBS if job.kind == kind]
        start_us, end_us = _when(kind, jobs)
        found.append(SpecialCase(name, start_us, end_us, jobs[0].node, (), tuple(job.job for job in jobs)))
    return found


def _when(kind: str, jobs: list[Job]) -> tuple[int, int]:
    """The interval of what is unusual, not of the job: the pause, the delay, the time both claim the card."""
    first = jobs[0]
    if kind in ("requeue", "suspend"):
        return at(first.details[0]), at(first.details[1])
    if kind == "resize":
        return at(first.details[0]), at(first.details[0])
    if kind == "late_stop":
        return at(first.end), at(first.end) + int(first.details[0]) * MINUTE_US
    if kind == "zombie":
        return at(first.end), first.released_us
    if kind == "never_ends":
        return at(first.end), at(first.end)
    return max(at(job.start) for job in jobs), min(at(job.end) for job in jobs)


def _from_samples() -> list[SpecialCase]:
    stretches = {"untagged process": UNTAGGED, "sentinel readings": SENTINELS, "implausible readings": IMPLAUSIBLE}
    node, card, moment = RESET
    return [
        *(SpecialCase(name, at(start), at(end), where, (index,))
          for name, (where, index, start, end) in stretches.items()),
        SpecialCase("counter reset", at(moment) - 1000000, at(moment), node, (card,)),
        SpecialCase("agent outage bridged by the counter", at(OUTAGE[1]), at(OUTAGE[2]), OUTAGE[0]),
    ]  # fmt: skip


def _from_prices() -> list[SpecialCase]:
    changed = ("rate-h100-on_demand-morning", "rate-h100-on_demand-afternoon")
    return [
        SpecialCase("price change at noon", at(NOON), at(NOON), ids=changed),
        SpecialCase("price published late", at(LATE_PRICE_FROM), at(LATE_PRICE_ARRIVES), ids=(LATE_PRICE_ID,)),
        # the day tariff lies between the two nights
        SpecialCase("night tariff", at("05:00"), at("21:00"), ids=("energy-0", "energy-1", "energy-2")),
    ]
