"""CPUs and memory of one node over time: what is left for a run that waited."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple


class Taken(NamedTuple):
    """What is taken of a node over `[start_us, end_us)`."""

    start_us: int
    end_us: int
    cpus: int
    memory_bytes: int


class NodeRoom:
    """A node's size (None: not known, so never the bound), less what runs took of it and what was matched since."""

    def __init__(self, cpus: int | None, memory_bytes: int | None) -> None:
        self._cpus, self._memory_bytes = cpus, memory_bytes
        self._runs: list[Taken] = []
        self._matched: list[Taken] = []
        self._times: list[int] = []
        self._used_cpus: list[int] = []
        self._used_memory: list[int] = []

    def hold(self, taken: Taken) -> None:
        """A run took so much of it. All runs come before anything is asked."""
        if taken.start_us < taken.end_us and (taken.cpus or taken.memory_bytes):
            self._runs.append(taken)

    def match(self, taken: Taken) -> None:
        """A waiting run would have taken so much of it."""
        self._matched.append(taken)

    def moments(self, start_us: int, end_us: int) -> Iterator[int]:
        """Moments inside an interval at which what is taken changes, in order."""
        self._summed()
        yield from self._times[bisect_left(self._times, start_us) : bisect_left(self._times, end_us)]

    def until_us(self, start_us: int, end_us: int, cpus: int, memory_bytes: int) -> int:
        """Until when, from `start_us` on and to `end_us` at most, so much is left; `start_us` where it is not."""
        edges = {at for taken in self._matched for at in taken[:2] if start_us < at < end_us}
        for at_us in sorted({start_us, *self.moments(start_us, end_us), *edges}):
            if not self._has(at_us, cpus, memory_bytes):
                return at_us
        return end_us

    def _has(self, at_us: int, cpus: int, memory_bytes: int) -> bool:
        place = bisect_right(self._times, at_us) - 1
        if place >= 0:
            cpus += self._used_cpus[place]
            memory_bytes += self._used_memory[place]
        for taken in self._matched:
            if taken.start_us <= at_us < taken.end_us:
                cpus += taken.cpus
                memory_bytes += taken.memory_bytes
        return (self._cpus is None or cpus <= self._cpus) and (
            self._memory_bytes is None or memory_bytes <= self._memory_bytes
        )

    def _summed(self) -> None:
        """Sum what runs took, once."""
        if self._times or not self._runs:
            return
        changes: dict[int, tuple[int, int]] = {}
        for taken in self._runs:
            for at_us, sign in ((taken.start_us, 1), (taken.end_us, -1)):
                cpus, memory_bytes = changes.get(at_us, (0, 0))
                changes[at_us] = (cpus + sign * taken.cpus, memory_bytes + sign * taken.memory_bytes)
        self._times = sorted(changes)
        self._used_cpus = list(accumulate(changes[at_us][0] for at_us in self._times))
        self._used_memory = list(accumulate(changes[at_us][1] for at_us in self._times))
