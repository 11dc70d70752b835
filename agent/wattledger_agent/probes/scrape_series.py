"""What a series' labels say, whatever the exporter: which device or instance, and what is told of it. Values only."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from wattledger_agent.probes.scrape_metric import Metric

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_OLD_MIG = re.compile(rf"MIG-(?P<parent>GPU-{_UUID})/(?P<instance>\d+)/(?P<compute>\d+)")
_DEVICE = re.compile(rf"(?P<device>(?:GPU-)?{_UUID})(?P<replica>(?:::?|-|/vgpu)\d+)?")
_SHORT = re.compile(r"(?P<device>GPU-[\w.-]+)(?P<replica>(?:::|/vgpu)\d+)?")
"""A name that only looks like a UUID, as simulators give: `-n` behind it may be part of it."""
_MIG = re.compile(rf"(?P<mig>MIG-{_UUID})(?P<replica>(?:::?|-|/vgpu)\d+)?")
_NOTHING = re.compile(r"(?:GPU-)?[0Ff-]*")
_PCI = re.compile(
    r"(?:(?P<domain>[0-9a-fA-F]{4,8}):)?(?P<bus>[0-9a-fA-F]{2}):(?P<device>[0-9a-fA-F]{2})\.(?P<fn>[0-7])"
)


class UuidName(NamedTuple):
    """What a UUID label names: a device, an instance of one, or neither. `is_replica`: one share of a time-sliced
    device (`GPU-…::1`, `GPU-…-1`)."""

    device: str = ""
    mig_uuid: str = ""
    instance: str = ""
    compute: str = ""
    is_replica: bool = False


class Series(NamedTuple):
    """One series of a wanted metric. `key` is the same for all series of one device of an exposition; `device` its
    UUID, empty where the label is none. `instance` is empty for the whole device. `owner` is the pod or container,
    whose value is the device's own all the same."""

    metric: Metric
    key: str
    device: str
    instance: str = ""
    profile: str = ""
    mig_uuid: str = ""
    compute: str = ""
    gpu_index: int = -1
    pci: str = ""
    gpu_model: str = ""
    driver: str = ""
    host: str = ""
    owner: str = ""
    is_replica: bool = False
    pid: int = -1


def label(labels: Mapping[str, str], *names: str) -> str:
    """The first of the labels that is there. Prometheus renames the exporter's own to `exported_x` where a target has a
    label `x` of its own, so the renamed one is the exporter's."""
    for name in names:
        if value := labels.get(f"exported_{name}") or labels.get(name):
            return value
    return ""


def number(text: str) -> int:
    """A label's number; -1 for none."""
    return int(text) if text.isdecimal() and len(text) < 10 else -1


def uuid_name(text: str) -> UuidName:
    """Reads a UUID label. A UUID of zeros or of ones is none: it tells no two devices apart."""
    text = text.strip()
    if old := _OLD_MIG.fullmatch(text):
        return UuidName(_whole(old["parent"]), text, old["instance"], old["compute"])
    if mig := _MIG.fullmatch(text):
        return UuidName(mig_uuid=mig["mig"], is_replica=mig["replica"] is not None)
    if found := _DEVICE.fullmatch(text):
        nothing = _NOTHING.fullmatch(found["device"]) is not None
        return UuidName() if nothing else UuidName(_whole(found["device"]), is_replica=found["replica"] is not None)
    short = _SHORT.fullmatch(text)
    return UuidName(short["device"], is_replica=short["replica"] is not None) if short else UuidName()


def _whole(text: str) -> str:
    """The UUID as the driver writes it; nvidia_gpu_exporter cuts its `GPU-` off."""
    return "GPU-" + text.removeprefix("GPU-").lower()


def pci_address(text: str) -> str:
    """A PCI address as the kernel writes it (`0000:83:00.0`), from the driver's eight-digit domain; empty: none."""
    found = _PCI.fullmatch(text.strip())
    if found is None:
        return ""
    domain = int(found["domain"] or "0", 16)
    return f"{domain:04x}:{found['bus']}:{found['device']}.{found['fn']}".lower()
