"""Traces of one node's devices as the core's batches. Owns where time is cut; energy is the core's."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import merge

import numpy as np
from wattledger_core.batch import Batch, BoolArray, Int64Array, SampledDevice

from wattledger_audit.intake.mig_profile import slices_of_model
from wattledger_audit.intake.record import DeviceTrace

BATCH_TICKS = 600
_AGENT = "file"
_MIG_SLICES = 7
_Shape = tuple[int, bytes]


def trace_batches(
    traces: Sequence[DeviceTrace], site: str = "", batch_ticks: int = BATCH_TICKS, first_seq: int = 0
) -> Iterator[Batch]:
    """Batches of one node's traces (each device once) in order of their end, of at most `batch_ticks` ticks.

    Devices that were read at the same ticks share their batches; a device that was read at others (nvidia-smi stamps
    each row, an exporter may fail for one device) has batches of its own, since a reading that is missing only
    because another device was read just then would be a gap to the core. For every device its batches tile
    `[first tick, last tick)`: the first tick of a batch is the last one of the batch before. A device with one tick
    has no batch: nothing lies between two readings.
    """
    if batch_ticks < 2:
        raise ValueError(f"batch_ticks {batch_ticks}: a batch has two ticks at least")
    alike: dict[_Shape, list[DeviceTrace]] = {}
    for trace in traces:
        if len(trace.ticks_us) > 1:
            alike.setdefault((len(trace.ticks_us), trace.ticks_us.tobytes()), []).append(trace)
    streams = [_tiles(group, site, batch_ticks) for group in alike.values()]
    for seq, batch in enumerate(merge(*streams, key=lambda batch: batch.end_us), start=first_seq):
        yield replace(batch, seq=seq)


def _tiles(group: list[DeviceTrace], site: str, batch_ticks: int) -> Iterator[Batch]:
    ticks = group[0].ticks_us
    period_us = max(int(np.median(np.diff(ticks))), 1)
    devices = tuple(_sampled(trace) for trace in group)
    power, power_valid = _rows([t.power_mw for t in group]), _flags([t.power_valid for t in group])
    counter_valid = _flags([t.counter_valid for t in group])
    counter = _relative(_rows([t.counter_uj for t in group]), counter_valid)
    busy, busy_valid = _rows([t.busy_ppm for t in group]), _flags([t.busy_valid for t in group])
    good = _good_cuts(counter, counter_valid)
    first = 0
    while first < len(ticks) - 1:
        last = _cut(good, first, min(first + batch_ticks - 1, len(ticks) - 1))
        part = np.s_[:, first : last + 1]
        yield Batch(
            group[0].node, site, _AGENT, "", 0, period_us, ticks[first : last + 1], devices, power[part],
            power_valid[part], counter[part], counter_valid[part], busy[part], busy_valid[part],
        )  # fmt: skip
        first = last


def _sampled(trace: DeviceTrace) -> SampledDevice:
    slices = slices_of_model(trace.gpu_model)
    return SampledDevice(
        trace.device, trace.index, "", -1, trace.gpu_model, trace.driver, "", "", "", 0, None,
        slices if slices > 1 else _MIG_SLICES,
    )  # fmt: skip


def _rows(columns: list[Int64Array]) -> Int64Array:
    return np.stack(columns)


def _flags(columns: list[BoolArray]) -> BoolArray:
    return np.stack(columns)


def _relative(counter: Int64Array, valid: BoolArray) -> Int64Array:
    """Counters from their device's first valid reading on; 0 where there is no reading."""
    base = counter[np.arange(len(counter)), np.argmax(valid, axis=1)]
    return np.where(valid, counter - base[:, None], 0)


def _good_cuts(counter: Int64Array, valid: BoolArray) -> BoolArray:
    """Ticks at which a cut hides nothing from the core: each device that has a counter was read there, and neither
    falls to that reading nor from it (a bad read or a reset is told from its neighbours)."""
    good = np.ones(counter.shape[1], dtype=np.bool_)
    for values, known in zip(counter, valid, strict=True):
        if not known.any():
            continue
        places = np.flatnonzero(known)
        readings = values[places]
        rises = np.concatenate(([True], readings[1:] >= readings[:-1]))
        calm = np.zeros(len(good), dtype=np.bool_)
        calm[places] = rises & np.concatenate((rises[1:], [True]))
        good &= calm
    return good


def _cut(good: BoolArray, first: int, furthest: int) -> int:
    """The last tick of a batch: the furthest good one, or just the furthest where there is none."""
    if furthest == len(good) - 1:
        return furthest
    places = np.flatnonzero(good[first + 1 : furthest + 1])
    return first + 1 + int(places[-1]) if len(places) else furthest
