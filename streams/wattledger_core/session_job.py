"""The events of one job: which there are, in which order each attempt lives them, and what changed by the last one."""

from bisect import bisect
from dataclasses import replace

from wattledger_core.event import JobEvent
from wattledger_core.revision import AllocationRevision
from wattledger_core.session_life import (
    CLOSING_KINDS,
    END_INFERRED,
    EVENT_BEFORE_START,
    Life,
)
from wattledger_core.session_standing import ADMITTED, admit, settle

_RANKS = {
    kind: rank
    for rank, kind in enumerate(
        ("start", "resize", "suspend", "resume", "stop_requested", "end", "requeue", "released")
    )
}
OrderKey = tuple[int, int, str]


def order_key(event: JobEvent) -> OrderKey:
    """Event time, then what can follow what in one instant, then the event's id: a total order whatever came when."""
    return event.at_us, _RANKS[event.kind], event.event_id


class AttemptSession:
    """All events of one attempt and what was last said of its allocations."""

    def __init__(self, next_start_us: int | None) -> None:
        self.start_us: int | None = None
        self._next_start_us = next_start_us
        self._keys: list[OrderKey] = []
        self._events: list[JobEvent] = []
        self._life: Life | None = None
        self._in_order = False
        self._standing: dict[str, AllocationRevision] = {}

    def add(self, event: JobEvent) -> list[AllocationRevision]:
        """Changed allocations. An event that is the newest only moves the life on; any other has it lived again."""
        key = order_key(event)
        place = bisect(self._keys, key)
        newest = place == len(self._keys)
        self._keys.insert(place, key)
        self._events.insert(place, event)
        if event.kind == "start":
            self.start_us = event.at_us if self.start_us is None else min(event.at_us, self.start_us)
        life = self._life
        if life is None or not (newest and self._in_order):
            return self._live_again()
        life.touched.clear()
        life.apply(event)
        return settle(self._standing, map(life.content, life.touched), whole=False)

    def follow(self, next_start_us: int) -> list[AllocationRevision]:
        """A later attempt started then: that ends this one, if nothing else says when it ended."""
        if self._next_start_us is not None and self._next_start_us <= next_start_us:
            return []
        self._next_start_us = next_start_us
        return [] if any(event.kind in CLOSING_KINDS for event in self._events) else self._live_again()

    def _live_again(self) -> list[AllocationRevision]:
        start = next((event for event in self._events if event.kind == "start"), None)
        if start is None:
            return []
        life = self._life = Life(start)
        early = [event for event in self._events if event.kind in CLOSING_KINDS and event.at_us < start.at_us]
        closings = [event for event in self._events if event.kind in CLOSING_KINDS and event.at_us >= start.at_us]
        rest = [event for event in self._events if event is not start and event not in early]
        inferred_us = None if early or closings else self._next_start_us
        self._in_order = not early and inferred_us is None
        if inferred_us is not None:
            end = replace(start, kind="end", at_us=inferred_us, outcome="", claims=())
            early, rest = ([end], rest) if inferred_us < start.at_us else ([], sorted([*rest, end], key=order_key))
        for event in rest if closings else [*early, *rest]:
            life.apply(event)
        if inferred_us is not None:
            life.mark(END_INFERRED)
        if early and closings:
            life.mark(EVENT_BEFORE_START)
        segments = [segment for held in life.segments.values() for segment in held]
        return settle(self._standing, map(life.content, segments), whole=True)


class JobSession:
    """All attempts of one (cluster, job). Of an attempt, what is said of the whole job and what each node's agent says
    of its own node are lived apart; an end or a suspension of the whole job counts on every node."""

    def __init__(self) -> None:
        self._seen: dict[str, JobEvent] = {}
        self._attempts: dict[tuple[int, str], AttemptSession] = {}
        self._of_all: dict[int, list[JobEvent]] = {}

    def add(self, event: JobEvent) -> tuple[str, list[AllocationRevision]]:
        """`admitted`, `duplicate` or `conflicting_duplicate`, and what changed, in the order to say it."""
        verdict = admit(self._seen, event)
        if verdict != ADMITTED:
            return verdict, []
        changed = self._attempt(event.attempt, event.node).add(event)
        if not event.node and event.kind not in ("start", "resize"):
            self._of_all.setdefault(event.attempt, []).append(event)
            for (number, node), attempt in self._attempts.items():
                if node and number == event.attempt:
                    changed += attempt.add(event)
        if event.kind == "start":
            for (number, _), earlier in self._attempts.items():
                if number < event.attempt:
                    changed += earlier.follow(event.at_us)
        return verdict, sorted(changed, key=_saying_order)

    def _attempt(self, number: int, node: str) -> AttemptSession:
        found = self._attempts.get((number, node))
        if found is None:
            found = self._attempts[(number, node)] = AttemptSession(self._next_start_us(number))
            for event in self._of_all.get(number, ()) if node else ():
                found.add(event)
        return found

    def _next_start_us(self, attempt: int) -> int | None:
        later = [s.start_us for (number, _), s in self._attempts.items() if number > attempt and s.start_us is not None]
        return min(later, default=None)


def _saying_order(content: AllocationRevision) -> tuple[bool, bool, int, str, str, str, int]:
    """What gives a device up comes before what takes it, so that no reader sees two holders in between."""
    return (
        not content.void, content.end_us is None,
        content.attempt, content.node, content.device, content.gpu_instance, content.segment,
    )  # fmt: skip
