"""The open ticks: those that no batch holds yet, as they are cut into batches. Pure; the log is the sampler's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wattledger_agent.probes.device import Device
from wattledger_agent.tick import ENERGY, DeviceTick, Tick, joined_ticks

_MOST_BYTES = 400_000
"""Of one record, about: brokers and producers refuse messages above a million bytes."""
_ROW_BYTES, _ACTIVITY_BYTES = 40, 6


@dataclass(frozen=True, slots=True)
class OpenTick:
    """A tick, its number in the log's journal (None: it could not be noted) and the devices that it is of (None: not
    known yet)."""

    number: int | None
    tick: Tick
    devices: Mapping[str, Device] | None


@dataclass(frozen=True, slots=True)
class Cut:
    """At least two ticks in rising order that are one batch, and what each device is."""

    ticks: tuple[Tick, ...]
    devices: Mapping[str, Device]


class OpenTicks:
    """In the order of taking. After a batch its last tick stays, for the next batch begins with it."""

    def __init__(self) -> None:
        self._ticks: list[OpenTick] = []

    def __len__(self) -> int:
        return len(self._ticks)

    @property
    def first_us(self) -> int:
        return self._ticks[0].tick.at_us

    @property
    def last(self) -> OpenTick | None:
        """The newest; None when there is none."""
        return self._ticks[-1] if self._ticks else None

    @property
    def are_known(self) -> bool:
        """Whether it is known of all what their devices are."""
        return all(one.devices is not None for one in self._ticks)

    @property
    def end_well(self) -> bool:
        """Whether the newest tick has every energy counter that some tick of its batch has."""
        unread = {row.device: row.counter_epoch for row in self._ticks[-1].tick.devices if _energy(row) is None}
        if not unread:
            return True
        return not any(
            unread.get(row.device) == row.counter_epoch and _energy(row) is not None
            for one in self._ticks
            for row in one.tick.devices
        )

    def add(self, number: int | None, tick: Tick, devices: Mapping[str, Device] | None) -> None:
        self._ticks.append(OpenTick(number, tick, devices))

    def number_last(self, number: int) -> None:
        """The newest could be noted after all."""
        self._ticks[-1] = replace(self._ticks[-1], number=number)

    def know(self, found: Mapping[str, Device]) -> None:
        """What is installed now tells of the devices that were not remembered."""
        completed: dict[int, Mapping[str, Device]] = {}
        for place, one in enumerate(self._ticks):
            devices = completed.setdefault(id(one.devices), {**found, **(one.devices or {})})
            self._ticks[place] = replace(one, devices=devices)

    def close(self) -> None:
        """Batches hold them now."""
        self._ticks = self._ticks[-1:]

    def clear(self) -> None:
        """The next tick does not follow on from any of these."""
        self._ticks = []

    def cuts(self) -> Iterator[Cut]:
        """Batches that hold all of them and tile time: a new one where a tick does not follow on, where devices or
        counters are others than before, and where a record would become too large."""
        start = 0
        for place, one in enumerate(self._ticks):
            if one.tick.begins:
                yield from self._cut(start, place)
                start = place
            elif place > start + 1 and (_differs(self._ticks[place - 1], one) or self._is_large(start, place)):
                yield from self._cut(start, place)
                start = place - 1
        yield from self._cut(start, len(self._ticks))

    def _cut(self, start: int, end: int) -> Iterator[Cut]:
        devices = self._ticks[end - 1].devices if end else None
        if end - start >= 2 and devices is not None:
            yield Cut(tuple(one.tick for one in self._ticks[start:end]), devices)

    def _is_large(self, start: int, place: int) -> bool:
        row_bytes = sum(
            _ROW_BYTES + _ACTIVITY_BYTES * (len(row.instances) + len(row.jobs or ()))
            for row in self._ticks[place].tick.devices
        )
        return (place - start) * (8 + row_bytes) > _MOST_BYTES

    def thin(self) -> int:
        """Join each second tick into the one after it, as far as both are of one batch; how many went. The counter
        still bridges; the resolution suffers."""
        kept, place = self._ticks[:1], 1
        while place < len(self._ticks):
            here, after = self._ticks[place], self._ticks[place + 1 : place + 2]
            if after and self._is_joined(kept[-1], here, after[0]):
                kept.append(replace(after[0], tick=joined_ticks(kept[-1].tick.at_us, here.tick, after[0].tick)))
                place += 2
            else:
                kept.append(here)
                place += 1
        gone = len(self._ticks) - len(kept)
        self._ticks = kept
        return gone

    def give_up_half(self) -> tuple[int, int]:
        """The older half goes, for it can't be thinned any more; which time it was of."""
        half = len(self._ticks) // 2
        first_us, place = self.first_us, self._ticks[half]
        self._ticks = [replace(place, tick=replace(place.tick, begins=True)), *self._ticks[half + 1 :]]
        return first_us, place.tick.at_us

    @staticmethod
    def _is_joined(first: OpenTick, second: OpenTick, third: OpenTick) -> bool:
        if second.tick.begins or third.tick.begins:
            return False
        return not _differs(first, second) and not _differs(second, third)


def _energy(row: DeviceTick) -> int | None:
    return row.readings[ENERGY].value


def _differs(before: OpenTick, after: OpenTick) -> bool:
    """Whether two ticks can't be in the middle of one batch: it says one thing of each device, and holds one change
    of a counter's epoch at most."""
    return before.devices is not after.devices or _epochs(before.tick.devices) != _epochs(after.tick.devices)


def _epochs(rows: Sequence[DeviceTick]) -> list[tuple[str, str]]:
    return [(row.device, row.counter_epoch) for row in rows]
