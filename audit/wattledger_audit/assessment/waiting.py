"""Which waiting runs could have been on which idle GPUs: each idle GPU-hour matched once (ACCOUNTING.md).

A run could have started from when it was eligible, on one machine of its partition and model with enough GPUs free
together, until it did start (or was cancelled), and no longer than it ran (or was allowed to run).
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import merge
from itertools import accumulate
from typing import NamedTuple

from wattledger_core.units import US_PER_HOUR

from wattledger_audit.assessment.fleet_book import FleetBook
from wattledger_audit.assessment.holding import FreePiece, Swept
from wattledger_audit.assessment.names import ModelNames
from wattledger_audit.assessment.node_room import NodeRoom, Taken
from wattledger_audit.assessment.placing import part_of
from wattledger_audit.assessment.run_book import NONE_US, RunBook

LOOKED_AT = 5_000
"""At most so many waiting runs are matched, those that waited for most GPU-hours first; the report says so."""


_LAST_US = 1 << 62


@dataclass(frozen=True, slots=True)
class Match:
    """A run that could have been on a node: which, how long it waited, and the GPU-µs of that node's idle time."""

    run: int
    node: str
    gpus: int
    waited_us: int
    matched_us: int
    cancelled: bool

    @property
    def matched_hours(self) -> Fraction:
        """Matched GPU-hours."""
        return Fraction(self.matched_us, US_PER_HOUR)


@dataclass(slots=True)
class Waiting:
    """All matches, and how many runs waited, were looked at, and had a reason of their own to wait."""

    matches: list[Match] = field(default_factory=list)
    waited: int = 0
    looked_at: int = 0
    blocked: int = 0
    unknown_duration: int = 0


class _NodeIdle:
    """Free stretches of a node's devices; what was matched is taken out.

    `_starts` and `_counts` say from when on how many were free before any match: an upper bound to look up quickly.
    `_again` is when what was matched is free once more.
    """

    def __init__(self, stretches: dict[int, list[tuple[int, int]]]) -> None:
        self.stretches = stretches
        changes: dict[int, int] = {}
        for spans in stretches.values():
            for start_us, end_us in spans:
                changes[start_us] = changes.get(start_us, 0) + 1
                changes[end_us] = changes.get(end_us, 0) - 1
        self._starts = sorted(changes)
        self._counts = list(accumulate(changes[at_us] for at_us in self._starts))
        self._again: list[int] = []

    def free_at(self, at_us: int) -> dict[int, int]:
        """Devices free at a moment → until when."""
        found = {}
        for device, spans in self.stretches.items():
            place = bisect_right(spans, (at_us, _LAST_US)) - 1
            if place >= 0 and spans[place][0] <= at_us < spans[place][1]:
                found[device] = spans[place][1]
        return found

    def moments(self, start_us: int, end_us: int, gpus: int) -> Iterator[int]:
        """Moments inside an interval from which that many may be free, in order: its start, where the count rises to
        it, and where a match ends."""
        again = self._again[bisect_right(self._again, start_us) : bisect_left(self._again, end_us)]
        return merge(self._unmatched(start_us, end_us, gpus), again)

    def _unmatched(self, start_us: int, end_us: int, gpus: int) -> Iterator[int]:
        place = bisect_right(self._starts, start_us) - 1
        if place >= 0 and self._counts[place] >= gpus:
            yield start_us
        for later in range(place + 1, len(self._starts)):
            if self._starts[later] >= end_us:
                return
            if self._counts[later] >= gpus:
                yield self._starts[later]

    def take(self, device: int, start_us: int, end_us: int) -> None:
        """A matched stretch is free for nobody else."""
        spans = self.stretches[device]
        place = bisect_right(spans, (start_us, _LAST_US)) - 1
        a, b = spans.pop(place)
        spans[place:place] = [part for part in ((a, start_us), (end_us, b)) if part[0] < part[1]]
        if end_us < b:
            insort(self._again, end_us)


def match_waiting(swept: Swept, runs: RunBook, fleet: FleetBook, models: ModelNames) -> Waiting:
    """Match waiting runs to idle stretches, in order of when they became eligible."""
    idle = {name: _NodeIdle(_joined(pieces)) for name, pieces in swept.free.items() if pieces}
    partitions = _partitions(swept, runs, fleet)
    rooms = _rooms(swept, runs, fleet)
    found = Waiting()
    candidates = _candidates(runs, fleet, found)
    found.looked_at = len(candidates)
    for eligible_us, number, until_us, lasts_us, gpus in candidates:
        who = runs.whos[runs.who[number]]
        model = models.resolve(who.gpu_model)
        for name in sorted(idle):
            node = fleet.nodes[name]
            if node.floating or gpus > node.gpus or (model and model != node.gpu_model):
                continue
            if who.cluster and node.cluster and who.cluster != node.cluster:
                continue
            if who.partition and who.partition not in partitions.get(name, {who.partition}):
                continue
            shape = runs.shapes[runs.shape[number]]
            want = _Want(eligible_us, until_us, lasts_us, gpus, shape.cpus or 0, shape.memory_bytes or 0)
            matched_us = _fit(idle[name], rooms.get(name) if want.cpus or want.memory_bytes else None, want)
            if matched_us:
                waited_us, cancelled = until_us - eligible_us, _was_cancelled(runs, number)
                found.matches.append(Match(number, name, gpus, waited_us, matched_us, cancelled))
                break
    return found


