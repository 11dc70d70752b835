"""Thinning: a batch that must go keeps its first and last tick, so that batches still tile time and counters bridge."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from wattledger_schemas import BadRecord, Codec
from wattledger_schemas.columns import pack_column, unpack_column

from wattledger_agent.wal_record import WalRecord
from wattledger_agent.wal_room import Thin

_MIN_FLOWING = 5
Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def batch_thinner(codec: Codec) -> Thin:
    """A function for the log: a sample record with its first and last tick only; None when it is no sample batch, has
    no tick between, or cannot be read."""
    return partial(_thin, codec)


def _thin(codec: Codec, record: WalRecord) -> WalRecord | None:
    if record.topic != "gpu-samples":
        return None
    try:
        subject, _, batch = codec.decode(record.value)
        ticks = np.frombuffer(batch["ticks_us"], dtype="<i8").astype(np.int64) if subject == "sample_batch" else None
        if ticks is None or len(ticks) <= 2:
            return None
        batch["ticks_us"] = ticks[[0, -1]].astype("<i8").tobytes()
        for device in batch["devices"]:
            _thin_device(device, ticks)
        value = codec.encode("sample_batch", batch)
    except (BadRecord, ValueError, OverflowError):
        return None
    return WalRecord(record.topic, record.key, value, record.partition, record.at_us)


def _thin_device(device: dict[str, Any], ticks: Int64Array) -> None:
    n = len(ticks)
    _thin_counter(device, n)
    for name, width in (("power_mw", 4), ("memory_bytes", 8)):
        values, valid = unpack_column(device[name], n, width, name)
        device[name] = pack_column(values[[0, -1]], valid[[0, -1]], width)
    device["busy_ppm"] = _mean(device["busy_ppm"], ticks, "busy_ppm")
    for instance in device["instances"]:
        instance["activity_ppm"] = _mean(instance["activity_ppm"], ticks, "activity_ppm")
    for process in device["processes"]:
        process["sm_ppm"] = _mean(process["sm_ppm"], ticks, "sm_ppm")


def _mean(column: bytes, ticks: Int64Array, name: str) -> bytes:
    """A share of the time since the tick before becomes the share of the whole batch; one unknown makes it unknown."""
    values, valid = unpack_column(column, len(ticks), 4, name)
    spans_us = np.diff(ticks)
    whole_us = int(spans_us.sum())
    mean_ppm = (int((values[1:] * spans_us).sum()) + whole_us // 2) // whole_us
    return pack_column(np.array([values[0], mean_ppm]), np.array([valid[0], valid[1:].all()]), 4)


def _thin_counter(device: dict[str, Any], n: int) -> None:
    """Base and increase over the batch; no reading where the full batch has shown that the counter is not to be
    trusted over all of it: a reset or bad read in between, a counter that stands still while power flows."""
    delta_uj, valid = unpack_column(device["energy_delta_uj"], n, 8, "energy_delta_uj")
    base_uj = device["counter_base_uj"]
    gain_uj = int(np.where(valid, delta_uj, 0).sum())
    ends = valid[[0, -1]]
    if (valid & (delta_uj < 0)).any() or (gain_uj == 0 and _power_flows(device, n)):
        ends = np.array([False, False])
    if not ends[0]:
        # the base belongs to the first valid reading that is kept
        base_uj = base_uj + gain_uj if ends[1] and base_uj is not None else None
        gain_uj = 0
    device["counter_base_uj"] = base_uj
    device["energy_delta_uj"] = pack_column(np.array([0, gain_uj]), ends, 8)
    device["epoch_from_tick"] = min(device["epoch_from_tick"], 1)


def _power_flows(device: dict[str, Any], n: int) -> bool:
    power_mw, valid = unpack_column(device["power_mw"], n, 4, "power_mw")
    return int((valid & (power_mw > 0)).sum()) >= _MIN_FLOWING
