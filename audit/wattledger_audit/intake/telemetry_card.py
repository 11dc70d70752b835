"""One physical device of one file: its samples, and the trace they make. Owns which of several readings counts."""

from array import array
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

from wattledger_audit.intake.record import DeviceTrace
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.telemetry_column import NO_READING, Column, filled, place, settle, weighted_sum
from wattledger_audit.intake.telemetry_metric import BUSY, CHANNELS, COUNTER, DCGM, EXPORTERS, POWER

UNIT_OF = {POWER: "mW", COUNTER: "µJ", BUSY: "ppm"}
WHOLE = -1
"""The part number of what is about the whole device."""
_MIG_SLICES = 7
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Samples:
    """One quantity of one device from one metric and one part of it, in the order read; `lines` says from where."""

    column: str
    ticks_us: "array[int]" = field(default_factory=lambda: array("q"))
    values: "array[int]" = field(default_factory=lambda: array("q"))
    lines: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, at_us: int, value: int | None, line: int) -> None:
        """A reading; None: there was none at that time."""
        self.ticks_us.append(at_us)
        self.values.append(NO_READING if value is None else value)
        self.lines.append(line)


@dataclass(slots=True)
class Card:
    """What is known of one device, and its samples by exporter, channel, metric rank and part.

    `shares` are MIG instances' slices by part, and of how many."""

    device: str = ""
    index: int = -1
    nodes: dict[int, str] = field(default_factory=dict)
    other_nodes: set[str] = field(default_factory=set)
    gpu_model: str = ""
    driver: str = ""
    mig: bool = False
    samples: dict[tuple[str, str, int, int], Samples] = field(default_factory=dict)
    shares: dict[int, tuple[int, int]] = field(default_factory=dict)


def card_trace(card: Card, node: str, file: str, rejections: Rejections) -> DeviceTrace:
    """A device's samples as its trace; what contradicts is counted in the rejections. The exporter with most power
    and energy readings counts: two that are asked at different times would tear each other's pairs apart."""
    present = sorted({place_of[0] for place_of in card.samples}, key=EXPORTERS.index)
    exporter = max(present, key=lambda name: _readings(card, name))
    device = card.device or str(max(card.index, 0))
    for other in present:
        if other != exporter:
            words = f"other_exporter: {exporter} says more about {device} and is used alone"
            rejections.add(file, 0, other, "", words)
    power, counter, busy = (_channel(card, exporter, channel, device, file, rejections) for channel in CHANNELS)
    placed = place(power, counter, busy)
    return DeviceTrace(
        node, device, card.index, card.gpu_model, card.driver, placed.ticks_us, placed.power.values,
        placed.power.valid, placed.counter.values, placed.counter.valid, placed.busy.values, placed.busy.valid,
    )  # fmt: skip


def _readings(card: Card, exporter: str) -> int:
    """How many power and energy readings an exporter gives."""
    return sum(
        len(samples.values) - samples.values.count(NO_READING)
        for (name, channel, _, _), samples in card.samples.items()
        if name == exporter and channel != BUSY
    )


def _channel(card: Card, exporter: str, channel: str, device: str, file: str, rejections: Rejections) -> Column:
    """The card's readings of one quantity. MIG instances and AMD partitions repeat the card's power and energy: one
    of them is taken at a tick, never their sum. Activity of MIG instances is each one's own: summed by slices."""
    whole: list[Column] = []
    parts: list[tuple[int, Column]] = []
    of = _MIG_SLICES
    for (name, kind, rank, part), samples in sorted(card.samples.items(), key=lambda item: item[0][2:]):
        if name != exporter or kind != channel:
            continue
        if channel == BUSY and exporter == DCGM and card.mig and rank == 0:
            continue  # not supported under MIG; the 0 that may stand there is no reading
        column = _settled(samples, channel, device, file, rejections)
        if channel == BUSY and part in card.shares:
            slices, of = card.shares[part]
            parts.append((slices, column))
        else:
            whole.append(column)
    if parts:
        whole.append(weighted_sum(parts, of))
    return filled(whole)


def _settled(samples: Samples, channel: str, device: str, file: str, rejections: Rejections) -> Column:
    ticks = np.frombuffer(samples.ticks_us, dtype=np.int64)
    values = np.frombuffer(samples.values, dtype=np.int64)
    column, conflicts, stay = settle(ticks, values)
    for here, kept in zip(conflicts.tolist(), stay.tolist(), strict=True):
        value = f"{samples.values[here]} {UNIT_OF[channel]}"
        reason = conflict_reason(device, samples.ticks_us[here], samples.values[kept], channel)
        rejections.add(file, samples.lines[here], samples.column, value, reason)
    return column


def conflict_reason(device: str, at_us: int, kept: int, channel: str) -> str:
    """Why a second, different reading of one tick is not used."""
    at = (_EPOCH + timedelta(microseconds=at_us)).isoformat()
    return f"conflicting_sample: {device} at {at} is read as {kept} {UNIT_OF[channel]} already; the first stays"