def _was_cancelled(runs: RunBook, number: int) -> bool:
    """Whether it was called off before it started; one that still waits may yet run."""
    state = runs.whos[runs.who[number]].state
    never = runs.start_us[number] == NONE_US
    return never and (state == "CANCELLED" or (not state and runs.end_us[number] != NONE_US))


def _candidates(runs: RunBook, fleet: FleetBook, found: Waiting) -> list[tuple[int, int, int, int, int]]:
    """(eligible, run, until, how long it would have lasted, GPUs), by eligible time."""
    waiting = []
    for number in range(len(runs)):
        eligible_us = runs.eligible_us[number]
        if eligible_us == NONE_US:
            eligible_us = runs.submit_us[number]
        start_us, end_us = runs.start_us[number], runs.end_us[number]
        until_us = start_us if start_us != NONE_US else (fleet.end_us if end_us == NONE_US else end_us)
        if eligible_us == NONE_US or until_us <= max(eligible_us, fleet.start_us) or eligible_us >= fleet.end_us:
            continue
        who, shape = runs.whos[runs.who[number]], runs.shapes[runs.shape[number]]
        if not shape.gpus or shape.share_num != shape.share_den or len(shape.nodes) > 1:
            continue
        found.waited += 1
        if who.waits_for:
            found.blocked += 1
            continue
        lasts_us = runs.limit_us[number] if start_us == NONE_US else runs.held_until_us(number, fleet.end_us) - start_us
        if lasts_us == NONE_US or lasts_us <= 0:
            found.unknown_duration += 1
            continue
        waiting.append((max(eligible_us, fleet.start_us), number, min(until_us, fleet.end_us), lasts_us, shape.gpus))
    waiting.sort(key=lambda item: (-(item[2] - item[0]) * item[4], item[1]))
    return sorted(waiting[:LOOKED_AT])


def _joined(pieces: Sequence[FreePiece]) -> dict[int, list[tuple[int, int]]]:
    stretches: dict[int, list[tuple[int, int]]] = {}
    for piece in sorted(pieces):
        spans = stretches.setdefault(piece.device, [])
        if spans and spans[-1][1] == piece.start_us:
            spans[-1] = (spans[-1][0], piece.end_us)
        else:
            spans.append((piece.start_us, piece.end_us))
    return stretches


def _partitions(swept: Swept, runs: RunBook, fleet: FleetBook) -> dict[str, set[str]]:
    """Partitions of each node: the inventory's, else those whose runs were seen on it."""
    found: dict[str, set[str]] = {name: set(node.partitions) for name, node in fleet.nodes.items() if node.partitions}
    seen: dict[str, set[str]] = {}
    for number in swept.run_holder:
        who = runs.whos[runs.who[number]]
        if who.partition:
            for text in runs.shapes[runs.shape[number]].nodes:
                seen.setdefault(fleet.name_of(who.cluster, text), set()).add(who.partition)
    for name, partitions in seen.items():
        found.setdefault(name, partitions)
    return found


def _rooms(swept: Swept, runs: RunBook, fleet: FleetBook) -> dict[str, NodeRoom]:
    """CPUs and memory of each node whose size is known, less what runs took of them."""
    rooms = {
        name: NodeRoom(node.cpus, node.memory_bytes)
        for name, node in fleet.nodes.items()
        if node.cpus is not None or node.memory_bytes is not None
    }
    for number in runs.held_numbers(fleet.start_us, fleet.end_us) if rooms else ():
        shape, cluster = runs.shapes[runs.shape[number]], runs.whos[runs.who[number]].cluster
        count = len(shape.nodes)
        for place, text in enumerate(shape.nodes):
            room = rooms.get(fleet.name_of(cluster, text))
            if room is not None:
                cpus, memory = part_of(shape.cpus or 0, place, count), part_of(shape.memory_bytes or 0, place, count)
                room.hold(Taken(runs.start_us[number], runs.held_until_us(number, fleet.end_us), cpus, memory))
    return rooms


class _Want(NamedTuple):
    """What a waiting run asks for: from when to when it waited, how long it lasts, what it takes of one node."""

    eligible_us: int
    until_us: int
    lasts_us: int
    gpus: int
    cpus: int
    memory_bytes: int


def _fit(node: _NodeIdle, room: NodeRoom | None, want: _Want) -> int:
    """Take the first moment at which enough GPUs are free together, with CPUs and memory to go with them; GPU-µs
    taken, 0 where none is."""
    moments = node.moments(want.eligible_us, want.until_us, want.gpus)
    if room is not None:
        moments = merge(moments, room.moments(want.eligible_us, want.until_us))
    for at_us in moments:
        free = node.free_at(at_us)
        if len(free) < want.gpus:
            continue
        # the devices that stay free longest; the run is held against the one that is needed first
        chosen = sorted(free, key=lambda device: (-free[device], device))[: want.gpus]
        end_us = min(want.until_us, at_us + want.lasts_us, min(free[device] for device in chosen))
        if room is not None:
            end_us = room.until_us(at_us, end_us, want.cpus, want.memory_bytes)
        if end_us <= at_us:
            continue
        for device in chosen:
            node.take(device, at_us, end_us)
        if room is not None:
            room.match(Taken(at_us, end_us, want.cpus, want.memory_bytes))
        return (end_us - at_us) * want.gpus
    return 0
