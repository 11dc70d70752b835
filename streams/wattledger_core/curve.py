"""Curves: what a batch's readings say of energy, busy time and idle energy as functions of time.

Owns where energy comes from (counter, trapezoid, none) and the floor to µJ; not who held the device.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wattledger_core.batch import Batch, Int64Array
from wattledger_core.counter import COUNTER_FROZEN, IMPLAUSIBLE, RESET, repair_counters
from wattledger_core.policy import Policy
from wattledger_core.units import PPM

COUNTER = 1
POWER = 2
METHOD_NAMES = {0: "none", COUNTER: "counter", POWER: "power", COUNTER | POWER: "counter+power"}

INTERPOLATED = 1
DISAGREE = 16
FROZEN_SENSOR = 32
BAD_READ = 64
MARK_NAMES = (
    (BAD_READ, "bad_read"),
    (COUNTER_FROZEN, "counter_frozen"),
    (DISAGREE, "disagree"),
    (FROZEN_SENSOR, "frozen_sensor"),
    (IMPLAUSIBLE, "implausible"),
    (INTERPOLATED, "interpolated"),
    (RESET, "reset"),
)
_MARK_TEXT: dict[int, str] = {}
_HALF_NJ_PER_UJ = 2000
_FROZEN_MIN_TICKS = 10

FlagArray = npt.NDArray[np.uint8]


def mark_text(bits: int) -> str:
    """Names of the quality marks in `bits`, sorted, joined by commas."""
    text = _MARK_TEXT.get(bits)
    if text is None:
        text = _MARK_TEXT[bits] = ",".join(name for bit, name in MARK_NAMES if bits & bit)
    return text


class Slice(NamedTuple):
    """One device over `[a, b)`: energy and energy while not busy in µJ, energy under the idle floor in µJ (equal to
    the energy where the floor is unknown), busy, measured and unknown time in µs, and where it came from."""

    energy_uj: int
    idle_uj: int
    static_uj: int
    busy_us: int
    measured_us: int
    unknown_us: int
    method: int
    marks: int


@dataclass(frozen=True, slots=True)
class Curves:
    """Cumulative curves of a batch at its ticks, (d, n), from 0. `half_nj` is exact (units of nJ/2); the others are
    what is left after the floor to µJ, so any cutting of a batch adds up to it exactly. Pairs are (d, n-1)."""

    ticks: list[int]
    half_nj: Int64Array
    energy_uj: Int64Array
    idle_uj: Int64Array
    static_uj: Int64Array
    busy_us: Int64Array
    measured_us: Int64Array
    power_mw: Int64Array
    method: FlagArray
    marks: FlagArray
    pair_idle: npt.NDArray[np.bool_]
    pair_busy_ppm: Int64Array
    idle_floor_mw: tuple[int | None, ...]

    def whole(self) -> list[Slice]:
        """Every device over the whole batch, in device order; `static_uj` is left at 0 (ask `slice`)."""
        columns = (self.energy_uj, self.idle_uj, self.busy_us, self.measured_us)
        ends = [column[:, -1].tolist() for column in columns]
        methods = np.bitwise_or.reduce(self.method, axis=1).tolist()
        marks = np.bitwise_or.reduce(self.marks, axis=1).tolist()
        span_us = self.ticks[-1] - self.ticks[0]
        unknown = [span_us - measured for measured in ends[-1]]
        energy, idle, busy, measured = ends
        return [
            Slice(energy[d], idle[d], 0, busy[d], measured[d], unknown[d], methods[d], marks[d])
            for d in range(len(energy))
        ]

    def slice(self, device: int, a_us: int, b_us: int) -> Slice:
        """`floor C(b) - floor C(a)` and its companions; the interval must lie inside the batch."""
        at_a, at_b = self._at(device, a_us), self._at(device, b_us)
        first = bisect_right(self.ticks, a_us) - 1
        last = max(first, bisect_right(self.ticks, b_us - 1) - 1)
        pairs = slice(first, last + 1)
        energy, idle, static, busy, measured = (y - x for x, y in zip(at_a, at_b, strict=True))
        return Slice(
            energy,
            idle,
            static,
            busy,
            measured,
            b_us - a_us - measured,
            int(np.bitwise_or.reduce(self.method[device, pairs])),
            int(np.bitwise_or.reduce(self.marks[device, pairs])),
        )

    def _at(self, d: int, t_us: int) -> tuple[int, int, int, int, int]:
        """(energy, idle, static, busy, measured) at `t_us`, floored to integers, in Python integers."""
        k = bisect_right(self.ticks, t_us) - 1
        columns = (self.energy_uj, self.idle_uj, self.static_uj, self.busy_us, self.measured_us)
        energy, idle, static, busy, measured = (int(column[d, k]) for column in columns)
        into_us = t_us - self.ticks[k]
        if into_us == 0:
            return energy, idle, static, busy, measured
        span_us = self.ticks[k + 1] - self.ticks[k]
        method = int(self.method[d, k])
        if method:
            gain = self._energy_at(d, k, into_us, span_us, method) - energy
            floor_mw = self.idle_floor_mw[d]
            idle += gain if self.pair_idle[d, k] else 0
            static += gain if floor_mw is None else min(gain, int(self.static_uj[d, k + 1]) - static)
            energy += gain
            measured += into_us
        busy += into_us * int(self.pair_busy_ppm[d, k]) // PPM
        return energy, idle, static, busy, measured

    def _energy_at(self, d: int, k: int, into_us: int, span_us: int, method: int) -> int:
        """C in µJ inside pair k: a line for a counter pair, the integral of the power's line for a power pair."""
        base = int(self.half_nj[d, k]) * span_us
        if method == COUNTER:
            base += (int(self.half_nj[d, k + 1]) - int(self.half_nj[d, k])) * into_us
        else:
            p0, p1 = int(self.power_mw[d, k]), int(self.power_mw[d, k + 1])
            base += 2 * p0 * into_us * span_us + (p1 - p0) * into_us * into_us
        return base // (span_us * _HALF_NJ_PER_UJ)


