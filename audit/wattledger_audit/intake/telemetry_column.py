"""Columns of readings over time as arrays: settled to one value a tick, filled from one another, on common ticks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from wattledger_core.batch import BoolArray, Int64Array
from wattledger_core.units import PPM

NO_READING = -1


@dataclass(frozen=True, slots=True)
class Column:
    """Readings of one quantity of one device: strictly rising ticks, a value at each, and whether it is one."""

    ticks_us: Int64Array
    values: Int64Array
    valid: BoolArray


class Placed(NamedTuple):
    """One device's columns on common ticks."""

    ticks_us: Int64Array
    power: Column
    counter: Column
    busy: Column


def empty_column() -> Column:
    """A column without ticks."""
    nothing = np.zeros(0, dtype=np.int64)
    return Column(nothing, nothing, np.zeros(0, dtype=np.bool_))


def settle(ticks_us: Int64Array, values: Int64Array) -> tuple[Column, Int64Array, Int64Array]:
    """Samples in the order they were read, NO_READING where there is none: one value a tick, the first reading.

    Also where (index into the samples) another reading of the same tick differs from the one that stays, and where
    that one is."""
    order = np.argsort(ticks_us, kind="stable")
    ticks, readings = ticks_us[order], values[order]
    if len(ticks) == 0:
        return empty_column(), order, order
    starts = np.flatnonzero(np.concatenate(([True], ticks[1:] != ticks[:-1])))
    group = np.cumsum(np.concatenate(([0], (ticks[1:] != ticks[:-1]).astype(np.int64))))
    places = np.where(readings != NO_READING, np.arange(len(ticks)), len(ticks))
    kept = np.minimum.reduceat(places, starts)
    valid = kept < len(ticks)
    kept = np.where(valid, kept, starts)
    stays = readings[kept]
    conflicts = np.flatnonzero((readings != NO_READING) & (readings != stays[group]))
    column = Column(ticks[starts], np.where(valid, stays, 0), valid)
    return column, order[conflicts], order[kept[group[conflicts]]]


def filled(columns: Iterable[Column]) -> Column:
    """Each tick's first valid value, asking the columns in the order given."""
    given = [column for column in columns if len(column.ticks_us)]
    if len(given) < 2:
        return given[0] if given else empty_column()
    ticks = np.unique(np.concatenate([column.ticks_us for column in given]))
    values, valid = np.zeros(len(ticks), dtype=np.int64), np.zeros(len(ticks), dtype=np.bool_)
    for column in reversed(given):
        at = np.searchsorted(ticks, column.ticks_us[column.valid])
        values[at], valid[at] = column.values[column.valid], True
    return Column(ticks, values, valid)


def weighted_sum(parts: Sequence[tuple[int, Column]], of: int) -> Column:
    """Parts of a whole as `(weight, column)`: at each tick Σ weight × value / of over those that have one, at most
    PPM. Made for the activity of MIG instances."""
    ticks = np.unique(np.concatenate([column.ticks_us for _, column in parts]))
    total, valid = np.zeros(len(ticks), dtype=np.int64), np.zeros(len(ticks), dtype=np.bool_)
    for weight, column in parts:
        at = np.searchsorted(ticks, column.ticks_us[column.valid])
        total[at] += column.values[column.valid] * weight
        valid[at] = True
    return Column(ticks, np.minimum(total // of, PPM), valid)


def place(power: Column, counter: Column, busy: Column) -> Placed:
    """Columns on common ticks: those of power and counter. A busy reading between two of them is the share up to the
    later one and stands there, if that is less than a period away; ticks with nothing but a busy reading would only
    tear the power's pairs apart. Where neither power nor counter was ever read, all ticks stay, without a reading."""
    bearing = [column.ticks_us for column in (power, counter) if column.valid.any()]
    all_ticks = [column.ticks_us for column in (power, counter, busy)]
    ticks = np.unique(np.concatenate(bearing or all_ticks))
    return Placed(ticks, _at(ticks, power), _at(ticks, counter), _at(ticks, busy, snap=True))


def _at(ticks_us: Int64Array, column: Column, snap: bool = False) -> Column:
    values, valid = np.zeros(len(ticks_us), dtype=np.int64), np.zeros(len(ticks_us), dtype=np.bool_)
    read_us, readings = column.ticks_us[column.valid], column.values[column.valid]
    at = np.searchsorted(ticks_us, read_us)
    inside = at < len(ticks_us)
    read_us, readings, at = read_us[inside], readings[inside], at[inside]
    if snap and len(ticks_us) > 1:
        near = ticks_us[at] - read_us < int(np.median(np.diff(ticks_us)))
        values[at[near]], valid[at[near]] = readings[near], True
    exact = ticks_us[at] == read_us
    values[at[exact]], valid[at[exact]] = readings[exact], True
    return Column(ticks_us, values, valid)
