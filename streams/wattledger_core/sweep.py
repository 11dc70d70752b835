"""One node swept through time: which device was held by whom, and what it was otherwise, in the longest pieces.

The allocation meter for logs that are whole: the rules are those of `capacity`, `split` and `hold`; only the grid is
missing. A property test holds it to `allocation_meter`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from wattledger_core.book import FAILED
from wattledger_core.capacity import EXCLUSIVE, HELD_STATE, RESERVED_STATE, STATE_TENANTS, exhausted, unheld_rule
from wattledger_core.hold import failure_cut_us
from wattledger_core.interval import Interval
from wattledger_core.line import RESERVED
from wattledger_core.split import claim_weights, split_exactly

PARTS_PER_US = 5040
"""Device-time of pieces is counted in 1/5040 µs, so that sevenths, and any share of up to ten, are exact."""
NOBODY = -1
"""Where a holder's number would stand, and none holds."""


class Taking(NamedTuple):
    """One hold of one device: `holder` is the caller's number for it; cpus and memory are this claim's part. A
    `device` of NOBODY holds none, but cpus and memory all the same."""

    start_us: int
    end_us: int
    device: int
    holder: int
    share_num: int = 1
    share_den: int = 1
    instance: str = ""
    exclusive: bool = False
    cpus: int | None = None
    memory_bytes: int | None = None


class StateSpan(NamedTuple):
    """The node was in `state` over an interval."""

    start_us: int
    end_us: int
    state: str


class ReservedSpan(NamedTuple):
    """`devices` (empty: all) were reserved by `tenant` over an interval."""

    start_us: int
    end_us: int
    reservation_id: str
    tenant: str
    devices: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class NodeTimeline:
    """What is known of a node: when each device is in service (disjoint, ascending), states, reservations, size."""

    service: Sequence[Sequence[Interval]]
    states: Sequence[StateSpan] = ()
    reservations: Sequence[ReservedSpan] = ()
    cpus: int | None = None
    memory_bytes: int | None = None


class Piece(NamedTuple):
    """A part of one device's time. `holder` is NOBODY where nobody held it: then state, reason and tenant say what it
    was, and `by` is the holder that stranded it (or NOBODY). Parts over a device sum to its in-service time."""

    device: int
    start_us: int
    end_us: int
    holder: int
    parts: int
    state: str
    reason: str
    tenant: str
    by: int
    contradicts: bool


class Outside(NamedTuple):
    """A hold that the node cannot have had: on a device that was not in service, or after its node failed."""

    kind: str
    device: int
    start_us: int
    end_us: int
    holder: int


class _Unheld(NamedTuple):
    """What the unheld part of a device is, from the node's side; reservations of single devices come on top."""

    states: tuple[str, ...] = ()
    reservations: tuple[ReservedSpan, ...] = ()
    exclusive: int = NOBODY
    cpus_exhausted: bool = False
    memory_exhausted: bool = False

    def of(self, device: int) -> tuple[str, str, str, int]:
        reserved = next((r for r in self.reservations if not r.devices or device in r.devices), None)
        state, reason = unheld_rule(
            self.states, reserved is not None, self.exclusive != NOBODY, self.cpus_exhausted, self.memory_exhausted
        )
        if state == RESERVED_STATE and reserved is not None:
            return state, reserved.reservation_id, reserved.tenant or RESERVED, NOBODY
        if reason == EXCLUSIVE:
            return state, reason, "", self.exclusive
        return state, reason, STATE_TENANTS[state], NOBODY


_Span = TypeVar("_Span", StateSpan, ReservedSpan)
_Event = tuple[int, int, int, int]
"""Time, kind, number, device."""
_ENDS, _STARTS, _STATE, _RESERVED, _SERVICE = range(5)


