"""Dynamic resource allocation: what a slice's device is, what a claim was given. Pure parsers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from wattledger_agent.watchers.kube_container import rows, table
from wattledger_agent.watchers.kube_device import parse_device_id
from wattledger_agent.watchers.kube_quantity import parse_quantity
from wattledger_agent.watchers.run import BY_MIG_UUID, BY_PCI, BY_UNKNOWN, BY_UUID, DeviceRef

GPU_DRIVERS = frozenset({"gpu.nvidia.com", "gpu.amd.com"})
"""Drivers whose devices are GPUs; others (network cards, compute domains) are left alone."""
_PARTITION_TYPE = "amdgpu-partition"
_PPM = 1_000_000
DeviceKey = tuple[str, str, str]
"""Driver, pool, device."""


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """A device that a driver offers: how it is called elsewhere, and how much of each capacity it has."""

    ref: DeviceRef
    profile: str = ""
    capacity: Mapping[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Allotment:
    """One device given to a claim. `is_admin`: access for monitoring, which takes nothing from anyone."""

    is_admin: bool
    consumed: Mapping[str, Fraction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """What a claim was given, by device and share."""

    uid: str
    given: Mapping[tuple[DeviceKey, str], Allotment]


def parse_slices(items: Iterable[Mapping[str, Any]], drivers: frozenset[str]) -> dict[DeviceKey, SliceDevice]:
    """Devices of these drivers, of each pool's newest generation only (resource.k8s.io v1, v1beta2 or v1beta1)."""
    newest: dict[tuple[str, str], int] = {}
    found: list[tuple[tuple[str, str], int, list[Mapping[str, Any]]]] = []
    for item in items:
        spec = table(item.get("spec"))
        pool = table(spec.get("pool"))
        driver, generation = str(spec.get("driver")), pool.get("generation")
        if driver not in drivers:
            continue
        key, number = (driver, str(pool.get("name"))), generation if isinstance(generation, int) else 0
        newest[key] = max(number, newest.get(key, 0))
        found.append((key, number, rows(spec.get("devices"))))
    return {
        (driver, pool, str(one.get("name"))): _device(driver, one)
        for (driver, pool), number, devices in found
        if number == newest[driver, pool]
        for one in devices
    }


def parse_claim(item: Mapping[str, Any]) -> ClaimFacts:
    """What a claim holds now; nothing, where it is not allocated."""
    allocation = table(table(item.get("status")).get("allocation"))
    given = {}
    for one in rows(table(allocation.get("devices")).get("results")):
        key = (str(one.get("driver")), str(one.get("pool")), str(one.get("device")))
        given[key, str(one.get("shareID") or "")] = Allotment(
            one.get("adminAccess") is True, _quantities(one.get("consumedCapacity"))
        )
    return ClaimFacts(str(table(item.get("metadata")).get("uid") or ""), given)


def consumed_share(device: SliceDevice, allotment: Allotment) -> Fraction | None:
    """The part of a device that a claim takes, where the claim says how much: the largest part of any capacity, down
    to a millionth. None: it takes the device as it is."""
    parts = [
        allotment.consumed[name] / device.capacity[name]
        for name in allotment.consumed
        if device.capacity.get(name, Fraction(0)) > 0
    ]
    if not parts:
        return None
    return min(Fraction(1), Fraction(int(max(parts) * _PPM), _PPM))


def _device(driver: str, item: Mapping[str, Any]) -> SliceDevice:
    body = table(item.get("basic")) or item
    words = {
        str(name).rpartition("/")[2]: str(value)
        for name, kinds in table(body.get("attributes")).items()
        for kind, value in table(kinds).items()
        if kind in ("string", "int")
    }
    return SliceDevice(
        _ref(driver, str(item.get("name")), words), words.get("profile", ""), _quantities(body.get("capacity"))
    )


def _ref(driver: str, name: str, words: Mapping[str, str]) -> DeviceRef:
    """By UUID where the driver tells it, else by PCI address; an AMD partition shares its card's address, so that
    names nothing. The device's own name is the driver's counting, and no index of anyone else."""
    for key in ("uuid", "UUID"):
        ref = parse_device_id(words.get(key, "")).ref
        if ref.by in (BY_UUID, BY_MIG_UUID):
            return ref
    pci = parse_device_id(words.get("pciBusID") or words.get("pciAddr") or words.get("pciAddress") or "").ref
    if pci.by == BY_PCI and words.get("type") not in (_PARTITION_TYPE, "mig"):
        return pci
    return DeviceRef(BY_UNKNOWN, f"{driver}/{name}")


def _quantities(value: object) -> dict[str, Fraction]:
    """Capacities by name without the driver's domain; an amount is a quantity or an object with one as `value`."""
    found = {}
    for name, amount in table(value).items():
        number = parse_quantity(amount.get("value") if isinstance(amount, dict) else amount)
        if number is not None:
            found[str(name).rpartition("/")[2]] = number
    return found
