"""What is unusual about the demo's day, by name: where to look for it, and when. For reports and tests."""

from dataclasses import dataclass

from wattledger_core.units import US_PER_S

from wattledger_audit.demo_fleet.day import DAY_END_US, DAY_START_US, at
from wattledger_audit.demo_fleet.job_row import Job
from wattledger_audit.demo_fleet.job_table import JOBS
from wattledger_audit.demo_fleet.node_stream import RESERVATION_ID, RESERVATION_NODE, RESERVED_FROM, RESERVED_TO
from wattledger_audit.demo_fleet.price_stream import LATE_PRICE_ARRIVES, LATE_PRICE_FROM, LATE_PRICE_ID, NOON
from wattledger_audit.demo_fleet.quirks import OUTAGE, RESET, SENTINEL, UNTAGGED, Stretch


@dataclass(frozen=True, slots=True)
class SpecialCase:
    """One case over `[start_us, end_us)`. `node`, `index` (of the card, -1: all) and `ids` (jobs, or the id of a price
    or reservation) are empty where they say nothing."""

    name: str
    description: str
    start_us: int
    end_us: int
    node: str = ""
    index: int = -1
    ids: tuple[str, ...] = ()


_JOB_CASES = {
    "exclusive": ("exclusive_job", "two GPUs taken exclusively strand the other six of the node"),
    "requeue": ("requeue", "pre-empted, and started again a quarter of an hour later as another attempt"),
    "suspend": ("suspend_resume", "gives its GPUs up for forty minutes"),
    "resize": ("resize", "grows from two GPUs to four"),
    "late_stop": ("late_stop", "ends at 15:10; the event arrives forty minutes later"),
    "zombie": ("zombie", "stop requested, released a quarter of an hour later: the provider's time"),
    "never_ends": ("stop_never_comes", "the node fails under it, and no end is ever reported"),
    "overlap": ("overlap", "two jobs claim one GPU for 45 minutes"),
}


def _from_jobs() -> list[SpecialCase]:
    by_kind: dict[str, list[Job]] = {}
    for job in JOBS:
        if job.kind:
            by_kind.setdefault(job.kind, []).append(job)
    found = []
    for kind, jobs in by_kind.items():
        name, description = _JOB_CASES[kind]
        start_us, end_us = _when(kind, jobs)
        found.append(SpecialCase(name, description, start_us, end_us, jobs[0].node, -1, tuple(j.job for j in jobs)))
    return found


def _when(kind: str, jobs: list[Job]) -> tuple[int, int]:
    first = jobs[0]
    if kind in ("requeue", "suspend"):
        return at(first.details[0]), at(first.details[1])
    if kind == "resize":
        return at(first.details[0]), at(first.end)
    if kind == "late_stop":
        return at(first.end), at(first.end) + int(first.details[0]) * 60 * US_PER_S
    if kind == "zombie":
        return at(first.end), first.released_us
    if kind == "overlap":
        return max(at(job.start) for job in jobs), min(at(job.end) for job in jobs)
    return min(at(job.start) for job in jobs), max(at(job.end) for job in jobs)


def _from_stretch(name: str, description: str, stretch: Stretch) -> SpecialCase:
    start_us, end_us = (DAY_START_US + second * US_PER_S for second in (stretch.start_s, stretch.end_s))
    return SpecialCase(name, description, start_us, end_us, stretch.node, stretch.index)


_ALL_DAY = (DAY_START_US, DAY_END_US)

SPECIAL_CASES = (
    SpecialCase("machine_without_agent", "no telemetry: hours and compute cost, no energy", *_ALL_DAY, "mi300x-01"),
    SpecialCase("card_without_counter", "its energy is integrated from power", *_ALL_DAY, "l40s-01", 3),
    SpecialCase("floor_not_measured", "nobody has measured its idle floor", *_ALL_DAY, "h100-01", 7),
    _from_stretch("sentinel_readings", "power fails, or reads 2,000,000 W, on a card without a counter", SENTINEL),
    _from_stretch("counter_reset", "the energy counter starts again from near 0, in a new epoch", RESET),
    _from_stretch("agent_outage", "no batches for 20 minutes; the counters bridge them", OUTAGE),
    _from_stretch("untagged_process", "a card that nobody holds works for half an hour", UNTAGGED),
    SpecialCase("reservation_partly_unused", "held for seven of its twelve hours", at(RESERVED_FROM), at(RESERVED_TO),
                RESERVATION_NODE, -1, (RESERVATION_ID, "del-102")),
    SpecialCase("drained_machine", "drains from 01:00 while a job runs to 03:30, back at 05:00", at("01:00"),
                at("05:00"), "l40s-01", -1, ("ech-301",)),
    *_from_jobs(),
    SpecialCase("time_sliced_unequal", "three jobs on one card with SM shares 62:26:9", at("06:00"), at("16:00"),
                "l40s-01", 0, ("acme-301", "ech-302", "cin-302")),
    SpecialCase("mig_by_activity", "instances that report activity", *_ALL_DAY, "a100-01", 6),
    SpecialCase("mig_by_slices", "instances that report nothing", *_ALL_DAY, "a100-01", 7),
    SpecialCase("price_change_at_noon", "the rate card's H100 on demand", at(NOON), DAY_END_US,
                ids=("rate-h100-on_demand-morning", "rate-h100-on_demand-afternoon")),
    SpecialCase("late_price", "L40S compute has no price until it is published five hours late", at(LATE_PRICE_FROM),
                at(LATE_PRICE_ARRIVES), ids=(LATE_PRICE_ID,)),
    SpecialCase("night_tariff", "22:00 to 06:00 in Berlin; this is its first change in the day", at("05:00"),
                at("21:00"), ids=("energy-0", "energy-1", "energy-2")),
)  # fmt: skip
"""Every special case of the day."""
