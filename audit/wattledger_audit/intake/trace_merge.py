"""Traces of one device from several files made one. Owns which node it stood in and which of two readings stays."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePath

import numpy as np
from wattledger_core.batch import Int64Array

from wattledger_audit.intake.record import DeviceTrace
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.telemetry_card import UNIT_OF, conflict_reason
from wattledger_audit.intake.telemetry_column import NO_READING, Column, place, settle
from wattledger_audit.intake.telemetry_labels import is_worldwide
from wattledger_audit.intake.telemetry_metric import BUSY, CHANNELS, COUNTER, POWER

_Sourced = tuple[str, DeviceTrace]


def merge_traces(traces: Iterable[_Sourced], rejections: Rejections) -> list[DeviceTrace]:
    """One trace a device, by node then index then device, from `(file name, trace)` in the order of the files.

    A UUID is one device wherever it is seen; other names are a node's own. Where no file says the node, it is the
    stem of the first file. Readings of one tick from several files count once; where they differ the first stays and
    the other is counted (`conflicting_sample`). Power, energy and use may come in files of their own.
    """
    by_device: dict[tuple[str, str], list[_Sourced]] = {}
    for file, trace in traces:
        worldwide = is_worldwide(trace.device)
        node = "" if worldwide else trace.node or PurePath(file).stem
        by_device.setdefault((node, trace.device), []).append((file, trace))
    merged = [_merged(group, rejections) for group in by_device.values()]
    return sorted(merged, key=lambda trace: (trace.node, trace.index, trace.device))


def _merged(group: list[_Sourced], rejections: Rejections) -> DeviceTrace:
    first = group[0][1]
    nodes = list(dict.fromkeys(trace.node for _, trace in group if trace.node))
    node = nodes[0] if nodes else PurePath(group[0][0]).stem
    for file, trace in group:
        if trace.node and trace.node != node:
            words = f"node_changed: {trace.device} stood in {node} before, and all of it is counted there"
            rejections.add(file, 0, "node", trace.node, words)
    if len(group) == 1:
        return first if first.node == node else replace(first, node=node)
    power, counter, busy = (_column(group, channel, rejections) for channel in CHANNELS)
    placed = place(power, counter, busy)
    return DeviceTrace(
        node, first.device, next((trace.index for _, trace in group if trace.index >= 0), -1),
        next((trace.gpu_model for _, trace in group if trace.gpu_model), ""),
        next((trace.driver for _, trace in group if trace.driver), ""),
        placed.ticks_us, placed.power.values, placed.power.valid, placed.counter.values, placed.counter.valid,
        placed.busy.values, placed.busy.valid,
    )  # fmt: skip


def _column(group: list[_Sourced], channel: str, rejections: Rejections) -> Column:
    """One quantity of all files. A file without a single reading of it says nothing about it, not even when."""
    parts = [(file, trace, *_readings(trace, channel)) for file, trace in group]
    told = [part for part in parts if (part[3] != NO_READING).any()] or parts
    ticks = np.concatenate([part[2] for part in told])
    values = np.concatenate([part[3] for part in told])
    owners = np.repeat(np.arange(len(told)), [len(part[2]) for part in told])
    column, conflicts, stay = settle(ticks, values)
    for here, kept in zip(conflicts.tolist(), stay.tolist(), strict=True):
        file, trace = told[int(owners[here])][:2]
        reason = conflict_reason(trace.device, int(ticks[here]), int(values[kept]), channel)
        rejections.add(file, 0, channel, f"{int(values[here])} {UNIT_OF[channel]}", reason)
    return column


def _readings(trace: DeviceTrace, channel: str) -> tuple[Int64Array, Int64Array]:
    columns = {
        POWER: (trace.power_mw, trace.power_valid),
        COUNTER: (trace.counter_uj, trace.counter_valid),
        BUSY: (trace.busy_ppm, trace.busy_valid),
    }
    values, valid = columns[channel]
    return trace.ticks_us, np.where(valid, values, NO_READING)
