"""What `wattledger-agent probe --once` shows of one probe: everything it found, every reading or why there is none.

Renders values to a JSON document and to text of at most 100 columns. Reads nothing, decides nothing.
"""

import textwrap
from collections.abc import Iterable
from typing import Any

from wattledger_agent.probes import reading as r
from wattledger_agent.probes.device import Device, Inventory, MigInstance
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import DeviceReading, ProbeTick, ProcessReading, Reading, ZoneReading

FORMAT = 1
"""Version of the JSON document: a field that goes or changes its meaning makes another."""
WIDTH = 100
UNITS = {
    "power_mw": "mW",
    "energy_uj": "µJ",
    "busy_ppm": "ppm",
    "memory_used_bytes": "bytes",
    "temperature_c": "°C",
    "throttle": "bits",
}
MEANINGS = {
    r.NOT_SUPPORTED: "the library says that this card has no such reading",
    r.SENTINEL: "the library gave its mark for no value",
    r.IMPLAUSIBLE: "a number that can't be",
    r.NO_PERMISSION: "the agent may not read it",
    r.GPU_LOST: "the driver has lost the device",
    r.RESET_REQUIRED: "the driver wants the device to be reset",
    r.STALE: "the source has not renewed it since the last time",
    r.FOREIGN: "the value is another device's",
    r.ABI_MISMATCH: "library and wrapper do not fit together",
    r.TIMED_OUT: "it took too long",
    r.NOT_READ: "this probe does not read it, or not now",
    r.UNKNOWN_ERROR: "the library gave an error that has no name here",
}
_THROTTLES = (
    (r.POWER_CAP, "power cap"),
    (r.THERMAL, "thermal"),
    (r.HARDWARE_SLOWDOWN, "hardware slowdown"),
    (r.POWER_BRAKE, "power brake"),
    (r.OTHER_THROTTLE, "other"),
)
_INDENT = "  "
_LABEL = 22


def probe_json(name: str, inventory: Inventory, tick: ProbeTick) -> dict[str, Any]:
    """One probe as a JSON document: keys sorted, devices, instances, processes and zones by name. A device that only
    the inventory or only the tick has is there too."""
    read = {one.device: one for one in tick.devices}
    known = {one.device: one for one in inventory.devices}
    return {
        "available": True,
        "devices": [_device_json(each, known.get(each), read.get(each)) for each in sorted(known.keys() | read.keys())],
        "format": FORMAT,
        "inventory_changed": tick.inventory_changed,
        "library": inventory.library,
        "notes": list(inventory.notes),
        "probe": name,
        "zones": [_zone_json(zone) for zone in sorted(tick.zones, key=lambda zone: zone.zone)],
    }


def unavailable_json(name: str, error: ProbeUnavailable) -> dict[str, Any]:
    """A probe that can't work here, as a document of the same format."""
    return {
        "absent": error.absent, "available": False, "fix": error.fix, "format": FORMAT, "probe": name,
        "problem": str(error),
    }  # fmt: skip


def probe_text(name: str, inventory: Inventory, tick: ProbeTick) -> str:
    """One probe for people."""
    read = {one.device: one for one in tick.devices}
    known = {one.device: one for one in inventory.devices}
    lines = [*_wrapped(f"{name}: {inventory.library or 'library unknown'}")]
    for each in sorted(known.keys() | read.keys()):
        lines += ["", *_device_lines(each, known.get(each), read.get(each))]
    if tick.zones:
        lines += ["", "host counters (zones contain one another: never add them)"]
        for zone in sorted(tick.zones, key=lambda zone: zone.zone):
            lines += _row(zone.zone, _shown(zone.energy_uj, "energy_uj"))
            lines += _row("", f"epoch {zone.counter_epoch}")
    if not known and not read and not tick.zones:
        lines += ["", f"{_INDENT}no device"]
    if inventory.notes:
        lines += ["", "notes", *(line for note in inventory.notes for line in _wrapped(note, "- "))]
    return "\n".join(lines) + "\n"


def unavailable_text(name: str, error: ProbeUnavailable) -> str:
    """A probe that can't work here, for people."""
    state = "not here" if error.absent else "not available"
    return "\n".join(_wrapped(f"{name}: {state}: {error}")) + "\n"


def _reading_json(reading: Reading, unit: str) -> dict[str, Any]:
    if reading.value is None:
        return {"meaning": MEANINGS.get(reading.reason, ""), "reason": reading.reason, "unit": unit, "value": None}
    return {"unit": unit, "value": reading.value}


def _device_json(identity: str, device: Device | None, read: DeviceReading | None) -> dict[str, Any]:
    seen = read or DeviceReading(identity)
    activity = {one.gpu_instance: one.activity_ppm for one in seen.instances}
    geometry = {one.gpu_instance: one for one in (device.instances if device else ())}
    processes: dict[str, Any] = {"reason": seen.processes_reason}
    if seen.processes is not None:
        processes = {"list": [_process_json(one) for one in sorted(seen.processes, key=lambda one: one.pid)]}
    return {
        "attributes": _attributes(device) if device else None,
        "device": identity,
        "instances": [
            _instance_json(each, geometry.get(each), activity.get(each, r.UNREAD))
            for each in sorted(activity.keys() | geometry.keys(), key=_numbers_first)
        ],
        "lost": seen.lost,
        "processes": processes,
        "readings": {column: _reading_json(getattr(seen, column), unit) for column, unit in sorted(UNITS.items())},
    }


