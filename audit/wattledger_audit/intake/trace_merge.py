"""Traces of one device from several files made one. Owns which node it stood in and which of two readings stays."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

import numpy as np
from wattledger_core.batch import Int64Array

from wattledger_audit.intake.record import DeviceTrace
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.telemetry_card import UNIT_OF, conflict_reason
from wattledger_audit.intake.telemetry_column import NO_READING, Column, place, settle
from wattledger_audit.intake.telemetry_labels import is_worldwide
from wattledger_audit.intake.telemetry_metric import BUSY, CHANNELS, COUNTER, POWER

_Sourced = tuple[str, DeviceTrace]
_ENDING = re.compile(r"\.(?:csv|tsv|txt|log|json|ndjson|prom|metrics|gz)$", re.IGNORECASE)


class Homes(NamedTuple):
    """What other files say of where devices stand: the names of machines, and the machine of a device's UUID."""

    nodes: Collection[str] = ()
    of_device: Mapping[str, str] = {}


NO_HOMES = Homes()


def merge_traces(traces: Iterable[_Sourced], rejections: Rejections, homes: Homes = NO_HOMES) -> list[DeviceTrace]:
    """One trace a device, by node then index then device, from `(file name, trace)`, whatever the order of the files.

    A UUID is one device wherever it is seen; other names are a node's own. Where no trace says the node, it is the one
    that `homes` has for the device, else the machine that the file is called after (`smi-gpu-07.csv`), else the file's
    stem. Readings of one tick from several files count once; where they differ the one of the file that comes first
    by name stays and the other is counted (`conflicting_sample`). Power, energy and use may come in files of their own.
    """
    by_device: dict[tuple[str, str], list[_Sourced]] = {}
    named = file_names(homes.nodes)
    for file, trace in sorted(traces, key=lambda sourced: sourced[0]):
        worldwide = is_worldwide(trace.device)
        node = "" if worldwide else trace.node or named(file)
        by_device.setdefault((node, trace.device), []).append((file, trace))
    merged = [_merged(group, homes, named, rejections) for group in by_device.values()]
    return sorted(merged, key=lambda trace: (trace.node, trace.index, trace.device))


def file_names(nodes: Collection[str]) -> Callable[[str], str]:
    """Reads a machine's name from a file's: the known one that stands in it by itself, else the file's stem."""
    known = {node.casefold(): node for node in nodes if any(letter.isalpha() for letter in node)}
    longest = sorted(known, key=lambda node: (-len(node), node))
    anywhere = re.compile("|".join(rf"(?<![a-z0-9]){re.escape(node)}(?![a-z0-9])" for node in longest) or r"(?!)")

    def named(file: str) -> str:
        stem = PurePath(file).name
        while stem != (shorter := _ENDING.sub("", stem)):
            stem = shorter
        found = set(anywhere.findall(stem.casefold()))
        return known[found.pop()] if len(found) == 1 else stem

    return named


def _merged(group: list[_Sourced], homes: Homes, named: Callable[[str], str], rejections: Rejections) -> DeviceTrace:
    first = group[0][1]
    nodes = list(dict.fromkeys(trace.node for _, trace in group if trace.node))
    node = nodes[0] if nodes else homes.of_device.get(first.device) or named(group[0][0])
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
