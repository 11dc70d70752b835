"""Which device a source means: references resolved against the inventory into the claims of job events. No guess."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypedDict

from wattledger_agent.probes.device import Device, Inventory, MigInstance
from wattledger_agent.watchers.run import (
    BY_INDEX,
    BY_MIG_UUID,
    BY_MINOR,
    BY_PCI,
    BY_UNKNOWN,
    BY_UUID,
    DeviceRef,
    Held,
)

_MIG = re.compile(r"MIG-([0-9a-f-]*[0-9a-f][0-9a-f-]*)", re.IGNORECASE)
_MIG_R450 = re.compile(r"(?:MIG-)?(GPU-[0-9a-f-]+)/(\d+)(?:/(\d+))?", re.IGNORECASE)
_GPU = re.compile(r"(?:GPU-)?([0-9a-f-]*[0-9a-f][0-9a-f-]*)", re.IGNORECASE)
_MINOR = re.compile(r"(?:/dev/)?(?:nvidia)?(\d+)")
_MIG_MINOR = re.compile(r"(?:/dev/nvidia-caps/)?nvidia-cap(\d+)")
_INDEX = re.compile(r"\d+")
_PCI = re.compile(
    r"(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[0-9a-f]{1,2})(?:\.(?P<function>[0-7]))?"
    r"(?P<partition>/\d+)?",
    re.IGNORECASE,
)
_XCP = re.compile(r"amdgpu_xcp[._](\d+)")
_INSTANCE = re.compile(r"(?:gi)?(\d+)")
_SHARED = ("time_sliced", "mps")
_MOST_CPUS, _MOST_BYTES, _MOST_PARTS = 1 << 20, 1 << 56, 1 << 24
"""What is above is no size of a machine, but a mark or a mistake of its source."""
FULL = "full"


class WireClaim(TypedDict):
    """A claim as job_event v2 has it."""

    node: str
    device: str
    gpu_instance: str
    share_num: int
    share_den: int
    delivered_profile: str
    cpus: int | None
    memory_bytes: int | None
    storage_bytes: int | None


@dataclass(frozen=True, slots=True)
class Missed:
    """A hold that names no device here. `is_final`: time does not help. `detail` says which value, and what to do."""

    held: Held
    reason: str
    detail: str
    is_final: bool


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a run's holds mean. Claims are in the order of device and instance, one for each."""

    claims: tuple[WireClaim, ...]
    missed: tuple[Missed, ...] = ()

    @property
    def may_come(self) -> bool:
        """Whether a hold may yet be resolved (a driver that loads, an instance that is being made)."""
        return any(not missed.is_final for missed in self.missed)


class _Miss(Exception):
    def __init__(self, reason: str, detail: str, is_final: bool) -> None:
        super().__init__(detail)
        self.reason, self.is_final = reason, is_final


Match = tuple[Device, MigInstance | None]


def resolve(
    held: Iterable[Held], inventory: Inventory, node: str, xcp_minors: Mapping[int, int] | None = None
) -> Resolved:
    """Claims of the holds on `node`. `xcp_minors` says which render minor AMD's `amdgpu_xcp.N` has (`read_xcp_minors`).

    Several holds of one place are one claim: shares of a shared device add up, up to the whole; a whole one counts
    once.
    """
    claims: dict[tuple[str, str], WireClaim] = {}
    counted: set[tuple[str, str, DeviceRef]] = set()
    missed = []
    for one in held:
        try:
            device, instance = _find(one.ref, inventory, xcp_minors or {})
            claim = _claim(one, device, instance, node)
        except _Miss as miss:
            missed.append(Missed(one, miss.reason, str(miss), miss.is_final))
            continue
        key, whole = (claim["device"], claim["gpu_instance"]), _part(device, instance)
        is_named_again = (*key, one.ref) in counted and one.sharing not in _SHARED
        counted.add((*key, one.ref))
        if key not in claims:
            claims[key] = claim
        elif _share(claim) < whole and not is_named_again:
            claims[key] = _joined(claims[key], claim, whole)
    return Resolved(tuple(claims[key] for key in sorted(claims)), tuple(missed))


