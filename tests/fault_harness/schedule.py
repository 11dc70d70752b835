"""Which jobs ran where, and how their sources told of it: late, out of order, wrong at first, twice, or never."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random
from typing import NamedTuple

from tests.fault_harness.facts import Hold, Holder
from tests.fault_harness.physics import device_name, minutes_us, node_name
from tests.fault_harness.plan import MINUTE, Plan, S

CLUSTER = "c1"
TENANTS = ("acme", "borealis", "ceres", "dione")
SKU, PLAN_NAME = "gpu", "on_demand"
FOREVER_US = 1 << 62
_SOON_US = S


class Said(NamedTuple):
    """An event of a job as a source reported it at `said_us` (event time of its emission)."""

    said_us: int
    event_id: str
    kind: str
    at_us: int
    job: str
    attempt: int
    node: str
    devices: tuple[str, ...]
    tenant: str


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt as it was really: its holds, and what was said of it."""

    holds: tuple[Hold, ...]
    said: tuple[Said, ...]


@dataclass(frozen=True, slots=True)
class _Slot:
    job: str
    attempt: int
    tenant: str
    node: str
    devices: tuple[str, ...]
    start_us: int
    end_us: int

    def said(self, kind: str, at_us: int, said_us: int, tag: str = "") -> Said:
        event_id = f"{self.job}/{self.attempt}/{kind}{tag}"
        devices = self.devices if kind == "start" else ()
        return Said(said_us, event_id, kind, at_us, self.job, self.attempt, self.node, devices, self.tenant)

    def hold(self, start_us: int, end_us: int | None, segment: int = 0, paid_until_us: int | None = None) -> Hold:
        holder = Holder(CLUSTER, self.job, self.attempt, segment)
        return Hold(holder, self.tenant, self.node, self.devices, start_us, end_us, paid_until_us)


class Holds:
    """Holds by device, found by time: the ones that overlap an interval."""

    def __init__(self, holds: Iterable[Hold]) -> None:
        self._of: dict[str, list[Hold]] = {}
        for hold in sorted(holds, key=lambda h: h.start_us):
            for device in hold.devices:
                self._of.setdefault(device, []).append(hold)
        self._starts = {device: [h.start_us for h in found] for device, found in self._of.items()}
        self._latest = {
            device: list(accumulate((FOREVER_US if h.end_us is None else h.end_us for h in found), max))
            for device, found in self._of.items()
        }

    def over(self, device: str, start_us: int, end_us: int) -> list[Hold]:
        """In order of start."""
        found: list[Hold] = []
        if device in self._of:
            latest = self._latest[device]
            place = bisect_left(self._starts[device], end_us) - 1
            while place >= 0 and latest[place] > start_us:
                hold = self._of[device][place]
                if hold.end_us is None or hold.end_us > start_us:
                    found.append(hold)
                place -= 1
        return found[::-1]

    def throughout(self, device: str, start_us: int, end_us: int) -> bool:
        """Whether one hold covers the whole interval."""
        return any(
            h.start_us <= start_us and (h.end_us is None or h.end_us >= end_us)
            for h in self.over(device, start_us, end_us)
        )


