"""The allocation book of one partition: every revision in order of first occurrence, and views of it.

A view is "known before a cutoff, plus the late revisions up to an index". Owns duplicates and what is known when;
not who pays.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from wattledger_core.interval import FOREVER_US, Interval, merge
from wattledger_core.revision import (
    AllocationRecord,
    AllocationRevision,
    Mark,
    NodeRevision,
    Origin,
    Revision,
)
from wattledger_core.units import QUARTER_US, US_PER_DAY

NO_LATE = -1
FAILED = "failed"
_SHORT_US = 8 * 4 * QUARTER_US
"""Hulls up to eight hours are kept by quarter-hour: 33 places at most."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A revision with its index: the order of first occurrence in the partition."""

    index: int
    revision: Revision


@dataclass(frozen=True, slots=True)
class View:
    """What is known: revisions with `known_us < cutoff_us`, and late ones up to and including index `late`."""

    cutoff_us: int
    late: int = NO_LATE


@dataclass(slots=True)
class _History:
    """All revisions of one allocation or fact, in order, and the hull of when any view can see it."""

    entries: list[Entry] = field(default_factory=list)
    _changes: list[list[Interval]] = field(default_factory=list)
    """Of the first entries, as far as anybody asked: what an entry changes is settled when it is appended."""

    def changes(self, place: int) -> list[Interval]:
        """When the entry at a place says something else than the one before it."""
        while len(self._changes) <= place:
            self._changes.append(_changed(self.entries, len(self._changes)))
        return self._changes[place]

    def at(self, view: View) -> Revision | None:
        cutoff_us, late = view.cutoff_us, view.late
        for entry in reversed(self.entries):
            if entry.revision.known_us < cutoff_us or entry.index <= late:
                return entry.revision
        return None

    def hull(self) -> tuple[int, int]:
        """An open revision can be seen only up to the tick at which the next one is known."""
        start = min(entry.revision.start_us for entry in self.entries)
        ends = [
            min(entry.revision.until_us, after.revision.known_us)
            for entry, after in zip(self.entries, self.entries[1:], strict=False)
        ]
        ends.append(self.entries[-1].revision.until_us)
        return start, max(ends)


