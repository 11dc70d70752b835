"""Energy counters: which pairs of readings can be differenced. Owns resets, bad reads, frozen counters."""

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wattledger_core.batch import Batch, BoolArray, Int64Array

RESET = 2
IMPLAUSIBLE = 4
COUNTER_FROZEN = 8
_INTERPOLATED = 1
_BAD_READ = 64
_FROZEN_MIN_PAIRS = 5


@dataclass(frozen=True, slots=True)
class CounterPairs:
    """Per pair: the counter's increase in µJ, whether it may be used, and quality marks. (d, n-1)."""

    delta_uj: Int64Array
    usable: BoolArray
    marks: npt.NDArray[np.uint8]


def repair_counters(
    batch: Batch, span_us: Int64Array, max_power_mw: int, power_half_nj: Int64Array, by_power: BoolArray
) -> CounterPairs:
    """Difference the counters of a batch.

    A counter that falls is a reset (later readings stay low) or a bad read (the next one is back): never a wrap.
    Across missing or bad readings of one epoch the increase is spread evenly and marked. A counter that stands still
    over the whole batch while power flows is frozen and not used.
    """
    values, valid = batch.counter_uj, batch.counter_valid
    marks = np.zeros((values.shape[0], values.shape[1] - 1), dtype=np.uint8)
    delta = values[:, 1:] - values[:, :-1]
    usable = valid[:, 1:] & valid[:, :-1]
    fell = usable & (delta < 0)
    incomplete = valid.any(axis=1) & ~valid.all(axis=1)
    wild = usable & (delta * 1000 > max_power_mw * span_us)
    odd = np.logical_or(np.logical_or.reduce(fell | wild, axis=1), incomplete)
    epochs = [device.epoch_from_tick for device in batch.devices]
    for d, epoch_from in enumerate(epochs):
        if odd[d] or epoch_from > 0:
            _repair_device(d, batch, delta, usable, marks, max_power_mw)
    moved = np.where(usable, delta, 0).sum(axis=1)
    if (moved == 0).any():
        flowing = by_power.sum(axis=1) >= _FROZEN_MIN_PAIRS
        flowing &= np.where(by_power, power_half_nj, 0).sum(axis=1) > 0
        frozen = (moved == 0) & usable.any(axis=1) & flowing
        usable[frozen] = False
        marks[frozen] |= COUNTER_FROZEN
    return CounterPairs(delta, usable, marks)


def _good_readings(values: list[int], valid: list[bool]) -> tuple[list[int], list[int]]:
    """Indices of the readings to trust, and of the bad reads among the valid ones: a reading off the line between
    its neighbours, which rise past it, is bad (amdsmi#115 and xpumanager#130 are the kind)."""
    known = [i for i, ok in enumerate(valid) if ok]
    bad: list[int] = []
    for place in range(1, len(known) - 1):
        before, here, after = (values[known[place + k]] for k in (-1, 0, 1))
        if known[place - 1] not in bad and before <= after and not before <= here <= after:
            bad.append(known[place])
    return [i for i in known if i not in bad], bad


def _repair_device(
    d: int, batch: Batch, delta: Int64Array, usable: BoolArray, marks: npt.NDArray[np.uint8], max_power_mw: int
) -> None:
    """Rewrite one device's pairs from the readings that can be trusted. In place."""
    ticks = batch.ticks_us.tolist()
    values = batch.counter_uj[d].tolist()
    epoch_from = batch.devices[d].epoch_from_tick
    good, bad = _good_readings(values, batch.counter_valid[d].tolist())
    usable[d] = False
    if 0 < epoch_from < len(ticks):
        # also where the reading before is missing, for whoever saw the counter begin anew withheld it
        marks[d, epoch_from - 1] |= RESET
    for i in bad:
        marks[d, max(i - 1, 0) : i + 1] |= _BAD_READ
    for left, right in itertools.pairwise(good):
        pairs = slice(left, right)
        gain = values[right] - values[left]
        if gain < 0 or left < epoch_from <= right:
            marks[d, pairs] |= RESET
        elif gain * 1000 > max_power_mw * (ticks[right] - ticks[left]):
            marks[d, pairs] |= IMPLAUSIBLE
        else:
            _spread(d, left, right, gain, ticks, delta)
            usable[d, pairs] = True
            if right - left > 1:
                marks[d, pairs] |= _INTERPOLATED


def _spread(d: int, left: int, right: int, gain: int, ticks: list[int], delta: Int64Array) -> None:
    """Spread `gain` evenly over the pairs from `left` to `right`, as differences of one rounded cumulative."""
    length, given = ticks[right] - ticks[left], 0
    for k in range(left, right):
        upto = gain * (ticks[k + 1] - ticks[left]) // length
        delta[d, k] = upto - given
        given = upto