def refs_of(text: str, numbers: str = BY_UNKNOWN) -> tuple[DeviceRef, ...]:
    """The devices of a list such as CUDA_VISIBLE_DEVICES or SLURM_JOB_GPUS. `numbers` is the index space of plain
    numbers in it. As CUDA reads it, the list ends at the first element that is none."""
    refs = []
    for item in text.split(","):
        value = item.strip()
        if value.lower() == "all":
            refs.append(DeviceRef(BY_UNKNOWN, value))
        elif value.upper().startswith("MIG-") or _MIG_R450.fullmatch(value):
            refs.append(DeviceRef(BY_MIG_UUID, value))
        elif value.upper().startswith("GPU-"):
            refs.append(DeviceRef(BY_UUID, value))
        elif value.isdigit():
            refs.append(DeviceRef(numbers, value))
        else:
            break
    return tuple(refs)


def read_xcp_minors(root: Path = Path("/sys")) -> dict[int, int]:
    """Render minors of AMD's partitions by the number in `amdgpu_xcp.N`, as the kernel links them."""
    found = {}
    for path in sorted((root / "devices/platform").glob("amdgpu_xcp[._]*/drm/renderD*")):
        match, minor = _XCP.fullmatch(path.parents[1].name), path.name.removeprefix("renderD")
        if match is not None and minor.isdigit():
            found[int(match[1])] = int(minor)
    return found


def _find(ref: DeviceRef, inventory: Inventory, xcp_minors: Mapping[int, int]) -> Match:
    value = ref.value.strip()
    if "::" in value:
        raise _Miss("device_ambiguous", f"{value!r} still carries a replica number: its share is not known", True)
    if (xcp := _XCP.fullmatch(value)) is not None:
        devices = _by_xcp(int(xcp[1]), inventory, xcp_minors)
    elif ref.by == BY_MIG_UUID or _MIG.fullmatch(value) or _MIG_R450.fullmatch(value):
        return _by_mig(value, inventory)
    elif ref.by == BY_UUID:
        devices = _by_uuid(value, inventory)
    elif ref.by == BY_MINOR:
        if (cap := _MIG_MINOR.fullmatch(value)) is not None:
            return _only([m for m in _instances(inventory) if m[1] and int(cap[1]) in m[1].minors], ref)
        number = _number(_MINOR, value, "a minor number such as 0 or nvidia0")
        devices = [d for d in inventory.devices if d.minor == number and _is_vendor(d, value)]
    elif ref.by == BY_PCI:
        devices = _by_pci(value, inventory)
    elif ref.by == BY_INDEX:
        number = _number(_INDEX, value, "an index such as 0")
        devices = [d for d in inventory.devices if d.index == number]
    else:
        detail = f"{value!r} ({ref.by}) does not tell which device it is: have the source name devices by UUID"
        raise _Miss("device_unknown_space", detail, True)
    device, _ = _only([(d, None) for d in devices], ref)
    return device, _instance(device, ref.gpu_instance) if ref.gpu_instance else None


def _by_uuid(value: str, inventory: Inventory) -> list[Device]:
    """The identity itself, else a prefix of a UUID; a full UUID is never a prefix."""
    wanted = value.lower()
    exact = [d for d in inventory.devices if wanted in (d.device.lower(), d.device.lower().removeprefix("gpu-"))]
    if exact or _GPU.fullmatch(value) is None:
        return exact or (_by_pci(value, inventory) if _PCI.fullmatch(value) else [])
    return [d for d in inventory.devices if d.device.lower().startswith(f"gpu-{wanted.removeprefix('gpu-')}")]


def _by_mig(value: str, inventory: Inventory) -> Match:
    if (old := _MIG_R450.fullmatch(value)) is not None:
        device, _ = _only([(d, None) for d in _by_uuid(old[1], inventory)], DeviceRef(BY_MIG_UUID, value))
        return device, _instance(device, old[2])
    if _MIG.fullmatch(value) is None:
        raise _Miss("device_malformed", f"{value!r} is no MIG UUID: expected MIG-… or MIG-GPU-…/gi/ci", True)
    wanted = value.lower()
    found = list(_instances(inventory))
    exact = [m for m in found if wanted in _uuids(m[1])]
    return _only(
        exact or [m for m in found if any(uuid.startswith(wanted) for uuid in _uuids(m[1]))],
        DeviceRef(BY_MIG_UUID, value),
    )


def _by_pci(value: str, inventory: Inventory) -> list[Device]:
    """By bus address in any of its spellings; a partition of an AMD card only with its number."""
    wanted = pci_address(value)
    if wanted is None:
        raise _Miss("device_malformed", f"{value!r} is no PCI address: expected 0000:c5:00.0", True)
    exact = [d for d in inventory.devices if d.device and pci_address(d.device) == wanted]
    return exact or [d for d in inventory.devices if d.pci and pci_address(d.pci) == wanted]


