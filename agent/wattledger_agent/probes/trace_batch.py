"""One recorded sample batch as ticks of a probe: columns back to readings, with the reasons that the record tells."""

from collections.abc import Mapping, Sequence
from typing import Any

from wattledger_schemas import BadRecord

from wattledger_agent.probes.device import Device, MigInstance
from wattledger_agent.probes.reading import (
    GPU_LOST,
    IMPLAUSIBLE,
    NOT_READ,
    UNREAD,
    DeviceReading,
    InstanceReading,
    Reading,
    ZoneReading,
    lost_device,
    unknown,
)

_COLUMNS = {
    "power_mw": ("power_mw", 4),
    "busy_ppm": ("busy_ppm", 4),
    "memory_bytes": ("memory_used_bytes", 8),
    "temperature_c": ("temperature_c", 4),
    "throttle": ("throttle", 4),
}
"""Column on the wire: name of the reading, width."""


class PlayedBatch:
    """A batch, unpacked once. Raises BadRecord for columns that do not fit its ticks."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.node: str = record["node"]
        self.ticks_us = _ticks(record["ticks_us"])
        self._devices: Sequence[Mapping[str, Any]] = record["devices"]
        count = len(self.ticks_us)
        self._columns = [_unpack(device, count) for device in self._devices]
        self._zones = [(zone, _counter(zone, count, NOT_READ, 0)) for zone in record["host_zones"]]
        self.notes = tuple(
            f"{device['device']}: the record tells of {len(device['processes'])} jobs' processes, and of no pids"
            for device in self._devices
            if device["processes"]
        )

    def first_after(self, given_us: int) -> int:
        """The first tick later than `given_us`; as many as there are ticks: none."""
        return next((tick for tick, at_us in enumerate(self.ticks_us) if at_us > given_us), len(self.ticks_us))

    def devices(self) -> tuple[Device, ...]:
        """What was installed, with the counter epochs of the record."""
        return tuple(_device(device) for device in self._devices)

    def readings(self, tick: int) -> tuple[DeviceReading, ...]:
        """What was read at a tick."""
        return tuple(
            _reading(device, columns, tick) for device, columns in zip(self._devices, self._columns, strict=True)
        )

    def zones(self, tick: int) -> tuple[ZoneReading, ...]:
        """What the host's counters were at a tick, with the epochs of the record."""
        return tuple(ZoneReading(zone["zone"], readings[tick], zone["counter_epoch"]) for zone, readings in self._zones)


def _ticks(packed: bytes) -> tuple[int, ...]:
    if len(packed) % 8 or not packed:
        raise BadRecord("bad_ticks", f"ticks_us has {len(packed)} bytes, which are no 8-byte stamps")
    return tuple(int.from_bytes(packed[at : at + 8], "little", signed=True) for at in range(0, len(packed), 8))


def _unpack(device: Mapping[str, Any], count: int) -> dict[str, list[Reading]]:
    columns = {}
    for wire, (name, width) in _COLUMNS.items():
        packed, why = device[wire], _reason(device, wire)
        columns[name] = _column(packed, count, width, wire, why) if packed is not None else [unknown(why)] * count
    columns["energy_uj"] = _counter(device, count, _reason(device, "energy_delta_uj"), device["epoch_from_tick"])
    for instance in device["instances"]:
        name = instance["gpu_instance"]
        columns[f"instance {name}"] = _column(
            instance["activity_ppm"], count, 4, "activity_ppm", _reason(device, "activity_ppm")
        )
    return columns


def _reason(device: Mapping[str, Any], column: str) -> str:
    """Why cells of a column are empty: the record says how many for each reason, not which, so the commonest."""
    names = {column, *({"energy_uj"} if column == "energy_delta_uj" else ())}
    told = [(null["ticks"], null["reason"]) for null in device["nulls"] if null["column"] in names]
    return max(told)[1] if told else NOT_READ


def _column(packed: bytes, count: int, width: int, name: str, why: str) -> list[Reading]:
    from wattledger_schemas.columns import unpack_column  # NumPy, which an agent on real devices may do without

    values, valid = unpack_column(packed, count, width, name)
    return [
        (Reading(value) if value >= 0 or name == "temperature_c" else unknown(IMPLAUSIBLE)) if good else unknown(why)
        for value, good in zip(values.tolist(), valid.tolist(), strict=True)
    ]


def _counter(source: Mapping[str, Any], count: int, why: str, epoch_from: int) -> list[Reading]:
    """The counter from its base and increases. Before `epoch_from` it belonged to an epoch that the record does not
    name."""
    from wattledger_schemas.columns import unpack_column

    deltas, valid = unpack_column(source["energy_delta_uj"], count, 8, "energy_delta_uj")
    base_uj = source["counter_base_uj"]
    if base_uj is None:
        return [unknown(why)] * count
    readings = []
    at_uj = base_uj
    for tick, (delta, good) in enumerate(zip(deltas.tolist(), valid.tolist(), strict=True)):
        if not good:
            readings.append(unknown(why))
            continue
        at_uj += delta
        if tick < epoch_from:
            readings.append(UNREAD)
        else:
            readings.append(Reading(at_uj) if at_uj >= 0 else unknown(IMPLAUSIBLE))
    return readings


def _device(device: Mapping[str, Any]) -> Device:
    instances = tuple(
        MigInstance(one["gpu_instance"], "", f"{one['slices']}g", one["slices"]) for one in device["instances"]
    )
    return Device(
        device["device"],
        device["vendor"],
        device["gpu_model"],
        device["driver"],
        device["index"],
        device["minor"],
        device["pci"],
        device["socket"],
        device["slices"],
        device["sharing"],
        instances,
        device["counter_epoch"],
        device["counter_scope"],
        device["power_field"],
        device["power_window_us"],
        device["power_refresh_us"],
        is_mig=bool(device["mig_layout"]) or device["sharing"] == "mig",
    )


def _reading(device: Mapping[str, Any], columns: Mapping[str, list[Reading]], tick: int) -> DeviceReading:
    lost_from = device["lost_from_tick"]
    power, energy = columns["power_mw"][tick], columns["energy_uj"][tick]
    if 0 <= lost_from <= tick and power.value is None and energy.value is None:
        return lost_device(device["device"], power.reason if power.reason != NOT_READ else GPU_LOST)
    return DeviceReading(
        device["device"],
        power,
        energy,
        columns["busy_ppm"][tick],
        columns["memory_used_bytes"][tick],
        columns["temperature_c"][tick],
        columns["throttle"][tick],
        tuple(
            InstanceReading(one["gpu_instance"], columns[f"instance {one['gpu_instance']}"][tick])
            for one in device["instances"]
        ),
    )
