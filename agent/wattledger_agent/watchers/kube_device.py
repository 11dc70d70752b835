"""Names that device plugins give to devices and resources. Pure: what a name means, not whether the device is there."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from wattledger_agent.watchers.kube_hold import DeviceHold
from wattledger_agent.watchers.run import BY_MIG_UUID, BY_MINOR, BY_PCI, BY_UNKNOWN, BY_UUID, DeviceRef

_UUID = r"[0-9A-Fa-f]+(?:-[0-9A-Fa-f]+){0,4}"
_REPLICA = re.compile(r"(?P<device>.+)::(?P<replica>\d+)")
_GPU = re.compile(rf"GPU-{_UUID}")
_MIG = re.compile(rf"MIG-{_UUID}")
_INSTANCE = re.compile(rf"(?:MIG-)?GPU-{_UUID}/(?P<gi>\d+)/\d+")
_GKE = re.compile(r"nvidia(?P<minor>\d+)(?:/gi(?P<gi>\d+))?(?:/vgpu(?P<replica>\d+))?")
_PCI = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_MIG_RESOURCE = re.compile(r"nvidia\.com/mig-(?P<profile>[^/]+?)(?:\.shared)?")
_NAMED = re.compile(
    r"nvidia\.com/(?:gpu|gpu\.shared|pgpu|vgpu|mig-.+|[A-Z].*)|amd\.com/(?:gpu|vgpu|[sdtqc]px_nps\d+|[A-Z].*)"
)


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A device id taken apart. `replica` where the id is one of several references to one device; the number is no
    part of the device and gives no share by itself."""

    ref: DeviceRef
    replica: int | None = None


def parse_device_id(text: str) -> DeviceName:
    """What a device id of the kubelet names: `GPU-…`, `MIG-…`, `MIG-GPU-…/gi/ci`, `nvidia0[/gi7][/vgpu3]` (GKE), a PCI
    address (AMD, pass-through), each with `::n` where it is a replica. Anything else is BY_UNKNOWN: IOMMU groups and
    mdev UUIDs of virtual machines, `amdgpu_xcp.7`, plugins that count in a way of their own.

    Source: k8s-device-plugin's and GKE's plugins as their users' reports show them.
    """
    named, replica = text, None
    if found := _REPLICA.fullmatch(text):
        named, replica = found["device"], int(found["replica"])
    if found := _GKE.fullmatch(named):
        inner = found["replica"]
        ref = DeviceRef(BY_MINOR, found["minor"], found["gi"] or "")
        return DeviceName(ref, int(inner) if inner is not None else replica)
    if found := _INSTANCE.fullmatch(named):
        return DeviceName(DeviceRef(BY_MIG_UUID, named, found["gi"]), replica)
    for shape, by in ((_GPU, BY_UUID), (_MIG, BY_MIG_UUID)):
        if shape.fullmatch(named):
            return DeviceName(DeviceRef(by, named), replica)
    if _PCI.fullmatch(named):
        return DeviceName(DeviceRef(BY_PCI, named.lower()), replica)
    return DeviceName(DeviceRef(BY_UNKNOWN, named), replica)


def is_gpu_resource(name: str, extra: Iterable[str] = ()) -> bool:
    """Whether a resource is GPUs by its name; KubeVirt's are named after the card (`nvidia.com/GA102GL_A10`)."""
    return _NAMED.fullmatch(name) is not None or name in extra


def is_gpu(hold: DeviceHold, extra: Iterable[str] = ()) -> bool:
    """Whether these are GPUs, by the resource's name or, for a renamed resource, by its ids. A PCI address alone says
    nothing: network cards have them too."""
    if is_gpu_resource(hold.resource, extra):
        return True
    kinds = {parse_device_id(one).ref.by for one in hold.ids}
    return bool(kinds) and kinds <= {BY_UUID, BY_MIG_UUID, BY_MINOR}


def profile_of(resource: str) -> str:
    """MIG profile that a resource names (`1g.5gb` of `nvidia.com/mig-1g.5gb.shared`); empty: it names none."""
    found = _MIG_RESOURCE.fullmatch(resource)
    return found["profile"] if found else ""
