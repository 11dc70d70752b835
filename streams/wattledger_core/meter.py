"""Both meters over one partition: what each batch and quarter-hour writes, and what a late revision corrects.

Pure: the shell feeds records and re-reads batches from the log when asked. Owns readiness, dead-letter verdicts and
the quarter-hour pointer; pricing is apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from wattledger_core.allocation_meter import TIME, time_lines
from wattledger_core.batch import Batch
from wattledger_core.book import Book, Entry, View
from wattledger_core.energy_meter import ENERGY, energy_lines, energy_totals
from wattledger_core.interval import FOREVER_US, Interval
from wattledger_core.late import Cut, Written, write_chain
from wattledger_core.line import DeviceTotal, Discrepancy, Line
from wattledger_core.policy import Policy
from wattledger_core.revision import AllocationRecord
from wattledger_core.steady import BatchCurves
from wattledger_core.units import QUARTER_US, quarter_floor_us

READY = "ready"
WAIT = "wait"
TOO_FAR_AHEAD = "too_far_ahead"


@dataclass(frozen=True, slots=True)
class Group:
    """What one batch or quarter-hour of one node appends: the content of one `usage-lines` record."""

    kind: str
    node: str
    start_us: int
    end_us: int
    partition: int
    offset: int
    cause_id: str
    lines: list[Line]
    totals: list[DeviceTotal]
    discrepancies: list[Discrepancy]


@dataclass(frozen=True, slots=True)
class Reach:
    """What a late revision can change: batches and quarters of `node` that overlap one of the intervals and ended at
    or before `closed_us`."""

    entry: Entry
    node: str
    intervals: tuple[Interval, ...]
    closed_us: int

    def touches(self, start_us: int, end_us: int) -> bool:
        """Whether what ran over `[start_us, end_us)` was settled before the revision came, and can change by it."""
        return end_us <= self.closed_us and any(a < end_us and b > start_us for a, b in self.intervals)


class PartitionMeter:
    """The meters of one partition. Feed `allocations` records in log order with `read`; then ask."""

    def __init__(self, sources: int, policy: Policy) -> None:
        self.book = Book(sources)
        self.policy = policy
        self._next_quarter_us: dict[str, int] = {}

    def read(self, record: AllocationRecord) -> Reach | None:
        """Take one record of the partition; what it may correct, when it is new and about what is settled."""
        entry = self.book.add(record)
        if entry is None:
            return None
        closed_us = entry.revision.known_us - self.policy.lateness_us
        intervals = tuple((a, min(b, closed_us)) for a, b in self.book.changed(entry) if a < closed_us)
        return Reach(entry, entry.revision.node, intervals, closed_us) if intervals else None

    def verdict(self, end_us: int, price_tick_us: int) -> str:
        """Whether a batch or quarter that ended at `end_us` can be settled: every source and the price book have
        marked `end_us + L`; or it lies too far ahead of the newest mark to be believed."""
        if min(self.book.settled_us, price_tick_us) >= end_us + self.policy.lateness_us:
            return READY
        newest_us = self.book.newest_mark_us
        if newest_us and end_us > newest_us + self.policy.future_limit_us:
            return TOO_FAR_AHEAD
        return WAIT

    def meter_batch(self, batch: Batch, partition: int, offset: int) -> Group:
        """All that a settled batch writes: originals, then each late revision's step so far."""
        return self._batch_group(batch, partition, offset, None)

    def correct_batch(self, batch: Batch, partition: int, offset: int, reach: Reach) -> Group | None:
        """What a late revision changes of a batch written earlier; None when nothing.

        None too while the book is not settled up to the batch: then another worker wrote it, who had read on, and the
        revision is in what that one wrote. A step from here would lack what other sources still say in time.
        """
        if batch.node != reach.node or not reach.touches(batch.start_us, batch.end_us):
            return None
        if self.book.settled_us < batch.end_us + self.policy.lateness_us:
            return None
        return _unless_empty(self._batch_group(batch, partition, offset, reach.entry))

    def due_quarters(self, price_tick_us: int) -> Iterator[Group]:
        """Quarter-hours that have become settled since the last call, by node then time."""
        settled_us = min(self.book.settled_us, price_tick_us) - self.policy.lateness_us
        for node in self.book.nodes():
            quarter_us = self._next_quarter_us.get(node)
            if quarter_us is None:
                first = self._first_quarter_us(node)
                if first is None:
                    continue
                quarter_us = first
            while quarter_us + QUARTER_US <= settled_us:
                group = _unless_empty(self._quarter_group(node, quarter_us, None))
                quarter_us += QUARTER_US
                self._next_quarter_us[node] = quarter_us
                if group is not None:
                    yield group

    def correct_quarters(self, reach: Reach) -> Iterator[Group]:
        """What a late revision changes of the quarter-hours written earlier."""
        done_us = min(self._next_quarter_us.get(reach.node, 0), reach.closed_us)
        quarters = {
            quarter_us
            for start_us, end_us in reach.intervals
            for quarter_us in range(quarter_floor_us(start_us), min(end_us, done_us), QUARTER_US)
        }
        for quarter_us in sorted(quarters):
            if quarter_us + QUARTER_US <= done_us:
                group = _unless_empty(self._quarter_group(reach.node, quarter_us, reach.entry))
                if group is not None:
                    yield group

    def skip_due(self) -> None:
        """After a silent read of what was settled before a restart: the quarter-hours due by the marks are written."""
        settled_us = self.book.settled_us - self.policy.lateness_us
        for node in self.book.nodes():
            first_us = self._first_quarter_us(node)
            if first_us is not None and settled_us >= first_us + QUARTER_US:
                self._next_quarter_us[node] = quarter_floor_us(settled_us)

    def _first_quarter_us(self, node: str) -> int | None:
        starts = [fact.start_us for fact in self.book.facts(node, "inventory", 0, FOREVER_US, View(FOREVER_US))]
        return quarter_floor_us(min(starts)) if starts else None

    def _batch_group(self, batch: Batch, partition: int, offset: int, only: Entry | None) -> Group:
        cutoff_us = batch.end_us + self.policy.lateness_us
        curves = BatchCurves(batch, self.policy)
        totals = energy_totals(batch, curves, partition, offset)

        def cut(view: View) -> Cut:
            lines, found = energy_lines(batch, curves, self.book, view)
            return Cut(lines, totals, found)

        devices = [device.device for device in batch.devices]
        late = self.book.late(batch.node, devices, batch.start_us, batch.end_us, cutoff_us)
        written = write_chain(cut, cutoff_us, late, only)
        return _group(ENERGY, batch.node, batch.start_us, batch.end_us, partition, offset, only, written)

    def _quarter_group(self, node: str, quarter_us: int, only: Entry | None) -> Group:
        end_us = quarter_us + QUARTER_US
        cutoff_us = end_us + self.policy.lateness_us

        def cut(view: View) -> Cut:
            return Cut(*time_lines(self.book, node, quarter_us, view))

        late = self.book.late(node, self.book.devices(node), quarter_us, end_us, cutoff_us)
        written = write_chain(cut, cutoff_us, late, only)
        return _group(TIME, node, quarter_us, end_us, -1, -1, only, written)


def _group(
    kind: str, node: str, start_us: int, end_us: int, partition: int, offset: int, only: Entry | None, written: Written
) -> Group:
    cause_id = only.revision.revision_id if only else ""
    return Group(
        kind, node, start_us, end_us, partition, offset, cause_id, written.lines, written.totals, written.discrepancies
    )


def _unless_empty(group: Group) -> Group | None:
    return group if group.lines or group.totals or group.discrepancies else None