@dataclass(slots=True)
class _Device:
    """Allocations of one device by where their hull is: open ones, short ones by quarter-hour, long ones by UTC day.

    A batch then looks at the jobs around it, however many the device had that day.
    """

    open: dict[str, None] = field(default_factory=dict)
    quarters: dict[int, dict[str, None]] = field(default_factory=dict)
    days: dict[int, dict[str, None]] = field(default_factory=dict)

    def place(self, allocation_id: str, hull: tuple[int, int]) -> None:
        start, end = hull
        if end >= FOREVER_US:
            self.open[allocation_id] = None
            return
        self.open.pop(allocation_id, None)
        places, width_us = (self.quarters, QUARTER_US) if end - start <= _SHORT_US else (self.days, US_PER_DAY)
        for place in range(start // width_us, max(end - 1, start) // width_us + 1):
            places.setdefault(place, {})[allocation_id] = None

    def near(self, start_us: int, end_us: int) -> Collection[str]:
        """Ids that may overlap the interval, each once."""
        closed = []
        for places, width_us in ((self.quarters, QUARTER_US), (self.days, US_PER_DAY)):
            if places:
                first, last = start_us // width_us, (end_us - 1) // width_us
                wanted = range(first, last + 1) if last - first < len(places) else sorted(places)
                closed += [places[place] for place in wanted if place in places and first <= place <= last]
        if not closed:
            return self.open
        found = dict(self.open)
        for ids in closed:
            found.update(ids)
        return found


def _says(revision: Revision) -> Revision:
    """The revision without what it is called and when it came: what an announcement repeats."""
    return replace(revision, revision_id="", origin=Origin(0, 0), known_us=0, announced=False)


class Book:
    """Fold of one `allocations` partition fed by `sources` partitions of `job-events`."""

    def __init__(self, sources: int) -> None:
        self.sources = sources
        self.marks: dict[int, int] = {}
        self.stale_sources: dict[int, tuple[str, ...]] = {}
        self._seen: dict[int, Origin] = {}
        self._next_index = 0
        self._allocations: dict[str, _History] = {}
        self._devices: dict[tuple[str, str], _Device] = {}
        self._facts: dict[str, dict[str, _History]] = {}
        self._node_devices: dict[str, dict[str, None]] = {}
        self._newest_known_us: dict[str, int] = {}

    @property
    def settled_us(self) -> int:
        """Every source has marked up to here; 0 until all have."""
        return min(self.marks.values()) if len(self.marks) >= self.sources else 0

    @property
    def newest_mark_us(self) -> int:
        return max(self.marks.values(), default=0)

    def add(self, record: AllocationRecord) -> Entry | None:
        """Take the next record; None for marks, duplicates and announcements of what is known already.

        A record at or below an origin already seen from its source is a duplicate (DESIGN.md section 3).
        """
        source = record.origin.partition
        seen = self._seen.get(source)
        if seen is not None and record.origin <= seen:
            return None
        self._seen[source] = record.origin
        if isinstance(record, Mark):
            self.marks[source] = max(record.at_us, self.marks.get(source, 0))
            self.stale_sources[source] = record.stale_sources
            return None
        history = self._history(record)
        if record.announced and history.entries and _says(history.entries[-1].revision) == _says(record):
            return None
        entry = Entry(self._next_index, record)
        self._next_index += 1
        history.entries.append(entry)
        self._newest_known_us[record.node] = max(record.known_us, self._newest_known_us.get(record.node, 0))
        if isinstance(record, AllocationRevision):
            key = (record.node, record.device)
            self._devices.setdefault(key, _Device()).place(record.allocation_id, history.hull())
            self._node_devices.setdefault(record.node, {})[record.device] = None
        else:
            for device in record.devices:
                self._node_devices.setdefault(record.node, {})[device.device] = None
        return entry

    def _history(self, record: Revision) -> _History:
        if isinstance(record, AllocationRevision):
            return self._allocations.setdefault(record.allocation_id, _History())
        return self._facts.setdefault(record.node, {}).setdefault(record.fact_id, _History())

    def nodes(self) -> list[str]:
        """Nodes with any fact, in order of first occurrence."""
        return list(self._facts)

    def devices(self, node: str) -> list[str]:
        """Devices ever seen on a node, in order of first occurrence."""
        return list(self._node_devices.get(node, ()))

    def allocations(self, node: str, device: str, start_us: int, end_us: int, view: View) -> list[AllocationRevision]:
        """Allocations of the device that overlap `[start_us, end_us)` in the view, by allocation id."""
        found: list[AllocationRevision] = []
        for history in self._near(node, device, start_us, end_us):
            revision = history.at(view)
            if (
                isinstance(revision, AllocationRevision)
                and not revision.void
                and revision.start_us < end_us
                and revision.until_us > start_us
            ):
                found.append(revision)
        if len(found) > 1:
            found.sort(key=lambda revision: revision.allocation_id)
        return found

    def facts(self, node: str, kind: str, start_us: int, end_us: int, view: View) -> list[NodeRevision]:
        """Facts of one kind about the node that overlap the interval in the view, by start then fact id."""
        found: list[NodeRevision] = []
        for history in self._facts.get(node, {}).values():
            revision = history.at(view)
            if (
                isinstance(revision, NodeRevision)
                and revision.kind == kind
                and not revision.void
                and revision.start_us < end_us
                and revision.until_us > start_us
            ):
                found.append(revision)
        return sorted(found, key=lambda fact: (fact.start_us, fact.fact_id))

    def late(self, node: str, devices: Iterable[str], start_us: int, end_us: int, cutoff_us: int) -> list[Entry]:
        """Late revisions that may touch `[start_us, end_us)` of these devices or of the node, in order of occurrence:
        `known_us >= cutoff_us`, and the revision or the one that it replaces overlaps the interval."""
        if self._newest_known_us.get(node, 0) < cutoff_us:
            return []
        late: list[Entry] = []
        for history in self._facts.get(node, {}).values():
            late += _late_entries(history, start_us, end_us, cutoff_us)
        for device in devices:
            for history in self._near(node, device, start_us, end_us):
                late += _late_entries(history, start_us, end_us, cutoff_us)
        return sorted(late, key=lambda entry: entry.index)

    def changed(self, entry: Entry) -> list[Interval]:
        """When this revision says something else than the one that it replaces."""
        history = self._history(entry.revision)
        return history.changes(history.entries.index(entry))

    def _near(self, node: str, device: str, start_us: int, end_us: int) -> list[_History]:
        index = self._devices.get((node, device))
        if index is None:
            return []
        return [self._allocations[allocation_id] for allocation_id in index.near(start_us, end_us)]


def _changed(entries: list[Entry], place: int) -> list[Interval]:
    new = entries[place].revision
    if place == 0:
        return merge(_extents(new))
    old = entries[place - 1].revision
    if _about(old) != _about(new):
        return merge([*_extents(old), *_extents(new)])
    edges = [(old.start_us, new.start_us), (old.until_us, new.until_us)]
    if isinstance(old, AllocationRevision) and isinstance(new, AllocationRevision):
        edges.append((old.paid_until_us, new.paid_until_us))
    if old.void or new.void or _fails(new):
        return merge([*_extents(old), *_extents(new)])
    return merge((min(edge), max(edge)) for edge in edges)


def _extents(revision: Revision) -> list[Interval]:
    """When the revision says anything; a node's failure ends what it held for good."""
    if revision.void:
        return []
    return [(revision.start_us, FOREVER_US if _fails(revision) else revision.until_us)]


def _fails(revision: Revision) -> bool:
    return isinstance(revision, NodeRevision) and revision.state == FAILED


def _about(revision: Revision) -> Revision:
    """The revision without its name, its times, and what no line shows."""
    plain = replace(_says(revision), start_us=0, end_us=None, marks=(), void=False)
    if isinstance(plain, AllocationRevision):
        return replace(plain, stop_requested_us=None, outcome="", requested_profile="")
    return plain


def _late_entries(history: _History, start_us: int, end_us: int, cutoff_us: int) -> list[Entry]:
    if history.entries[-1].revision.known_us < cutoff_us:
        return []
    found = []
    for place, entry in enumerate(history.entries):
        if entry.revision.known_us >= cutoff_us and any(a < end_us and b > start_us for a, b in history.changes(place)):
            found.append(entry)
    return found
