"""Which event time was said already: no moment of a node is in two batches, whatever the wall clock does. Pure."""

import json
from collections.abc import Iterable

_MOST_KEPT = 64
"""A clock that jumps about leaves stretches; those that were left longest ago are forgotten."""

Stretch = tuple[int, int]


class SaidTime:
    """Stretches of event time that ticks of this node cover, both ends included: those of the last batches and of the
    open one. They don't touch each other; the last one is the newest."""

    def __init__(self, stretches: Iterable[Stretch] = ()) -> None:
        self._stretches: list[Stretch] = []
        for from_us, to_us in stretches:
            self.add(from_us, to_us)

    def held_until(self, at_us: int) -> int | None:
        """The end of the stretch that holds `at_us`; None: that moment was not said."""
        return next((to_us for from_us, to_us in self._stretches if from_us <= at_us <= to_us), None)

    def is_between(self, after_us: int, before_us: int) -> bool:
        """Whether a stretch begins between two moments that are in none."""
        return any(after_us < from_us < before_us for from_us, _ in self._stretches)

    def add(self, from_us: int, to_us: int) -> None:
        """From now on `[from_us, to_us]` is said."""
        if self._stretches and self._stretches[-1][0] <= from_us <= self._stretches[-1][1]:
            from_us, _ = self._stretches[-1]
        apart = [one for one in self._stretches if one[1] < from_us or one[0] > to_us]
        joined = [one for one in self._stretches if one not in apart]
        from_us = min([from_us, *(one[0] for one in joined)])
        to_us = max([to_us, *(one[1] for one in joined)])
        self._stretches = [*apart[-_MOST_KEPT:], (from_us, to_us)]

    def dump(self) -> bytes:
        """For the log's memory."""
        return json.dumps(self._stretches, separators=(",", ":")).encode()

    @classmethod
    def load(cls, data: bytes | None) -> "SaidTime":
        """From the log's memory; nothing is remembered when it is not readable."""
        try:
            return cls((int(from_us), int(to_us)) for from_us, to_us in json.loads(data or b"[]"))
        except (ValueError, TypeError):
            return cls()
