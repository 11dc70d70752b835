"""Judges what arrived at the broker against what was true on a simulated machine. Its rules are its own: none of them
is the agent's. A complaint is a sentence; no complaint, no wrong joule, no wrong second, no silent loss."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from wattledger_core.batch import Batch
from wattledger_core.event import JobEvent, Tick
from wattledger_core.line import DeviceTotal
from wattledger_core.meter import PartitionMeter
from wattledger_core.policy import Policy
from wattledger_core.replay import Logs, fold_allocations, replay
from wattledger_core.revision import AllocationRevision, Mark
from wattledger_streams.mapping import from_wire_batch, from_wire_job_event, from_wire_node_event

from tests.agent_life import CODEC, Noticed
from tests.agent_script import Script
from tests.agent_world import DAY, MOST_MW, RESOLUTION_UJ, T0, Job, S, TrueRead

Interval = tuple[int, int]
FAR_US = T0 + 3000 * DAY
_AHEAD_US = 300 * S
_BRIDGED_US = 7 * DAY
_SLACK_US = 600_000
"""What a disciplined clock may be off from the machine's."""


@dataclass(slots=True)
class Said:
    """What one device's part of one batch says, and the truth about its ticks."""

    batch: Batch
    device: str
    row: int
    total: DeviceTotal