def _cumulative(pairs: Int64Array) -> Int64Array:
    """Running sums from 0: (d, n-1) pairs to (d, n) ticks."""
    total = np.zeros((pairs.shape[0], pairs.shape[1] + 1), dtype=np.int64)
    np.cumsum(pairs, axis=1, out=total[:, 1:])
    return total


def build_curves(batch: Batch, policy: Policy) -> Curves:
    """Integrate a batch: counter where both readings are good, else the trapezoid over pairs no longer than
    max(gap_periods × period, gap_floor), else nothing (DESIGN.md section 3; measurement.md section 3)."""
    ticks = batch.ticks_us
    span = ticks[1:] - ticks[:-1]
    gap_limit_us = max(policy.gap_periods * batch.period_us, policy.gap_floor_us)
    short = span <= gap_limit_us
    power, power_valid = batch.power_mw, batch.power_valid & (batch.power_mw <= policy.max_device_power_mw)
    pair_sum = power[:, 1:] + power[:, :-1]
    by_power = power_valid[:, 1:] & power_valid[:, :-1] & short
    power_half_nj = pair_sum * span
    counter = repair_counters(batch, span, policy.max_device_power_mw, power_half_nj, by_power)
    by_counter = counter.usable
    half_nj_pairs = np.where(by_counter, counter.delta_uj * _HALF_NJ_PER_UJ, np.where(by_power, power_half_nj, 0))
    method = np.where(by_counter, COUNTER, np.where(by_power, POWER, 0)).astype(np.uint8)
    marks = counter.marks
    if not short.all():
        marks |= np.where(by_counter & ~short, INTERPOLATED, 0).astype(np.uint8)
    if power_valid.shape != batch.power_valid.shape or (batch.power_valid & ~power_valid).any():
        bad = batch.power_valid & ~power_valid
        marks |= np.where(bad[:, 1:] | bad[:, :-1], IMPLAUSIBLE, 0).astype(np.uint8)
    half_nj = _cumulative(half_nj_pairs)
    energy = half_nj // _HALF_NJ_PER_UJ
    gains = energy[:, 1:] - energy[:, :-1]
    busy = np.where(batch.busy_valid[:, 1:] & short, batch.busy_ppm[:, 1:], 0)
    pair_idle = batch.busy_valid[:, 1:] & short & (batch.busy_ppm[:, 1:] == 0)
    floors = tuple(device.idle_floor_mw for device in batch.devices)
    _mark_quality(batch, marks, by_counter, by_power, counter.delta_uj, power_half_nj, busy, policy)
    return Curves(
        ticks=ticks.tolist(),
        half_nj=half_nj,
        energy_uj=energy,
        idle_uj=_cumulative(np.where(pair_idle, gains, 0)),
        static_uj=_cumulative(_static_gains(gains, span, method, floors)),
        busy_us=_cumulative(span * busy // PPM),
        measured_us=_cumulative(np.where(method > 0, span, 0)),
        power_mw=power,
        method=method,
        marks=marks,
        pair_idle=pair_idle,
        pair_busy_ppm=busy,
        idle_floor_mw=floors,
    )


def _static_gains(gains: Int64Array, span: Int64Array, method: FlagArray, floors: tuple[int | None, ...]) -> Int64Array:
    """Energy of each pair under the idle floor: min(gain, floor × time); all of it where the floor is unknown."""
    known = [(d, floor) for d, floor in enumerate(floors) if floor is not None]
    if not known:
        return gains
    static = gains.copy()
    rows = [d for d, _ in known]
    floor_mw = np.array([floor for _, floor in known], dtype=np.int64)[:, None]
    static[rows] = np.minimum(gains[rows], floor_mw * span // 1000)
    return static


def _mark_quality(
    batch: Batch,
    marks: FlagArray,
    by_counter: npt.NDArray[np.bool_],
    by_power: npt.NDArray[np.bool_],
    delta_uj: Int64Array,
    power_half_nj: Int64Array,
    busy: Int64Array,
    policy: Policy,
) -> None:
    """Set `disagree` where counter and integrated power differ too much over the batch, and `frozen_sensor` where
    power never moves while the device works and no counter confirms it. In place."""
    both = by_counter & by_power
    counted = np.where(both, delta_uj, 0).sum(axis=1)
    integrated = np.where(both, power_half_nj, 0).sum(axis=1) // _HALF_NJ_PER_UJ
    apart = np.abs(counted - integrated) * PPM > policy.disagree_ppm * np.maximum(integrated, 1)
    apart &= both.any(axis=1)
    if apart.any():
        marks[apart] |= DISAGREE
    if batch.power_mw.shape[1] >= _FROZEN_MIN_TICKS:
        still = (batch.power_mw == batch.power_mw[:, :1]).all(axis=1) & batch.power_valid.all(axis=1)
        still &= ~by_counter.any(axis=1) & (busy.max(axis=1) > busy.min(axis=1))
        if still.any():
            marks[still] |= FROZEN_SENSOR
