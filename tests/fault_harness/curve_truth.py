"""Energy of one card over one record over time, in exact fractions: by counter, else by trapezoid, else unknown."""

from bisect import bisect_right
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from tests.fault_harness.facts import Readings

COUNTER, POWER, NONE = "counter", "power", "none"
_LONG_PERIODS, _LONG_US = 3, 5_000_000
_NJ_PER_UJ = 1000


class Pair(NamedTuple):
    """Between two ticks: where the energy comes from; from which power to which (mW), or the rise in nJ."""

    start_us: int
    end_us: int
    source: str
    rise_nj: Fraction
    first_mw: int
    last_mw: int
    bridged: bool

    def until(self, at_us: int) -> Fraction:
        """Energy from the pair's start to `at_us`, nJ."""
        if at_us >= self.end_us or self.source == NONE:
            return self.rise_nj
        into, span = at_us - self.start_us, self.end_us - self.start_us
        if self.source == COUNTER:
            return self.rise_nj * into / span
        return self.first_mw * into + Fraction((self.last_mw - self.first_mw) * into * into, 2 * span)


class Curve:
    """C(t) of one card over one record, from 0 at its first tick."""

    def __init__(self, ticks_us: tuple[int, ...], readings: Readings, period_us: int) -> None:
        limit_us = max(_LONG_PERIODS * period_us, _LONG_US)
        self.pairs = [
            _pair(ticks_us, k, readings, limit_us) for k, _ in enumerate(pairwise(ticks_us))
        ]  # fmt: skip
        self._starts = ticks_us[:-1]
        self._before = [Fraction(0)]
        for pair in self.pairs:
            self._before.append(self._before[-1] + pair.rise_nj)

    def energy_uj(self, start_us: int, end_us: int) -> int:
        """floor C(end) - floor C(start), µJ."""
        return self._floor(end_us) - self._floor(start_us)

    def known_us(self, start_us: int, end_us: int) -> int:
        """How much of the interval has a known energy, µs."""
        return sum(
            max(min(pair.end_us, end_us) - max(pair.start_us, start_us), 0)
            for pair in self._over(start_us, end_us)
            if pair.source != NONE
        )

    def sources(self, start_us: int, end_us: int) -> frozenset[str]:
        """Where the energy of the interval comes from."""
        return frozenset(pair.source for pair in self._over(start_us, end_us)) - {NONE}

    def bridged(self, start_us: int, end_us: int) -> bool:
        """Whether a counter carries energy over a gap in the interval."""
        return any(pair.bridged for pair in self._over(start_us, end_us))

    def _over(self, start_us: int, end_us: int) -> list[Pair]:
        return self.pairs[bisect_right(self._starts, start_us) - 1 : bisect_right(self._starts, end_us - 1)]

    def _floor(self, at_us: int) -> int:
        k = max(bisect_right(self._starts, at_us) - 1, 0)
        return int((self._before[k] + self.pairs[k].until(at_us)) // _NJ_PER_UJ)


def _pair(ticks_us: tuple[int, ...], k: int, readings: Readings, limit_us: int) -> Pair:
    start_us, end_us = ticks_us[k], ticks_us[k + 1]
    before, after = readings.counter_uj[k], readings.counter_uj[k + 1]
    begun_anew = k < readings.epoch_from <= k + 1
    if before is not None and after is not None and not begun_anew and after >= before:
        rise = Fraction((after - before) * _NJ_PER_UJ)
        return Pair(start_us, end_us, COUNTER, rise, 0, 0, end_us - start_us > limit_us)
    first, last = readings.power_mw[k], readings.power_mw[k + 1]
    if first is not None and last is not None and end_us - start_us <= limit_us:
        rise = Fraction((first + last) * (end_us - start_us), 2)
        return Pair(start_us, end_us, POWER, rise, first, last, False)
    return Pair(start_us, end_us, NONE, Fraction(0), 0, 0, False)
