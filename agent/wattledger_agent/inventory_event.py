"""The `inventory` node event: every installed device with its attributes, sent again on any change."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from wattledger_agent.host import Host
from wattledger_agent.probes.device import Device


def inventory_event(
    host: Host, cluster: str, site: str, agent: str, at_us: int, devices: Sequence[Device], floors_mw: Mapping[str, int]
) -> dict[str, Any]:
    """A `node_event` of kind inventory, valid from `at_us`. Its id is made of what it says."""
    body: dict[str, Any] = {
        "kind": "inventory",
        "at_us": at_us,
        "node": host.node,
        "cluster": cluster,
        "site": site,
        "devices": [_device(device, floors_mw.get(device.device)) for device in devices],
        "cpus": host.cpus,
        "memory_bytes": host.memory_bytes,
        "state": "",
        "reason": "",
        "reservation_id": "",
        "tenant": "",
        "reserved_devices": [],
        "start_us": None,
        "end_us": None,
        "source": "agent",
        "boot_id": host.boot_id,
        "agent": agent,
    }
    return {"event_id": f"inventory-{sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]}", **body}


def _device(device: Device, idle_floor_mw: int | None) -> dict[str, Any]:
    return {
        "device": device.device,
        "index": device.index,
        "gpu_model": device.gpu_model,
        "slices": device.slices,
        "sharing": device.sharing,
        "idle_floor_mw": idle_floor_mw,
        "vendor": device.vendor,
        "pci": device.pci,
        "minor": device.minor,
        "driver": device.driver,
        "socket": device.socket,
        "power_limit_mw": device.power_limit_mw,
        "memory_bytes": device.memory_bytes,
        "instances": [
            {
                "gpu_instance": instance.gpu_instance,
                "uuid": instance.uuid,
                "profile": instance.profile,
                "slices": instance.slices,
                "generation": instance.generation,
            }
            for instance in device.instances
        ],
    }
