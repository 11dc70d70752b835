"""When is a worker stalled? A rule over what the broker says and what the worker did; it decides, others act."""

from collections.abc import Mapping
from dataclasses import dataclass

from wattledger_streams.progress import Place, Seen

COMMIT = "commit"
FETCH = "fetch"


@dataclass(frozen=True, slots=True)
class BrokerView:
    """A partition as the broker shows it: the group's position (None: it has none) and both ends of the log."""

    committed: int | None
    start: int
    end: int

    @property
    def lag(self) -> int:
        """Records that are kept and that the group has not acknowledged."""
        return self.end - max(self.committed or 0, self.start)


@dataclass(frozen=True, slots=True)
class Stall:
    """What stands still since when: `offset` is not committed (`commit`), or is there and not delivered (`fetch`)."""

    kind: str
    place: Place
    offset: int
    waited_s: float


class StallRule:
    """Waits are measured only while the broker answers; a worker with something in hand is not silent."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._generation = -1
        self._uncommitted: dict[Place, tuple[int, float]] = {}
        self._silent: dict[Place, tuple[int, float]] = {}

    def broker_away(self) -> None:
        """The broker did not answer: nothing of what was waited for before can be held against the worker."""
        self._uncommitted.clear()
        self._silent.clear()

    def waits(self, now_s: float, seen: Seen, views: Mapping[Place, BrokerView]) -> list[Stall]:
        """What this worker waits for now, by owned partition; a wait above the limit is a stall (see `stalls`)."""
        if seen.generation != self._generation:
            self.broker_away()
            self._generation = seen.generation
        found = []
        for place, view in views.items():
            if place in seen.owned:
                found += self._commit_wait(now_s, place, view, seen.acknowledged.get(place))
                found += self._fetch_wait(place, view, seen)
        return found

    def stalls(self, waits: list[Stall]) -> list[Stall]:
        """The waits that are too long."""
        return [wait for wait in waits if wait.waited_s > self._limit_s]

    def _commit_wait(self, now_s: float, place: Place, view: BrokerView, acknowledged: int | None) -> list[Stall]:
        committed = view.committed or 0
        if acknowledged is None or committed >= acknowledged:
            self._uncommitted.pop(place, None)
            return []
        target, since_s = self._uncommitted.get(place, (0, now_s))
        if committed >= target or acknowledged < target:
            target, since_s = acknowledged, now_s
        self._uncommitted[place] = (target, since_s)
        return [Stall(COMMIT, place, target, now_s - since_s)]

    def _fetch_wait(self, place: Place, view: BrokerView, seen: Seen) -> list[Stall]:
        received = seen.received.get(place, 0)
        acknowledged = seen.acknowledged.get(place, 0)
        position = max(view.committed or 0, view.start, received)
        if view.end <= position or received > max(acknowledged, view.committed or 0):
            self._silent.pop(place, None)
            return []
        before, idle_s = self._silent.get(place, (position, seen.idle_s))
        if before != position:
            before, idle_s = position, seen.idle_s
        self._silent[place] = (before, idle_s)
        return [Stall(FETCH, place, position, seen.idle_s - idle_s)]


class Unowned:
    """How long a worker has owned nothing, as far as the broker was asked meanwhile."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def broker_away(self) -> None:
        self._since_s = None

    def waited_s(self, now_s: float, owns: bool) -> float:
        """Seconds without a partition; 0 while there is one."""
        if owns:
            self._since_s = None
            return 0.0
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s