def _attributes(device: Device) -> dict[str, Any]:
    return {
        "counter_epoch": device.counter_epoch,
        "counter_scope": device.counter_scope,
        "driver": device.driver,
        "gpu_model": device.gpu_model,
        "index": device.index,
        "is_mig": device.is_mig,
        "memory_bytes": device.memory_bytes,
        "mig_layout": device.mig_layout,
        "minor": device.minor,
        "pci": device.pci,
        "power_field": device.power_field,
        "power_limit_mw": device.power_limit_mw,
        "power_refresh_us": device.power_refresh_us,
        "power_window_us": device.power_window_us,
        "sharing": device.sharing,
        "slices": device.slices,
        "socket": device.socket,
        "vendor": device.vendor,
    }


def _instance_json(name: str, instance: MigInstance | None, activity: Reading) -> dict[str, Any]:
    found: dict[str, Any] = {"activity": _reading_json(activity, "ppm"), "gpu_instance": name}
    if instance is not None:
        found |= {
            "compute_uuids": list(instance.compute_uuids),
            "generation": instance.generation,
            "memory_bytes": instance.memory_bytes,
            "minors": list(instance.minors),
            "profile": instance.profile,
            "slices": instance.slices,
            "uuid": instance.uuid,
        }
    return dict(sorted(found.items()))


def _process_json(process: ProcessReading) -> dict[str, Any]:
    return {
        "gpu_instance": process.gpu_instance,
        "memory": _reading_json(process.memory_bytes, "bytes"),
        "pid": process.pid,
        "sm": _reading_json(process.sm_ppm, "ppm"),
    }


def _zone_json(zone: ZoneReading) -> dict[str, Any]:
    return {"counter_epoch": zone.counter_epoch, "energy": _reading_json(zone.energy_uj, "µJ"), "zone": zone.zone}


def _device_lines(identity: str, device: Device | None, read: DeviceReading | None) -> list[str]:
    seen = read or DeviceReading(identity)
    lines = _wrapped(f"{identity}  LOST" if seen.lost else identity)
    if device is None:
        lines += _row("inventory", "not in it")
    else:
        lines += [line for label, text in _told(device) for line in _row(label, text)]
    for column in UNITS:
        lines += _row(column.rpartition("_")[0].replace("_", " ") or column, _shown(getattr(seen, column), column))
    activity = {one.gpu_instance: one.activity_ppm for one in seen.instances}
    geometry = {one.gpu_instance: one for one in (device.instances if device else ())}
    for name in sorted(activity.keys() | geometry.keys(), key=_numbers_first):
        instance = geometry.get(name)
        what = f"{instance.profile} {instance.uuid}".strip() if instance else "not in the inventory"
        lines += _row(f"instance {name}", f"{what}, active {_briefly(activity.get(name, r.UNREAD), 'busy_ppm')}")
    if seen.processes is None:
        return lines + _row("processes", _reason(seen.processes_reason))
    lines += _row("processes", str(len(seen.processes)))
    for process in sorted(seen.processes, key=lambda one: one.pid):
        where = f" in instance {process.gpu_instance}" if process.gpu_instance else ""
        memory = _briefly(process.memory_bytes, "memory_used_bytes")
        said = f"SM {_briefly(process.sm_ppm, 'busy_ppm')}, memory {memory}{where}"
        lines += _row(f"pid {process.pid}", said)
    return lines


def _told(device: Device) -> Iterable[tuple[str, str]]:
    """Attributes for people; what is not known is left out."""
    place = [f"index {device.index}" if device.index >= 0 else "", f"minor {device.minor}" if device.minor >= 0 else ""]
    place += [f"PCI {device.pci}" if device.pci else "", f"socket {device.socket}" if device.socket else ""]
    yield "model", f"{device.vendor} {device.gpu_model}, driver {device.driver or 'unknown'}".strip()
    yield "place", ", ".join(one for one in place if one) or "unknown"
    yield (
        "sharing",
        f"{device.sharing}, {device.mig_layout or 'no instance known'}" if device.is_mig else device.sharing,
    )
    if device.memory_bytes is not None:
        yield "memory", f"{device.memory_bytes} bytes"
    window, refresh = _time(device.power_window_us), _time(device.power_refresh_us)
    yield "power reading", f"{device.power_field or 'unknown'}, window {window}, refresh {refresh}"
    if device.power_limit_mw is not None:
        yield "power limit", f"{device.power_limit_mw} mW"
    scope = f", covers {device.counter_scope}" if device.counter_scope else ""
    yield "counter epoch", f"{device.counter_epoch or 'unknown'}{scope}"


def _time(length_us: int | None) -> str:
    return "unknown" if length_us is None else f"{length_us} µs"


def _shown(reading: Reading, column: str) -> str:
    if reading.value is None:
        return _reason(reading.reason)
    if column == "throttle":
        names = [name for bit, name in _THROTTLES if reading.value & bit]
        return f"{reading.value} ({', '.join(names) or 'nothing holds the clocks down'})"
    return f"{reading.value} {UNITS[column]}"


def _briefly(reading: Reading, column: str) -> str:
    """Without what the reason means, which stands beside a device's own readings."""
    return _shown(reading, column) if reading.value is not None else f"unknown: {reading.reason}"


def _reason(reason: str) -> str:
    meaning = MEANINGS.get(reason, "")
    return f"unknown: {reason}" + (f" ({meaning})" if meaning else "")


def _row(label: str, text: str) -> list[str]:
    head = f"{_INDENT}{label:<{_LABEL}} "
    return _wrapped(text, head)


def _wrapped(text: str, head: str = "") -> list[str]:
    """Lines of at most WIDTH columns; a name that is longer is broken. What a terminal would obey is not passed on."""
    if len(head) > WIDTH // 2:
        text, head = f"{head.strip()} {text}", _INDENT
    shown = "".join(letter if letter.isprintable() else "?" for letter in head + text)
    head, text = shown[: len(head)], shown[len(head) :]
    lines = textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)
    return lines or [head.rstrip()]


def _numbers_first(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (1 << 31, name)
