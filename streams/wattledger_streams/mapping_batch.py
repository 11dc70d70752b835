"""Sample records to arrays and back: the hot half of the mapping. Vectorised over the devices of a batch."""

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
from wattledger_core.batch import Batch, BoolArray, InstanceActivity, Int64Array, ProcessActivity, SampledDevice
from wattledger_schemas import BadRecord
from wattledger_schemas.columns import pack_column, unpack_columns

Wire = dict[str, Any]
_MAX_TICKS = 1_000_000
_identity = itemgetter(
    "device", "index", "pci", "minor", "gpu_model", "driver", "mig_layout", "sharing", "counter_epoch",
    "epoch_from_tick", "idle_floor_mw", "slices",
)  # fmt: skip
_without_activity = lru_cache(maxsize=16_384)(SampledDevice)
"""A card says the same of itself in every batch: made once, for a worker of some thousand cards."""


def from_wire_batch(record: Wire) -> Batch:
    """A sample record as arrays.

    Raises BadRecord: `bad_ticks` (fewer than two, not increasing, odd length), `column_length`, `no_devices`,
    `device_repeated`, `bad_period`, `bad_slices`, `negative_reading`.
    """
    ticks = _ticks(record["ticks_us"])
    n = len(ticks)
    devices: Sequence[Wire] = record["devices"]
    if not devices:
        raise BadRecord("no_devices", f"batch {record['seq']} of node {record['node']!r} lists no device")
    if len({device["device"] for device in devices}) != len(devices):
        raise BadRecord("device_repeated", f"batch {record['seq']} of node {record['node']!r} lists a device twice")
    if record["period_us"] <= 0:
        raise BadRecord("bad_period", f"period_us is {record['period_us']}")
    # Columns of one width are unpacked in one go: half the NumPy calls on the hot path.
    narrow = [d["power_mw"] for d in devices] + [d["busy_ppm"] for d in devices]
    values, valid = unpack_columns(narrow, n, 4, "power_mw or busy_ppm")
    count = len(devices)
    if values.min() < 0 and (wrong := (values < 0) & valid).any():
        row, tick = _first(wrong)
        name = "power_mw" if row < count else "busy_ppm"
        raise _negative(f"{name} of {devices[row % count]['device']!r}", int(values[row, tick]), tick)
    delta, counter_valid = unpack_columns([d["energy_delta_uj"] for d in devices], n, 8, "energy_delta_uj")
    # What an invalid cell holds means nothing: it must not shift the readings after it.
    counter = np.cumsum(delta * counter_valid, axis=1)
    return Batch(
        record["node"], record["site"], record["agent"], record["boot_id"], record["seq"], record["period_us"], ticks,
        tuple([_sampled(device, n) for device in devices]),
        values[:count], valid[:count], counter, counter_valid, values[count:], valid[count:],
    )  # fmt: skip


def _ticks(packed: bytes) -> Int64Array:
    if len(packed) % 8 or not 16 <= len(packed) <= 8 * _MAX_TICKS:
        raise BadRecord("bad_ticks", f"ticks_us has {len(packed)} bytes: at least two 8-byte stamps are needed")
    ticks = np.frombuffer(packed, dtype="<i8").astype(np.int64)
    if (ticks[1:] <= ticks[:-1]).any() or ticks[0] < 0 or ticks[-1] >= 1 << 53:
        raise BadRecord("bad_ticks", f"ticks_us must increase strictly, from {int(ticks[0])} to {int(ticks[-1])}")
    return ticks


def _first(wrong: BoolArray) -> tuple[int, int]:
    row, tick = np.argwhere(wrong)[0].tolist()
    return row, tick


def _negative(what: str, value: int, tick: int) -> BadRecord:
    """Below zero, a reading would bill one holder more than the card used and another less than nothing."""
    return BadRecord("negative_reading", f"{what} is {value} at tick {tick}")


def _column(packed: bytes, n: int, name: str, whose: str) -> tuple[Int64Array, BoolArray]:
    values, valid = unpack_columns([packed], n, 4, name)
    if (wrong := (values < 0) & valid).any():
        row, tick = _first(wrong)
        raise _negative(f"{name} of {whose!r}", int(values[row, tick]), tick)
    return values[0], valid[0]


