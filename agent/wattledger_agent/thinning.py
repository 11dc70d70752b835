"""Thinning: a batch that must go keeps its first and last tick, so that batches still tile time and counters bridge."""

import numpy as np
from wattledger_schemas import BadRecord, Codec
from wattledger_schemas.columns import pack_column, unpack_column

from wattledger_agent.wal_record import WalRecord

_WIDTHS = {"power_mw": 4, "busy_ppm": 4, "memory_bytes": 8}


def thin_samples(record: WalRecord) -> WalRecord | None:
    """The record with its first and last tick only; None when it is no sample batch or cannot be made smaller."""
    if record.topic != "gpu-samples":
        return None
    codec = Codec()
    try:
        decoded = codec.decode(record.value)
    except BadRecord:
        return None
    batch = decoded.record
    ticks = np.frombuffer(batch["ticks_us"], dtype="<i8")
    if decoded.subject != "sample_batch" or len(ticks) <= 2:
        return None
    n = len(ticks)
    ends = np.array([0, n - 1])
    batch["ticks_us"] = ticks[ends].tobytes()
    for device in batch["devices"]:
        for name, width in _WIDTHS.items():
            values, valid = unpack_column(device[name], n, width, name)
            device[name] = pack_column(values[ends], valid[ends], width)
        delta, valid = unpack_column(device["energy_delta_uj"], n, 8, "energy_delta_uj")
        counter = np.cumsum(np.where(valid, delta, 0))
        gain = np.array([0, int(counter[-1] - counter[0])])
        device["energy_delta_uj"] = pack_column(gain, valid[ends], 8)
        if not valid[0]:
            # the base must stay the first valid reading
            base = device["counter_base_uj"]
            device["counter_base_uj"] = None if base is None or not valid[-1] else base + int(counter[-1])
            device["energy_delta_uj"] = pack_column(np.array([0, 0]), valid[ends], 8)
        device["epoch_from_tick"] = 1 if device["epoch_from_tick"] else 0
        device["instances"], device["processes"] = [], []
    return WalRecord(record.topic, record.key, codec.encode("sample_batch", batch), record.partition, record.at_us)
