"""A tick: what all probes read at one moment, as it waits in the log for its batch. Owns its form on disk."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wattledger_agent.probes.reading import NOT_READ, Reading

COLUMNS = ("power_mw", "energy_uj", "busy_ppm", "memory_used_bytes", "temperature_c", "throttle")
ENERGY = COLUMNS.index("energy_uj")
_BUSY = COLUMNS.index("busy_ppm")
_FORMAT = 2
"""Format 1 lacks what is last in format 2."""
JobKey = tuple[str, str]
"""Cluster and job; both empty: processes of no known job."""


class BadTick(ValueError):
    """A stored tick of another format."""


@dataclass(frozen=True, slots=True)
class DeviceTick:
    """One device: readings in the order of COLUMNS, activity by MIG instance, SM share by job (None: not told)."""

    device: str
    counter_epoch: str
    readings: tuple[Reading, ...]
    instances: tuple[tuple[str, Reading], ...] = ()
    jobs: tuple[tuple[JobKey, Reading], ...] | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """All devices and host zones at `at_us` (µs since the epoch, UTC)."""

    at_us: int
    devices: tuple[DeviceTick, ...]
    zones: tuple[tuple[str, str, Reading], ...] = field(default=())
    """Zone, counter epoch, reading."""
    begins: bool = False
    """It does not follow on from the tick before: they are in no common batch."""


def encode_tick(tick: Tick) -> bytes:
    """Bytes for the log."""
    devices = [
        [
            d.device,
            d.counter_epoch,
            [_plain(r) for r in d.readings],
            [[name, _plain(r)] for name, r in d.instances],
            None if d.jobs is None else [[*key, _plain(r)] for key, r in d.jobs],
            d.lost,
        ]
        for d in tick.devices
    ]
    zones = [[zone, epoch, _plain(r)] for zone, epoch, r in tick.zones]
    return json.dumps([_FORMAT, tick.at_us, devices, zones, tick.begins], separators=(",", ":")).encode()


def decode_tick(data: bytes) -> Tick:
    """Back from the log. Raises BadTick for a form that this version did not write."""
    try:
        form, at_us, devices, zones, *more = json.loads(data)
        if form not in (1, _FORMAT):
            raise BadTick(f"a tick of format {form!r}, not {_FORMAT}")
        return Tick(
            int(at_us),
            tuple(_device(*row) for row in devices),
            tuple((str(zone), str(epoch), _reading(value)) for zone, epoch, value in zones),
            bool(more and more[0]),
        )
    except (ValueError, TypeError) as error:
        raise BadTick(f"a tick in the log is not readable: {error}") from error


def joined_ticks(before_us: int, gone: Tick, kept: Tick) -> Tick:
    """`kept` as it reads when `gone`, between it and a tick at `before_us`, is left out: shares of the time since the
    tick before become those of both times together, weighted by length; where one is unknown, so is the whole."""
    lengths_us = gone.at_us - before_us, kept.at_us - gone.at_us
    rows = {row.device: row for row in gone.devices}

    def mean(first: Reading | None, second: Reading) -> Reading:
        if first is None or first.value is None or second.value is None:
            return second if second.value is None else first or Reading(None, NOT_READ)
        return Reading((first.value * lengths_us[0] + second.value * lengths_us[1]) // sum(lengths_us))

    def joined(row: DeviceTick) -> DeviceTick:
        earlier = rows.get(row.device)
        if earlier is None:
            return replace(row, readings=_with_busy(row, Reading(None, NOT_READ)), jobs=None)
        told = dict(earlier.instances)
        return replace(
            row,
            readings=_with_busy(row, mean(earlier.readings[_BUSY], row.readings[_BUSY])),
            instances=tuple((name, mean(told.get(name), reading)) for name, reading in row.instances),
            jobs=_joined_jobs(earlier.jobs, row.jobs, mean),
            lost=row.lost or earlier.lost,
        )

    return replace(kept, devices=tuple(map(joined, kept.devices)))


def _with_busy(row: DeviceTick, busy: Reading) -> tuple[Reading, ...]:
    return (*row.readings[:_BUSY], busy, *row.readings[_BUSY + 1 :])


def _joined_jobs(
    first: Sequence[tuple[JobKey, Reading]] | None,
    second: Sequence[tuple[JobKey, Reading]] | None,
    mean: Callable[[Reading, Reading], Reading],
) -> tuple[tuple[JobKey, Reading], ...] | None:
    """Where the driver told at both ticks; a job that is not among the told ones had no share."""
    if first is None or second is None:
        return None
    before, after, none = dict(first), dict(second), Reading(0)
    return tuple((job, mean(before.get(job, none), after.get(job, none))) for job in dict.fromkeys([*before, *after]))


def _device(
    device: str, epoch: str, readings: Sequence[Any], instances: Sequence[Any], jobs: Sequence[Any] | None, lost: bool
) -> DeviceTick:
    return DeviceTick(
        device,
        epoch,
        tuple(map(_reading, readings)),
        tuple((str(name), _reading(value)) for name, value in instances),
        None if jobs is None else tuple(((str(cluster), str(job)), _reading(value)) for cluster, job, value in jobs),
        bool(lost),
    )


def _plain(reading: Reading) -> int | str:
    return reading.reason if reading.value is None else reading.value


def _reading(value: Any) -> Reading:
    return Reading(None, value) if isinstance(value, str) else Reading(int(value))