class Judge:
    """`complaints` are sentences."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.story = script.lives.story
        self.machine = script.machine
        self.complaints: list[str] = []
        self.gaps: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []
        self.events: list[Any] = []
        self.job_events: list[JobEvent] = []
        self.batches: list[Batch] = []
        self.inventories: list[dict[str, Any]] = []
        self._read_topics()
        self.notices: dict[int, Noticed] = {}
        for noticed in self.story.noticed:
            if noticed.stamp_us in self.notices:
                self.complain(f"the stamp {_at(noticed.stamp_us)} is given twice")
            self.notices[noticed.stamp_us] = noticed

    def complain(self, sentence: str) -> None:
        self.complaints.append(sentence)

    def judge(self) -> list[str]:
        self.judge_tiling()
        totals = self.integrate()
        self.judge_energy(totals)
        self.judge_coverage()
        self.judge_jobs()
        self.judge_stamps()
        return self.complaints

    def _read_topics(self) -> None:
        """As downstream: records by topic, a repeated one once."""
        batches: dict[tuple[str, int], bytes] = {}
        for arrived in self.story.arrived:
            subject, _, record = CODEC.decode(arrived.record.value)
            if subject == "sample_batch":
                key = record["boot_id"], record["seq"]
                if batches.setdefault(key, arrived.record.value) != arrived.record.value:
                    self.complain(f"batch {key} arrived with two contents")
                elif batches[key] is arrived.record.value:
                    self.batches.append(from_wire_batch(record))
            elif subject == "gap":
                self.gaps.append(record)
            elif subject == "dead_letter":
                self.findings.append(record)
            elif subject == "job_event":
                self.events.append(from_wire_job_event(record))
                self.job_events.append(self.events[-1])
            else:
                self.events.append(from_wire_node_event(record))
                self.inventories.append(record)

    # (1) no time of a device is in two batches

    def judge_tiling(self) -> None:
        for device in self.machine.cards:
            spans = sorted(
                (b.start_us, b.end_us, b.boot_id, b.seq) for b in self.batches if _row(b, device) is not None
            )
            for before, after in pairwise(spans):
                # a damaged log may have lost its memory of what a wrong clock said
                if after[0] < before[1] and not (self.story.corrupted and len(self.machine.clock.errors) > 1):
                    self.complain(f"{device}: batch {_span(after)} overlaps {_span(before)}")

    # (2), (3) joules

    def integrate(self) -> dict[tuple[str, int], DeviceTotal]:
        """What the core makes of it: totals by device and start of the batch. Its lines must sum to them."""
        events = {0: [*enumerate(self.events), (len(self.events), Tick(FAR_US))]}
        samples = list(enumerate(self.batches))
        times = [b.start_us for b in self.batches] + [e.at_us for e in self.events]
        nodes = {"n1": 0}
        if times and max(times) - min(times) < 9 * DAY:
            end_us = max([b.end_us for b in self.batches] + times) + 120 * S
            events[0][-1] = (len(self.events), Tick(end_us))
            result = replay(Logs(events, {0: samples}, [(0, Tick(end_us))]), Policy(), 1, nodes)
            lines, totals = result.lines, [t for t in result.totals if t.kind == "energy"]
        else:
            meter = PartitionMeter(1, Policy())
            for record in fold_allocations(events, 1, nodes)[0]:
                meter.read(record)
            groups = [meter.meter_batch(batch, 0, offset) for offset, batch in samples]
            lines = [line for group in groups for line in group.lines]
            totals = [total for group in groups for total in group.totals]
        if len({line.line_id for line in lines}) != len(lines):
            self.complain("two lines have one id")
        sums: dict[tuple[str, int], int] = {}
        for line in lines:
            if line.kind == "energy":
                key = line.device, line.group_start_us
                sums[key] = sums.get(key, 0) + (line.energy_uj or 0)
        found = {(total.device, total.group_start_us): total for total in totals}
        if len(found) != len(totals):
            self.complain("two batches of a device have one identity downstream")
        for key, total in found.items():
            if sums.get(key, 0) != total.energy_uj:
                self.complain(f"lines of {key} sum to {sums.get(key, 0)}, the total is {total.energy_uj}")
        return found

    def judge_energy(self, totals: dict[tuple[str, int], DeviceTotal]) -> None:
        for batch in self.batches:
            for row, device in enumerate(batch.devices):
                total = totals.get((device.device, batch.start_us))
                if total is None:
                    self.complain(f"{device.device}: batch {_at(batch.start_us)} has no total")
                    continue
                self._judge_batch(Said(batch, device.device, row, total))

    def _judge_batch(self, said: Said) -> None:
        ticks = said.batch.ticks_us.tolist()
        missing = [t for t in ticks if t not in self.notices]
        if missing:
            self.complain(f"{said.device}: a batch has a tick that was never taken: {_at(missing[0])}")
            return
        reads = [self.notices[t].reads.get(said.device) for t in ticks]
        most_nj, exact_nj, measured_us, is_exact = self._bounds(said, ticks, reads)
        slack_nj = 2000 * RESOLUTION_UJ * (1 + sum(r is not None for r in reads) // 8)
        energy_nj = said.total.energy_uj * 1000
        where = f"{said.device} {_at(ticks[0])}..{_at(ticks[-1])}"
        if energy_nj > most_nj + slack_nj:
            self.complain(f"{where}: {energy_nj / 1e9:.3f} J said, at most {most_nj / 1e9:.3f} J drawn")
        if is_exact and abs(energy_nj - exact_nj) > slack_nj:
            self.complain(f"{where}: {energy_nj / 1e9:.3f} J said, {exact_nj / 1e9:.3f} J drawn between good readings")
        if said.total.measured_us > measured_us:
            self.complain(f"{where}: {said.total.measured_us} us measured, {measured_us} us were readable")

    def _bounds(self, said: Said, ticks: list[int], reads: list[TrueRead | None]) -> tuple[int, int, int, bool]:
        """(most energy, energy of stretches between good counter readings, time that can be known, whether those
        stretches are all of it)."""
        card = self.machine.cards[said.device]
        limit_us = max(3 * said.batch.period_us, 5 * S)
        good = [i for i, r in enumerate(reads) if r is not None and r.counter_uj is not None and r.is_true]
        told = [i for i, r in enumerate(reads) if r is not None and r.counter_uj is not None]
        most_nj = exact_nj = measured_us = 0
        inside: set[int] = set()
        for a, b in pairwise(good):
            first, last = reads[a], reads[b]
            assert first is not None and last is not None
            if first.epoch == last.epoch:
                inside.update(range(a, b))
                exact_nj += card.energy_nj(last.at_us) - card.energy_nj(first.at_us)
        most_nj, measured_us = exact_nj, sum(ticks[i + 1] - ticks[i] for i in inside)
        for i in range(len(ticks) - 1):
            if i in inside:
                continue
            span_us = ticks[i + 1] - ticks[i]
            first, last = reads[i], reads[i + 1]
            is_short = span_us <= limit_us and first is not None and last is not None
            # between two told readings the counter may be believed although one of them is not the card's own
            is_told = any(a <= i < b for a, b in pairwise(told))
            true_nj = self._true_nj(said.device, ticks[i], ticks[i + 1])
            most_nj += max(MOST_MW * span_us * is_short, true_nj * is_told)
            measured_us += span_us if is_short or is_told else 0
        is_exact = (
            len(inside) == len(ticks) - 1 and set(told) == set(good) and not self._is_squeezed(ticks, said.device)
        )
        return most_nj, exact_nj, measured_us, is_exact

    def _true_nj(self, device: str, a_us: int, b_us: int) -> int:
        """What it drew between two ticks: between the readings, where there are any."""
        first, last = self.notices[a_us], self.notices[b_us]
        reads = [one.reads[device].at_us if device in one.reads else one.true_us for one in (first, last)]
        card = self.machine.cards[device]
        return card.energy_nj(reads[1]) - card.energy_nj(reads[0])

    def _is_squeezed(self, ticks: list[int], device: str) -> bool:
        """More energy in one pair than any device can draw in its time, for the clock was corrected in between."""
        return any(self._true_nj(device, a, b) > 4_000_000 * (b - a) for a, b in pairwise(ticks))

    # (5) what was read is in a batch, or a gap says that it is not

    def judge_coverage(self) -> None:
        if self.story.corrupted:
            return
        durable = [n for n, one in enumerate(self.story.noticed) if one.is_durable]
        for device in self.machine.cards:
            said = _joined((b.start_us, b.end_us) for b in self.batches if _row(b, device) is not None)
            for before, after in pairwise(durable):
                between = self.story.noticed[before : after + 1]
                if any(device not in one.listed for one in between):
                    continue
                a_us, b_us = between[0].stamp_us, between[-1].stamp_us
                covers = a_us < b_us and any(start <= a_us and b_us <= end for start, end in said)
                if not covers and not any(_tells(gap, a_us, b_us) for gap in self.gaps):
                    self.complain(f"{device}: nothing says what was drawn over {_at(a_us)}..{_at(b_us)}")

    # (4) who held what

    def judge_jobs(self) -> None:
        lost = [gap for gap in self.gaps if gap["topic"] != "gpu-samples"]
        if self.story.corrupted or lost:
            return
        events = {0: [*enumerate(self.events), (len(self.events), Tick(FAR_US))]}
        standing: dict[str, AllocationRevision] = {}
        for record in fold_allocations(events, 1, {"n1": 0})[0]:
            if isinstance(record, Mark):
                continue
            if isinstance(record, AllocationRevision):
                standing[record.allocation_id] = record
        held = [r for r in standing.values() if not r.void]
        for job in self.machine.jobs:
            mine = [r for r in standing.values() if (r.job, r.attempt) == (job.job, job.attempt)]
            if not self._has_finding(job):
                self._judge_job(job, mine)
        known = {(job.job, job.attempt) for job in self.machine.jobs}
        for revision in held:
            if (revision.job, revision.attempt) not in known and not self._has_finding_of(revision.job):
                self.complain(f"{revision.job} attempt {revision.attempt} is held, and never was")

    def _has_finding(self, job: Job) -> bool:
        return self._has_finding_of(job.job)

    def _has_finding_of(self, name: str) -> bool:
        return any(f"/{name}:" in finding["detail"] for finding in self.findings)

    def _judge_job(self, job: Job, mine: list[AllocationRevision]) -> None:
        name = f"{job.job}#{job.attempt} on {job.device} {job.gpu_instance}"
        looks = [look for look in self.story.looks if look[0] == job.source and look[1] > job.start_us]
        over_us = job.end_us if job.end_us is not None else job.cut_us
        seen = [look for look in looks if over_us is None or look[1] < over_us]
        can_be_known = bool(seen) or (job.source == "slurm" and job.cut_us is None and bool(looks))
        if job.source == "slurm" and job.end_us is not None:
            lost = any(job.start_us < cut <= looks[0][1] for cut in self.machine.reboots) if looks else True
            can_be_known = not lost
        if not mine:
            if can_be_known:
                self.complain(f"{name}: a look saw it, and nobody holds it")
            return
        said = [r for r in mine if not r.void] or mine[:1]
        if len(said) > 1 or said[0].device != job.device or said[0].gpu_instance != job.gpu_instance:
            self.complain(f"{name}: said as {[(r.device, r.gpu_instance, _at(r.start_us)) for r in said]}")
            return
        self._judge_times(job, name, said[0], looks, over_us)

    def _judge_times(
        self, job: Job, name: str, said: AllocationRevision, looks: list[tuple[str, int, int]], over_us: int | None
    ) -> None:
        if said.start_us != job.start_wall_us:
            self.complain(f"{name}: began at {_at(job.start_wall_us)} by its source, said {_at(said.start_us)}")
        after = [look for look in looks if over_us is not None and look[1] > over_us]
        if said.end_us is None:
            if after:
                self.complain(f"{name}: it is over since {_at(over_us or 0)}, and still held")
            return
        if over_us is None:
            self.complain(f"{name}: it runs, and is said to have ended at {_at(said.end_us)}")
            return
        cuts = [cut for cut in self.machine.reboots if cut > over_us]
        is_told = bool(after) and after[0][1] < min(cuts, default=FAR_US)
        if job.source == "slurm" and job.end_wall_us is not None and is_told:
            if said.end_us != max(job.end_wall_us, said.start_us):
                self.complain(f"{name}: ended at {_at(job.end_wall_us)} by its source, said {_at(said.end_us)}")
            return
        before = [look[1] for look in looks if look[1] <= over_us]
        known_us = max(before, default=job.start_us)
        lowest = self._walls(over_us if job.cut_us is None else known_us - 12 * S)[0]
        highest = self._walls(over_us if job.cut_us is not None else after[0][1] if after else over_us)[1]
        if job.source == "slurm" and cuts and not is_told:
            highest = max(highest, self._walls(min(cuts))[1])
        if not min(lowest - S, said.start_us) <= said.end_us <= max(highest + S, said.start_us):
            self.complain(f"{name}: over at {_at(lowest)}..{_at(highest)}, said {_at(said.end_us)}")

    def _walls(self, at_us: int) -> Interval:
        """What a clock may show that believes a step after ten seconds, and an agent's start at once."""
        within_us = 12 * S + 2 * self.story.period_us
        stretches: list[tuple[int, int, int, int]] = []
        for (a_us, first, ppm), (b_us, _, _) in pairwise([*self.machine.clock.errors, (FAR_US, 0, 0)]):
            if a_us > at_us:
                break
            b_us = min(b_us, at_us)
            last = first + (b_us - a_us) * ppm // S
            if stretches and abs(stretches[-1][3] - first) <= _SLACK_US:
                since_us, _, earliest, _ = stretches.pop()
                stretches.append((since_us, b_us, earliest, last))
            elif b_us > a_us or not stretches:
                stretches.append((a_us, b_us, first, last))
        offsets: list[int] = []
        for one in reversed(stretches):
            length_us = one[1] - one[0]
            if one is stretches[0] or length_us >= 9_900_000 or self._starts_in(one):
                offsets += one[2:]
            if length_us >= within_us:
                break
        return at_us + min(offsets), at_us + max(offsets)

    def _starts_in(self, stretch: tuple[int, int, int, int]) -> bool:
        return any(stretch[0] <= us <= stretch[1] for us in self.story.starts)

    def judge_stamps(self) -> None:
        for noticed in self.story.noticed:
            low, high = self._walls(noticed.true_us)
            if not low - _SLACK_US <= noticed.stamp_us <= high + _SLACK_US:
                self.complain(f"a tick of {_at(noticed.true_us)} is stamped {_at(noticed.stamp_us)}")