def _check_slices(slices: int, whose: str) -> None:
    if slices <= 0:
        raise BadRecord("bad_slices", f"{whose!r} has {slices} slices: at least 1 is needed")


def _sampled(device: Wire, n: int) -> SampledDevice:
    if device["slices"] <= 0:
        _check_slices(device["slices"], device["device"])
    if not device["instances"] and not device["processes"]:
        return _without_activity(*_identity(device))
    active: Sequence[Any] = (_instances(device["instances"], n), _processes(device["processes"], n))
    return SampledDevice(*_identity(device), *active)


def _instances(listed: Sequence[Wire], n: int) -> tuple[InstanceActivity, ...]:
    for instance in listed:
        _check_slices(instance["slices"], instance["gpu_instance"])
    return tuple(
        InstanceActivity(
            i["gpu_instance"], i["slices"], *_column(i["activity_ppm"], n, "activity_ppm", i["gpu_instance"])
        )
        for i in listed
    )


def _processes(listed: Sequence[Wire], n: int) -> tuple[ProcessActivity, ...]:
    return tuple(ProcessActivity(p["cluster"], p["job"], *_column(p["sm_ppm"], n, "sm_ppm", p["job"])) for p in listed)


def to_wire_batch(batch: Batch, memory_bytes: tuple[Int64Array, BoolArray] | None = None) -> Wire:
    """A batch as a record; without memory readings that column is all invalid. Counters become a base and deltas."""
    shape = batch.power_mw.shape
    nothing = (np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_))
    memory, memory_valid = memory_bytes or nothing
    return {
        "node": batch.node,
        "site": batch.site,
        "agent": batch.agent,
        "boot_id": batch.boot_id,
        "seq": batch.seq,
        "period_us": batch.period_us,
        "ticks_us": batch.ticks_us.astype("<i8").tobytes(),
        "devices": [
            _wire_device(batch, d, device, memory[d], memory_valid[d]) for d, device in enumerate(batch.devices)
        ],
    }


def _wire_device(batch: Batch, d: int, device: SampledDevice, memory: Int64Array, memory_valid: BoolArray) -> Wire:
    base, delta = _deltas(batch.counter_uj[d], batch.counter_valid[d])
    return {
        "device": device.device,
        "index": device.index,
        "pci": device.pci,
        "minor": device.minor,
        "gpu_model": device.gpu_model,
        "driver": device.driver,
        "mig_layout": device.mig_layout,
        "sharing": device.sharing,
        "counter_epoch": device.counter_epoch,
        "epoch_from_tick": device.epoch_from_tick,
        "idle_floor_mw": device.idle_floor_mw,
        "slices": device.slices,
        "power_mw": pack_column(batch.power_mw[d], batch.power_valid[d] & (batch.power_mw[d] < 1 << 31), 4),
        "counter_base_uj": base,
        "energy_delta_uj": pack_column(delta, batch.counter_valid[d], 8),
        "busy_ppm": pack_column(batch.busy_ppm[d], batch.busy_valid[d], 4),
        "memory_bytes": pack_column(memory, memory_valid, 8),
        "instances": [
            {
                "gpu_instance": instance.gpu_instance,
                "slices": instance.slices,
                "activity_ppm": pack_column(instance.activity_ppm, instance.valid, 4),
            }
            for instance in device.instances
        ],
        "processes": [
            {"cluster": process.cluster, "job": process.job, "sm_ppm": pack_column(process.sm_ppm, process.valid, 4)}
            for process in device.processes
        ],
    }


def _deltas(counter: Int64Array, valid: BoolArray) -> tuple[int | None, Int64Array]:
    """First valid reading, and each valid reading less the valid one before it (0 at the first)."""
    delta = np.zeros(len(counter), dtype=np.int64)
    places = np.flatnonzero(valid)
    if len(places) == 0:
        return None, delta
    delta[places[1:]] = np.diff(counter[places])
    return int(counter[places[0]]), delta