def pci_address(text: str) -> str | None:
    """`0000:c5:00.0`, with `/partition` where there is one; None where the text is no address."""
    match = _PCI.fullmatch(text.strip())
    if match is None:
        return None
    domain, bus, device = (int(match[name] or "0", 16) for name in ("domain", "bus", "device"))
    return f"{domain:04x}:{bus:02x}:{device:02x}.{match['function'] or 0}{match['partition'] or ''}"


def _by_xcp(number: int, inventory: Inventory, xcp_minors: Mapping[int, int]) -> list[Device]:
    if number not in xcp_minors:
        detail = f"amdgpu_xcp.{number} is not among /sys/devices/platform/amdgpu_xcp*: mount /sys into the agent"
        raise _Miss("device_not_found", detail, False)
    return [d for d in inventory.devices if d.vendor == "amd" and d.minor == xcp_minors[number]]


def _instance(device: Device, text: str) -> MigInstance:
    match = _INSTANCE.fullmatch(text.strip())
    if match is None:
        raise _Miss("device_malformed", f"{text!r} is no GPU instance of {device.device}: expected a number", True)
    for instance in device.instances:
        if instance.gpu_instance == str(int(match[1])):
            return instance
    present = ", ".join(i.gpu_instance for i in device.instances) or "none"
    detail = f"GPU instance {text} of {device.device} does not exist (there: {present}): was the card cut anew?"
    raise _Miss("device_not_found", detail, False)


def _instances(inventory: Inventory) -> Iterable[Match]:
    return ((device, instance) for device in inventory.devices for instance in device.instances)


def _uuids(instance: MigInstance | None) -> tuple[str, ...]:
    return tuple(uuid.lower() for uuid in (instance.uuid, *instance.compute_uuids)) if instance else ()


def _only(found: list[Match], ref: DeviceRef) -> Match:
    if len(found) == 1:
        return found[0]
    if not found:
        detail = f"no device here has {ref.by} {ref.value!r}: is its driver loaded, and is the probe running?"
        raise _Miss("device_not_found", detail, False)
    names = ", ".join(sorted(device.device for device, _ in found))
    raise _Miss("device_ambiguous", f"{ref.by} {ref.value!r} may be any of {names}: have the source name UUIDs", True)


def _number(form: re.Pattern[str], value: str, expected: str) -> int:
    match = form.fullmatch(value)
    if match is None:
        raise _Miss("device_malformed", f"{value!r} is not {expected}", True)
    return int(match[match.re.groups])


def _is_vendor(device: Device, value: str) -> bool:
    return "nvidia" not in value or device.vendor == "nvidia"


def _part(device: Device, instance: MigInstance | None) -> Fraction:
    return Fraction(1) if instance is None else Fraction(instance.slices, device.slices)


def _claim(held: Held, device: Device, instance: MigInstance | None, node: str) -> WireClaim:
    """Shares: as told, and of a MIG instance as a part of that instance; else the whole, or the instance's slices,
    evenly divided where it has several compute instances."""
    num, den = (1, 1) if instance is None else (instance.slices, device.slices)
    told = held.share_num, held.share_den
    if told != (None, None):
        share_num, share_den = told
        if share_num is None or share_den is None or not 0 < share_num <= share_den <= _MOST_PARTS:
            raise _Miss("share_malformed", f"share {share_num}/{share_den} of {device.device} is not in (0, 1]", True)
        num, den = num * share_num, den * share_den
    elif instance is not None and len(instance.compute_uuids) > 1:
        den *= len(instance.compute_uuids)
    return WireClaim(
        node=node, device=device.device, gpu_instance="" if instance is None else instance.gpu_instance,
        share_num=num, share_den=den, delivered_profile=FULL if instance is None else instance.profile,
        cpus=_within(held.cpus, _MOST_CPUS), memory_bytes=_within(held.memory_bytes, _MOST_BYTES), storage_bytes=None,
    )  # fmt: skip


def _joined(first: WireClaim, second: WireClaim, whole: Fraction) -> WireClaim:
    """One claim of two parts of one place."""
    share = min(_share(first) + _share(second), whole)
    joined = first.copy()
    joined["share_num"], joined["share_den"] = share.numerator, share.denominator
    joined["cpus"] = _sum(first["cpus"], second["cpus"])
    joined["memory_bytes"] = _sum(first["memory_bytes"], second["memory_bytes"])
    return joined


def _within(amount: int | None, most: int) -> int | None:
    return amount if amount is not None and 0 <= amount <= most else None


def _share(claim: WireClaim) -> Fraction:
    return Fraction(claim["share_num"], claim["share_den"])


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