def _row(batch: Batch, device: str) -> int | None:
    return next((n for n, d in enumerate(batch.devices) if d.device == device), None)


def _tells(gap: dict[str, Any], a_us: int, b_us: int) -> bool:
    """Whether a gap record is about what lies in `[a, b]`, or can't tell what it is about."""
    if gap["topic"] not in ("gpu-samples", "ticks", ""):
        return False
    if gap["from_us"] is None or gap["to_us"] is None:
        return True
    first, last = (a_us, FAR_US) if b_us <= a_us else (a_us, b_us)
    # a record that was dropped is named by the end of its batch, which may bridge a week
    behind_us = 0 if gap["count"] == 0 else 8 * DAY
    return bool(gap["from_us"] - behind_us <= last and gap["to_us"] >= first)


def _joined(spans: Iterable[Interval]) -> list[Interval]:
    found: list[Interval] = []
    for start_us, end_us in sorted(spans):
        if found and start_us <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end_us)
        else:
            found.append((start_us, end_us))
    return found


def _at(us: int) -> str:
    return f"{(us - T0) / S:.6f}"


def _span(span: tuple[int, int, str, int]) -> str:
    return f"{_at(span[0])}..{_at(span[1])} ({span[2]}/{span[3]})"


def said_energy_uj(batches: list[Batch], device: str) -> Iterator[int]:
    """Increase of the counter in each batch."""
    for batch in batches:
        row = _row(batch, device)
        if row is not None:
            valid = np.flatnonzero(batch.counter_valid[row])
            if len(valid):
                yield int(batch.counter_uj[row][valid[-1]] - batch.counter_uj[row][valid[0]])