class NodeSweep:
    """Feed a timeline and its takings; `pieces` walks them once. `outside` is filled while it walks."""

    def __init__(self, timeline: NodeTimeline, takings: Sequence[Taking]) -> None:
        self.outside: list[Outside] = []
        self._timeline = timeline
        self._failures = sorted((s.start_us, s.end_us) for s in timeline.states if s.state == FAILED)
        self._takings = self._cut(takings) if self._failures else takings
        count = len(timeline.service)
        self._active: list[list[int]] = [[] for _ in range(count)]
        self._since = [0] * count
        self._serving = [False] * count
        self._states: list[StateSpan] = []
        self._reserved: list[ReservedSpan] = []
        self._holding: set[int] = set()
        self._unheld = _Unheld()
        self._sized = timeline.cpus is not None or timeline.memory_bytes is not None
        self._watched = self._sized or any(taking.exclusive for taking in self._takings)
        cpu_only = any(taking.device == NOBODY for taking in self._takings)
        self._plain = not (self._watched or timeline.states or timeline.reservations or cpu_only)
        self._unheld_of: dict[int, tuple[str, str, str, int]] = {}

    def pieces(self) -> Iterator[Piece]:
        """Pieces in order of time; within one moment, by device. Takings that start before service count from it."""
        events = self._events()
        count, at = len(events), 0
        while at < count:
            first, at_us = at, events[at][0]
            while at < count and events[at][0] == at_us:
                at += 1
            if self._plain and at == first + 1:
                # most moments: one hold starts or ends, and nothing else of the node matters
                yield from self._flush(events[first][3], at_us)
                self._apply(events[first])
                continue
            group = events[first:at]
            for device in sorted({event[3] for event in group if event[3] != NOBODY}):
                yield from self._flush(device, at_us)
            for event in group:
                self._apply(event)
            unheld = self._node_side()
            if unheld != self._unheld:
                for device in range(len(self._since)):
                    if not self._whole(device):
                        yield from self._flush(device, at_us)
                self._unheld = unheld
                self._unheld_of.clear()

    def _cut(self, takings: Sequence[Taking]) -> list[Taking]:
        kept = []
        for taking in takings:
            end_us = failure_cut_us(taking.start_us, taking.end_us, self._failures)
            if end_us < taking.end_us:
                self.outside.append(Outside("hold_on_failed_node", taking.device, end_us, taking.end_us, taking.holder))
                taking = taking._replace(end_us=end_us)
            kept.append(taking)
        return kept

    def _events(self) -> list[_Event]:
        events: list[_Event] = []
        for number, taking in enumerate(self._takings):
            if taking.start_us < taking.end_us:
                events.append((taking.start_us, _STARTS, number, taking.device))
                events.append((taking.end_us, _ENDS, number, taking.device))
        spans = [(_STATE, number, s.start_us, s.end_us) for number, s in enumerate(self._timeline.states)]
        spans += [(_RESERVED, number, r.start_us, r.end_us) for number, r in enumerate(self._timeline.reservations)]
        for kind, number, start_us, end_us in spans:
            if start_us < end_us:
                events += [(start_us, kind, number, -1), (end_us, kind, ~number, -1)]
        for device, intervals in enumerate(self._timeline.service):
            for number, (start_us, end_us) in enumerate(intervals):
                events += [(start_us, _SERVICE, number, device), (end_us, _SERVICE, ~number, device)]
        events.sort()
        return events

    def _apply(self, event: _Event) -> None:
        _, kind, number, device = event
        if kind == _ENDS:
            self._holding.discard(number)
            if device != NOBODY:
                self._active[device].remove(number)
        elif kind == _STARTS:
            self._holding.add(number)
            if device != NOBODY:
                self._active[device].append(number)
        elif kind == _SERVICE:
            # an interval that ends where the next starts: the start's number is not negative, and wins
            self._serving[device] = number >= 0
        elif kind == _STATE:
            _toggle(self._states, self._timeline.states, number)
        else:
            _toggle(self._reserved, self._timeline.reservations, number)

    def _node_side(self) -> _Unheld:
        if not (self._watched or self._states or self._reserved):
            return _Unheld()
        held = [self._takings[number] for number in sorted(self._holding)] if self._watched else []
        alone = min(((taking.device, taking.holder) for taking in held if taking.exclusive), default=(NOBODY, NOBODY))
        return _Unheld(
            tuple(span.state for span in self._states),
            tuple(self._reserved),
            alone[1],
            self._sized and exhausted(self._timeline.cpus, [taking.cpus for taking in held]),
            self._sized and exhausted(self._timeline.memory_bytes, [taking.memory_bytes for taking in held]),
        )

    def _whole(self, device: int) -> bool:
        """Whether one holder has all of it, so that nothing of it is unheld."""
        active = self._active[device]
        return len(active) == 1 and self._takings[active[0]].share_num == self._takings[active[0]].share_den

    def _flush(self, device: int, at_us: int) -> Sequence[Piece]:
        """What the device was since it was last looked at."""
        since_us = self._since[device]
        self._since[device] = at_us
        active = self._active[device]
        if since_us == at_us:
            return ()
        if not self._serving[device]:
            self.outside += [
                Outside("hold_out_of_service", device, since_us, at_us, self._takings[number].holder)
                for number in active
            ]
            return ()
        whole = (at_us - since_us) * PARTS_PER_US
        if not active:
            return (Piece(device, since_us, at_us, NOBODY, whole, *self._rest(device), False),)
        if len(active) == 1:
            held = self._takings[active[0]]
            if held.share_num == held.share_den:
                return (Piece(device, since_us, at_us, held.holder, whole, HELD_STATE, "", "", NOBODY, False),)
        return self._shared(device, since_us, at_us, whole, [self._takings[number] for number in active])

    def _rest(self, device: int) -> tuple[str, str, str, int]:
        """State, reason and tenant of what nobody holds of a device, and who stranded it."""
        found = self._unheld_of.get(device)
        if found is None:
            found = self._unheld_of[device] = self._unheld.of(device)
        return found

    def _shared(self, device: int, since_us: int, at_us: int, whole: int, held: Sequence[Taking]) -> list[Piece]:
        weights, total, contradicts = claim_weights(
            [(taking.share_num, taking.share_den, taking.instance) for taking in held]
        )
        parts = split_exactly(whole, [*weights, total - sum(weights)])
        found = [
            Piece(device, since_us, at_us, taking.holder, part, HELD_STATE, "", "", NOBODY, contradicts)
            for taking, part in zip(held, parts, strict=False)
        ]
        if parts[-1]:
            found.append(Piece(device, since_us, at_us, NOBODY, parts[-1], *self._rest(device), False))
        return found


def _toggle(standing: list[_Span], spans: Sequence[_Span], number: int) -> None:
    """Put the span of that number in, or take it out where the number is the complement of one."""
    if number >= 0:
        standing.append(spans[number])
    else:
        standing.remove(spans[~number])