class Schedule:
    """Every job of a world. Devices of a node are lanes of one, the last two (of four or more) one lane of two."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.jobs = tuple(job for i in range(plan.nodes) for job in self._node_jobs(node_name(i)))
        self.holds = Holds(hold for job in self.jobs for hold in job.holds)

    def said(self) -> list[Said]:
        """Every report in order of its emission."""
        return sorted(said for job in self.jobs for said in job.said)

    def _node_jobs(self, node: str) -> Iterator[Job]:
        count = self._plan.devices
        lanes: list[tuple[int, ...]] = [(i,) for i in range(count)]
        if count >= 4:
            lanes[-2:] = [(count - 2, count - 1)]
        for number, lane in enumerate(lanes):
            devices = tuple(device_name(node, i) for i in lane)
            yield from self._lane_jobs(node, number, devices)

    def _lane_jobs(self, node: str, lane: int, devices: tuple[str, ...]) -> Iterator[Job]:
        plan = self._plan
        dice = Random(f"{plan.seed}/jobs/{node}/{lane}")
        at_us, number = plan.start_us + minutes_us(dice, 0.01, 3), 0
        never_ends = bool(plan.missing_stops) and lane == 0
        while at_us < plan.end_us - 2 * MINUTE:
            length_us = minutes_us(dice, plan.job_minutes * 0.4, plan.job_minutes * 1.6)
            end_us = min(at_us + length_us, plan.end_us)
            tenant = dice.choice(TENANTS)
            slot = _Slot(f"{node}-{lane}-{number}", 0, tenant, node, devices, at_us, end_us)
            number += 1
            if never_ends and end_us >= plan.end_us - 4 * MINUTE:
                yield Job((slot.hold(at_us, None),), (slot.said("start", at_us, at_us + _SOON_US),))
                return
            yield from (self._told_twice(job, dice) for job in self._attempts(slot, dice))
            if dice.random() < plan.overlaps:
                yield self._intruder(slot, dice)
            at_us = end_us + (0 if dice.random() < 0.3 else minutes_us(dice, 0.02, 4))

    def _attempts(self, slot: _Slot, dice: Random) -> Iterator[Job]:
        plan = self._plan
        if dice.random() < plan.missing_stops:
            middle_us = slot.start_us + (slot.end_us - slot.start_us) // 2000 * 1000
            first, second = replace(slot, end_us=middle_us), replace(slot, attempt=1, start_us=middle_us)
            start = first.said("start", first.start_us, first.start_us + _SOON_US)
            yield Job((first.hold(first.start_us, middle_us),), (start,))
            yield self._plain(second, dice)
        elif dice.random() < plan.zombies:
            yield self._zombie(slot, dice)
        elif dice.random() < plan.suspends:
            yield self._suspended(slot, dice)
        elif dice.random() < plan.corrected_jobs:
            yield self._corrected_end(slot, dice) if dice.random() < 0.6 else self._corrected_start(slot, dice)
        else:
            yield self._plain(slot, dice)

    def _plain(self, slot: _Slot, dice: Random) -> Job:
        plan = self._plan
        start_said, end_said = slot.start_us + _SOON_US, slot.end_us + _SOON_US
        if dice.random() < plan.late_jobs:
            if dice.random() < 0.3:
                start_said += minutes_us(dice, 1, plan.late_by_min)
            else:
                end_said += minutes_us(dice, 1, plan.late_by_min)
        if dice.random() < plan.shuffled_jobs:
            start_said = end_said + minutes_us(dice, 0.1, plan.late_by_min)
        said = (slot.said("start", slot.start_us, start_said), slot.said("end", slot.end_us, end_said))
        return Job((slot.hold(slot.start_us, slot.end_us),), said)

    def _zombie(self, slot: _Slot, dice: Random) -> Job:
        """The tenant asked to stop; the devices were free only later, and that was reported later still."""
        stop_us = slot.start_us + (slot.end_us - slot.start_us) * dice.randint(50, 95) // 100_000 * 1000
        late_us = minutes_us(dice, 0.1, self._plan.late_by_min)
        said = (
            slot.said("start", slot.start_us, slot.start_us + _SOON_US),
            slot.said("stop_requested", stop_us, stop_us + late_us),
            slot.said("released", slot.end_us, slot.end_us + late_us),
        )
        return Job((slot.hold(slot.start_us, slot.end_us, paid_until_us=stop_us),), said)

    def _suspended(self, slot: _Slot, dice: Random) -> Job:
        third_us = (slot.end_us - slot.start_us) // 3000 * 1000
        off_us, on_us = slot.start_us + third_us, slot.start_us + 2 * third_us
        late_us = minutes_us(dice, 0.1, self._plan.late_by_min)
        said = (
            slot.said("start", slot.start_us, slot.start_us + _SOON_US),
            slot.said("suspend", off_us, off_us + late_us),
            slot.said("resume", on_us, on_us + _SOON_US),
            slot.said("end", slot.end_us, slot.end_us + _SOON_US),
        )
        return Job((slot.hold(slot.start_us, off_us), slot.hold(on_us, slot.end_us, 1)), said)

    def _corrected_end(self, slot: _Slot, dice: Random) -> Job:
        """First an end that was too late, then the right one: the first end in event time is what counts."""
        wrong_us = slot.end_us + minutes_us(dice, 0.1, 5)
        late_us = minutes_us(dice, 1, self._plan.late_by_min)
        said = (
            slot.said("start", slot.start_us, slot.start_us + _SOON_US),
            slot.said("end", wrong_us, wrong_us + _SOON_US, "-wrong"),
            slot.said("end", slot.end_us, wrong_us + _SOON_US + late_us),
        )
        return Job((slot.hold(slot.start_us, slot.end_us),), said)

    def _corrected_start(self, slot: _Slot, dice: Random) -> Job:
        """First a start that was too late, for another tenant: the earliest start's word counts."""
        wrong_us = slot.start_us + (slot.end_us - slot.start_us) // 4000 * 1000
        wrong = replace(slot, tenant=TENANTS[(TENANTS.index(slot.tenant) + 1) % len(TENANTS)])
        late_us = minutes_us(dice, 1, self._plan.late_by_min)
        said = (
            wrong.said("start", wrong_us, wrong_us + _SOON_US, "-wrong"),
            slot.said("start", slot.start_us, wrong_us + _SOON_US + late_us),
            slot.said("end", slot.end_us, slot.end_us + _SOON_US),
        )
        return Job((slot.hold(slot.start_us, slot.end_us),), said)

    def _intruder(self, slot: _Slot, dice: Random) -> Job:
        """Another job that claims the same devices for part of the time."""
        quarter_us = (slot.end_us - slot.start_us) // 4000 * 1000
        tenant = TENANTS[(TENANTS.index(slot.tenant) + 2) % len(TENANTS)]
        first_us = slot.start_us + quarter_us
        other = replace(
            slot, job=slot.job + "-i", tenant=tenant, start_us=first_us, end_us=first_us + 2 * quarter_us, attempt=0
        )
        return self._told_twice(self._plain(other, dice), dice)

    def _told_twice(self, job: Job, dice: Random) -> Job:
        again = [
            said._replace(said_us=said.said_us + minutes_us(dice, 0.1, 20))
            for said in job.said
            if dice.random() < self._plan.duplicate_events
        ]
        return replace(job, said=(*job.said, *again)) if again else job
