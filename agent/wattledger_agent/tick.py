"""A tick: what all probes read at one moment, as it waits in the log for its batch. Owns its form on disk."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wattledger_agent.probes.reading import Reading

COLUMNS = ("power_mw", "energy_uj", "busy_ppm", "memory_used_bytes", "temperature_c", "throttle")
_FORMAT = 1
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
    return json.dumps([_FORMAT, tick.at_us, devices, zones], separators=(",", ":")).encode()


def decode_tick(data: bytes) -> Tick:
    """Back from the log. Raises BadTick for a form that this version did not write."""
    try:
        form, at_us, devices, zones = json.loads(data)
        if form != _FORMAT:
            raise BadTick(f"a tick of format {form!r}, not {_FORMAT}")
        return Tick(
            int(at_us),
            tuple(_device(*row) for row in devices),
            tuple((str(zone), str(epoch), _reading(value)) for zone, epoch, value in zones),
        )
    except (ValueError, TypeError) as error:
        raise BadTick(f"a tick in the log is not readable: {error}") from error


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
