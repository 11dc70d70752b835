"""What the cards did: readings as a pure function of seed, card and tick, so that no state is kept and any record can
be made again. Also when each node's agent was away."""

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tests.fault_harness.facts import Batch, Readings
from tests.fault_harness.plan import MINUTE, Plan, S

_MEAN_UJ_PER_S = 300_000_000
_JITTER_UJ = 200_000_000
_LOW_MW, _SPREAD_MW = 250_000, 100_000
_PPM = 1_000_000


class Away(NamedTuple):
    """The agent wrote no record from number `first` to before `until`; `reset`: the counters began anew meanwhile."""

    first: int
    until: int
    reset: bool


def node_name(i: int) -> str:
    return f"node-{i}"


def device_name(node: str, index: int) -> str:
    return f"GPU-{node}-{index}"


def _mixed(salt: str, ticks: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Well-mixed 64-bit numbers of a salt and tick numbers (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        x = (ticks + np.uint64(crc32(salt.encode()) << 24)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


class Physics:
    """The cards of one world. The last card of a node has no energy counter, where a node has more than one."""

    def __init__(self, plan: Plan, held: Callable[[str, int, int], bool]) -> None:
        """`held(device, start_us, end_us)`: whether one job had the device throughout; else nothing keeps it busy."""
        self._plan = plan
        self._held = held
        self._records = plan.minutes * 60 // (plan.period_s * plan.ticks_per_record)
        self._away = {node_name(i): self._absences(node_name(i)) for i in range(plan.nodes)}

    def counts(self, index: int) -> bool:
        """Whether a node's card of that index has an energy counter."""
        return self._plan.devices == 1 or index < self._plan.devices - 1

    def away(self, node: str) -> tuple[Away, ...]:
        """When the node's agent was away."""
        return self._away[node]

    def batches(self, node: str, from_us: int, to_us: int) -> Iterator[Batch]:
        """The records of a node that start in `[from_us, to_us)`, in order of time; equal whenever they are made."""
        away = list(self._away[node])
        number = epoch = epoch_tick = 0
        while number < self._records:
            per = self._plan.ticks_per_record
            ticks = list(range(number * per, (number + 1) * per + 1))
            before = epoch_tick
            if away and away[0].until == number:
                absence = away.pop(0)
                ticks.insert(0, absence.first * per)
                if absence.reset:
                    epoch, epoch_tick = epoch + 1, number * per
            if from_us <= self._stamp(ticks[0]) < to_us:
                yield self._batch(node, number, ticks, epoch, before, epoch_tick)
            number += 1
            if away and away[0].first == number:
                number = away[0].until

    def _absences(self, node: str) -> tuple[Away, ...]:
        plan = self._plan
        dice = Random(f"{plan.seed}/away/{node}")
        length = -(-plan.gap_min * 60 // (plan.period_s * plan.ticks_per_record))
        room = self._records // (plan.gaps + 1) if plan.gaps else 0
        if plan.gaps and room <= length + 1:
            raise ValueError(f"{plan.gaps} gaps of {plan.gap_min} min do not fit into {plan.minutes} min")
        found = []
        for n in range(plan.gaps):
            first = n * room + dice.randint(1, room - length)
            found.append(Away(first, first + length, dice.random() < plan.resets))
        return tuple(found)

    def _batch(self, node: str, seq: int, ticks: list[int], epoch: int, epoch_before: int, epoch_tick: int) -> Batch:
        stamps = tuple(self._stamp(tick) for tick in ticks)
        numbers = np.array(ticks, dtype=np.uint64)
        readings = []
        for index in range(self._plan.devices):
            name = device_name(node, index)
            salt = f"{self._plan.seed}/{name}"
            power = (_LOW_MW + _mixed(salt + "/p", numbers) % np.uint64(_SPREAD_MW)).tolist()
            share = (1 + _mixed(salt + "/b", numbers) % np.uint64(_PPM)).tolist()
            pairs = zip(stamps[:1] + stamps, stamps, share, strict=False)
            busy = [ppm if a < b and self._held(name, a, b) else 0 for a, b, ppm in pairs]
            counter: list[int | None] = [None] * len(ticks)
            if self.counts(index):
                total = self._energy(salt, numbers)
                starts = [epoch_before if place == 0 else epoch_tick for place in range(len(ticks))]
                origin = self._energy(salt, np.array(starts, dtype=np.uint64))
                counter = [a - (b if s else 0) for a, b, s in zip(total, origin, starts, strict=True)]
            elif self._plan.missing_cells:
                power = [None if self._misses(salt, tick) else mw for tick, mw in zip(ticks, power, strict=True)]
            epoch_from = 1 if self.counts(index) and epoch_tick != epoch_before else 0
            readings.append(
                Readings(name, index, tuple(power), tuple(counter), tuple(busy), f"epoch-{epoch}", epoch_from)
            )
        return Batch(node, seq, stamps, tuple(readings))

    def _stamp(self, tick: int) -> int:
        return self._plan.start_us + tick * self._plan.period_s * S

    def _energy(self, salt: str, ticks: npt.NDArray[np.uint64]) -> list[int]:
        """The counter in µJ: 300 W and a jitter smaller than one period's energy, so that it always rises."""
        steady = ticks * np.uint64(_MEAN_UJ_PER_S * self._plan.period_s)
        jitter: list[int] = (steady + _mixed(salt + "/c", ticks) % np.uint64(_JITTER_UJ)).tolist()
        return jitter

    def _misses(self, salt: str, tick: int) -> bool:
        [number] = _mixed(salt + "/m", np.array([tick], dtype=np.uint64)).tolist()
        return bool(number % _PPM < self._plan.missing_cells * _PPM)


def minutes_us(dice: Random, least: float, most: float) -> int:
    """A random length in whole milliseconds, µs: even, so that halves of it are exact."""
    return dice.randint(round(least * MINUTE) // 1000, round(most * MINUTE) // 1000) * 1000
