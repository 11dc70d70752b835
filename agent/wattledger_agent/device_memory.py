"""What the log remembers of devices, so that ticks of before a restart are said of the devices that they are of."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from wattledger_agent.probes.device import Device, MigInstance

_FORMAT = 1


def dump_devices(devices: Mapping[str, Device]) -> bytes:
    """For the log's memory."""
    return json.dumps([_FORMAT, [asdict(device) for device in devices.values()]], separators=(",", ":")).encode()


def load_devices(data: bytes | None) -> dict[str, Device]:
    """From the log's memory, by device; empty when there is nothing that this version can read."""
    try:
        form, listed = json.loads(data or b"[0,[]]")
        if form != _FORMAT:
            return {}
        devices = [_device(told) for told in listed]
    except (ValueError, TypeError, KeyError):
        return {}
    return {device.device: device for device in devices}


def _device(told: dict[str, Any]) -> Device:
    return Device(**{**told, "instances": tuple(_instance(one) for one in told["instances"])})


def _instance(told: dict[str, Any]) -> MigInstance:
    lists = {name: tuple(told[name]) for name in ("compute_uuids", "minors")}
    return MigInstance(**{**told, **lists})
