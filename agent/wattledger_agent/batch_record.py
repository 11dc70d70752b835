"""Ticks become one sample record: columns with validity, counters as a base and deltas, reasons for what is missing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from wattledger_schemas.columns import pack_column

from wattledger_agent.probes.device import Device
from wattledger_agent.probes.reading import NOT_READ, Reading, unknown
from wattledger_agent.tick import COLUMNS, DeviceTick, JobKey, Tick

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
_ABSENT = unknown(NOT_READ)
_POWER, _ENERGY, _BUSY, _MEMORY, _TEMPERATURE, _THROTTLE = range(len(COLUMNS))
_WIDTH = {_POWER: 4, _BUSY: 4, _MEMORY: 8, _TEMPERATURE: 4, _THROTTLE: 4}
_WIRE_NAMES = {_POWER: "power_mw", _ENERGY: "energy_delta_uj", _BUSY: "busy_ppm", _MEMORY: "memory_bytes"}
_MAX_INT32 = (1 << 31) - 1
_MAX_INT64 = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class BatchHead:
    """Who sends the batch: the agent's run (`boot_id`) and its number in the run make the batch's identity."""

    node: str
    site: str
    agent: str
    boot_id: str
    agent_version: str
    period_us: int


def batch_record(
    head: BatchHead,
    seq: int,
    ticks: Sequence[Tick],
    devices: Mapping[str, Device],
    idle_floors_mw: Mapping[str, int],
) -> dict[str, Any]:
    """A `sample_batch` of at least two ticks in rising order; `devices` say what each device is.

    A device without a `Device` is left out: it has been seen by a reading but not by an inventory.
    """
    names = list(dict.fromkeys(d.device for tick in ticks for d in tick.devices if d.device in devices))
    rows = [{d.device: d for d in tick.devices} for tick in ticks]
    zones = list(dict.fromkeys(zone for tick in ticks for zone, _, _ in tick.zones))
    return {
        "node": head.node,
        "site": head.site,
        "agent": head.agent,
        "boot_id": head.boot_id,
        "seq": seq,
        "period_us": head.period_us,
        "ticks_us": np.array([tick.at_us for tick in ticks], dtype="<i8").tobytes(),
        "devices": [
            _device(devices[name], [row.get(name) for row in rows], idle_floors_mw.get(name)) for name in names
        ],
        "agent_version": head.agent_version,
        "host_zones": [_zone(zone, ticks) for zone in zones],
    }


def _device(device: Device, rows: Sequence[DeviceTick | None], idle_floor_mw: int | None) -> dict[str, Any]:
    columns = [[_ABSENT if row is None else row.readings[i] for row in rows] for i in range(len(COLUMNS))]
    epochs = [row.counter_epoch if row else None for row in rows]
    epoch = next((e for e in reversed(epochs) if e), device.counter_epoch)
    epoch_from = max((i + 1 for i, e in enumerate(epochs) if e is not None and e != epoch), default=0)
    base_uj, delta = _deltas(columns[_ENERGY])
    lost = [i for i, row in enumerate(rows) if row is not None and row.lost]
    return {
        "device": device.device,
        "index": device.index,
        "pci": device.pci,
        "minor": device.minor,
        "gpu_model": device.gpu_model,
        "driver": device.driver,
        "mig_layout": device.mig_layout,
        "sharing": device.sharing,
        "counter_epoch": epoch,
        "epoch_from_tick": epoch_from,
        "idle_floor_mw": idle_floor_mw,
        "slices": device.slices,
        "power_mw": _packed(columns, _POWER),
        "counter_base_uj": base_uj,
        "energy_delta_uj": delta,
        "busy_ppm": _packed(columns, _BUSY),
        "memory_bytes": _packed(columns, _MEMORY),
        "instances": _instances(device, rows),
        "processes": _processes(rows),
        "vendor": device.vendor,
        "socket": device.socket,
        "power_field": device.power_field,
        "power_window_us": device.power_window_us,
        "power_refresh_us": device.power_refresh_us,
        "counter_scope": device.counter_scope,
        "temperature_c": _packed(columns, _TEMPERATURE),
        "throttle": _packed(columns, _THROTTLE),
        "lost_from_tick": lost[0] if lost else -1,
        "nulls": _nulls(columns),
    }


def _cells(readings: Sequence[Reading]) -> tuple[Int64Array, BoolArray]:
    """Values and validity. What no column can hold is no value: a probe that lets it through must not end the batch."""
    known = [r.value is not None and -_MAX_INT64 <= r.value <= _MAX_INT64 for r in readings]
    values = np.array([r.value if ok else 0 for r, ok in zip(readings, known, strict=True)], dtype=np.int64)
    return values, np.array(known, dtype=np.bool_)


def _packed(columns: Sequence[Sequence[Reading]], which: int) -> bytes:
    values, valid = _cells(columns[which])
    if _WIDTH[which] == 4:
        valid &= values <= _MAX_INT32
    return pack_column(values, valid, _WIDTH[which])


def _deltas(readings: Sequence[Reading]) -> tuple[int | None, bytes]:
    """First valid reading, and each valid reading less the valid one before it. A fall stays a negative delta: what
    it means is decided downstream."""
    values, valid = _cells(readings)
    places = np.flatnonzero(valid)
    delta = np.zeros(len(values), dtype=np.int64)
    if len(places):
        delta[places[1:]] = np.diff(values[places])
    return (int(values[places[0]]) if len(places) else None), pack_column(delta, valid, 8)


def _instances(device: Device, rows: Sequence[DeviceTick | None]) -> list[dict[str, Any]]:
    slices = {instance.gpu_instance: instance.slices for instance in device.instances}
    read = [dict(row.instances) if row else {} for row in rows]
    names = dict.fromkeys(name for row in read for name in row if name in slices)
    return [
        {
            "gpu_instance": name,
            "slices": slices[name],
            "activity_ppm": pack_column(*_cells([row.get(name, _ABSENT) for row in read]), 4),
        }
        for name in names
    ]


def _processes(rows: Sequence[DeviceTick | None]) -> list[dict[str, Any]]:
    """SM share by job. At a tick at which the driver told of processes and a job had none, its share is 0."""
    told = [None if row is None or row.jobs is None else dict(row.jobs) for row in rows]
    jobs: dict[JobKey, None] = dict.fromkeys(job for row in told if row is not None for job in row)
    return [
        {
            "cluster": cluster,
            "job": job,
            "sm_ppm": pack_column(
                *_cells([_ABSENT if row is None else row.get((cluster, job), Reading(0)) for row in told]), 4
            ),
        }
        for cluster, job in jobs
    ]


def _nulls(columns: Sequence[Sequence[Reading]]) -> list[dict[str, Any]]:
    found = []
    for i, name in enumerate(COLUMNS):
        reasons = Counter(r.reason for r in columns[i] if r.value is None)
        found += [
            {"column": _WIRE_NAMES.get(i, name), "reason": reason, "ticks": count}
            for reason, count in sorted(reasons.items())
        ]
    return found


def _zone(zone: str, ticks: Sequence[Tick]) -> dict[str, Any]:
    """The newest epoch's readings; a zone's counter is not differenced across epochs."""
    rows = [next(((epoch, r) for name, epoch, r in tick.zones if name == zone), ("", _ABSENT)) for tick in ticks]
    newest = next((epoch for epoch, _ in reversed(rows) if epoch), "")
    base_uj, delta = _deltas([r if epoch == newest else _ABSENT for epoch, r in rows])
    return {"zone": zone, "counter_epoch": newest, "counter_base_uj": base_uj, "energy_delta_uj": delta}
