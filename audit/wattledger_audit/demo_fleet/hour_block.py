"""One node's telemetry over one hour as arrays, made from the job table. A function of node and hour."""

from dataclasses import dataclass

import numpy as np
from wattledger_core.batch import BoolArray, Int64Array
from wattledger_core.units import PPM

from wattledger_audit.demo_fleet.day import second_of_day
from wattledger_audit.demo_fleet.job_row import Span, spans_of
from wattledger_audit.demo_fleet.job_table import JOBS
from wattledger_audit.demo_fleet.loads import noise, power_mw, use_ppm
from wattledger_audit.demo_fleet.machines import Card, Machine
from wattledger_audit.demo_fleet.quirks import (
    INVALID_EVERY,
    RESET,
    RESET_START_UJ,
    SENTINEL,
    SENTINEL_EVERY,
    SENTINEL_MW,
    UNTAGGED,
    UNTAGGED_PPM,
)

HOUR_S = 3_600
_JITTER_PPM, _JITTER_MW = 30_000, 1_800
_FIRST_COUNTER_UJ = 7_000_000_000_000
"""What the counters of the first card of a node read at the day's start; the others a multiple."""


@dataclass(frozen=True, slots=True)
class Use:
    """What one span does on its device: its busy share at each tick, and during which ticks it runs."""

    span: Span
    used_ppm: Int64Array
    first: int
    until: int


@dataclass(frozen=True, slots=True)
class HourBlock:
    """Both ends included: 3601 ticks, the last being the first of the next hour. Arrays are (cards, ticks).
    `counter_uj` is what each card's counter reads, not yet relative to anything."""

    second: Int64Array
    uses: tuple[tuple[Use, ...], ...]
    untagged: tuple[Int64Array | None, ...]
    power_mw: Int64Array
    power_valid: BoolArray
    counter_uj: Int64Array
    busy_ppm: Int64Array


def first_counters(machine: Machine) -> Int64Array:
    """Counter readings in µJ at the day's start, one per card."""
    return np.array([_FIRST_COUNTER_UJ * (card.index + 1) for card in machine.cards], dtype=np.int64)


def spans_by_device(node: str) -> dict[str, list[Span]]:
    """Spans of the node's jobs by device, in order of the table."""
    found: dict[str, list[Span]] = {}
    for job in JOBS:
        for span in spans_of(job) if job.node == node else ():
            found.setdefault(span.claim.device, []).append(span)
    return found


def hour_block(machine: Machine, spans: dict[str, list[Span]], hour: int, counters_uj: Int64Array) -> HourBlock:
    """The hour's block; `counters_uj` are the readings at its first tick."""
    second = np.arange(hour * HOUR_S, (hour + 1) * HOUR_S + 1, dtype=np.int64)
    uses = tuple(tuple(_uses(spans.get(card.device, ()), second)) for card in machine.cards)
    untagged = tuple(_untagged(machine, card, second) for card in machine.cards)
    busy = np.array([_busy(machine, card, *found, second) for card, *found in zip(machine.cards, uses, untagged)])
    power = np.array([_power(machine, card, busy[d], second) for d, card in enumerate(machine.cards)])
    counter = np.repeat(counters_uj[:, None], len(second), axis=1)
    counter[:, 1:] += np.cumsum((power[:, 1:] + power[:, :-1]) * 500, axis=1)
    _reset(machine, counter, second)
    valid = np.ones(power.shape, dtype=np.bool_)
    _spoil(machine, power, valid, second)
    return HourBlock(second, uses, untagged, power, valid, counter, busy)


def _uses(spans: list[Span] | tuple[()], second: Int64Array) -> list[Use]:
    found = []
    for span in spans:
        start_s, end_s = second_of_day(span.start_us), second_of_day(span.released_us)
        first, until = (int(np.searchsorted(second, edge)) for edge in (start_s, end_s))
        if first < until:
            used = np.zeros(len(second), dtype=np.int64)
            used[first:until] = use_ppm(span.job.load, second[first:until] - start_s)
            found.append(Use(span, used, first, until))
    return found


def _untagged(machine: Machine, card: Card, second: Int64Array) -> Int64Array | None:
    here = (second >= UNTAGGED.start_s) & (second < UNTAGGED.end_s)
    if (machine.node, card.index) != (UNTAGGED.node, UNTAGGED.index) or not here.any():
        return None
    return np.where(here, UNTAGGED_PPM, 0)


def _busy(
    machine: Machine, card: Card, uses: tuple[Use, ...], untagged: Int64Array | None, second: Int64Array
) -> Int64Array:
    """Busy share of the whole card: instances by their slices, everything else added up, at most all of it."""
    used = np.zeros(len(second), dtype=np.int64) if untagged is None else untagged.copy()
    for use in uses:
        claim = use.span.claim
        used += use.used_ppm * claim.share_num // claim.share_den if claim.gpu_instance else use.used_ppm
    jitter = noise(_key(machine, card), second, 2 * _JITTER_PPM) - _JITTER_PPM
    return np.where(used > 0, np.clip(used + jitter, 1, PPM), 0)


def _power(machine: Machine, card: Card, busy: Int64Array, second: Int64Array) -> Int64Array:
    jitter = noise(_key(machine, card) + 500, second, _JITTER_MW)
    return power_mw(card.idle_mw, card.peak_mw, busy) + jitter


def _key(machine: Machine, card: Card) -> int:
    return sum(machine.node.encode()) * 100 + card.index


def _reset(machine: Machine, counter: Int64Array, second: Int64Array) -> None:
    """In the hour of the reset, start the card's counter again; later hours go on from what it reads then."""
    if machine.node == RESET.node and second[0] < RESET.start_s < second[-1]:
        place = RESET.start_s - int(second[0])
        row = counter[RESET.index]
        row[place:] += RESET_START_UJ - row[place]


def _spoil(machine: Machine, power: Int64Array, valid: BoolArray, second: Int64Array) -> None:
    """Put failed and nonsensical readings where they belong. In place."""
    if machine.node == SENTINEL.node:
        here = (second >= SENTINEL.start_s) & (second < SENTINEL.end_s)
        failed = here & (second % INVALID_EVERY == 0)
        valid[SENTINEL.index] &= ~failed
        power[SENTINEL.index][here & ~failed & (second % SENTINEL_EVERY == 0)] = SENTINEL_MW
