"""Names of devices as schedulers and exporters write them: replicas, MIG instances and their parents."""

import re
from typing import NamedTuple

_OLD_MIG = re.compile(r"MIG-(GPU-[0-9a-fA-F-]+)/(\d+)/(\d+)")
_GKE = re.compile(r"(nvidia\d+)(?:/gi(\d+))?(?:/vgpu(\d+))?")


class DeviceName(NamedTuple):
    """`device` is the physical device where the name tells it, else the MIG instance's own name.

    `instance` names a MIG instance (empty: the whole device), `replica` a time-sliced one (empty: not replicated)."""

    device: str
    instance: str
    replica: str


def parse_device(text: str) -> DeviceName:
    """`GPU-…`, `GPU-…::2` (replica), `MIG-…`, `MIG-GPU-…/7/0`, `nvidia0/gi7/vgpu1`, an index."""
    name, _, replica = text.strip().partition("::")
    if old := _OLD_MIG.fullmatch(name):
        return DeviceName(old[1], f"{old[2]}/{old[3]}", replica)
    if gke := _GKE.fullmatch(name):
        return DeviceName(gke[1], gke[2] or "", gke[3] or replica)
    return DeviceName(name, name if name.startswith("MIG-") else "", replica)
