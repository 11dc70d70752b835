"""Names of parts of a GPU: MIG profiles, scheduler resource names, product names. What share of a device each one is.

Slices per model are NVIDIA's compute slices: A100, H100, H200, B200 are cut in 7, A30 and RTX PRO 6000 in 4.
"""

import re
from functools import lru_cache
from typing import NamedTuple

_PROFILE = re.compile(
    r"(?:^|[^a-z0-9])(?:(?P<compute>[1-7])c[._])?(?P<slices>[1-7])g[._](?P<gb>\d{1,3})gb(?![a-z0-9])", re.IGNORECASE
)
_SLICES = (
    (re.compile(r"(?<![A-Z0-9])A30(?![0-9])"), 4),
    (re.compile(r"RTX[ _-]*PRO[ _-]*6000"), 4),
    (re.compile(r"RTX[ _-]*PRO[ _-]*5000"), 2),
    (re.compile(r"(?<![A-Z0-9])(?:A100|A800|G?H[128]00|H20|G?B[123]00|GH100|GA100)(?![0-9])"), 7),
)
_MODELS = {
    "A30": ((1, 6), (2, 12), (4, 24)),
    "A100": ((1, 5), (2, 10), (3, 20), (4, 20), (7, 40)),
    "H100": ((3, 47), (4, 47), (7, 94)),
    "H200": ((1, 18), (1, 35), (2, 35), (3, 71), (4, 71), (7, 141)),
    "B200": ((1, 23), (1, 45), (2, 45), (3, 90), (4, 90), (7, 180)),
    "RTX PRO 6000": ((2, 48), (4, 96)),
}
_MODEL_OF = {profile: model for model, profiles in _MODELS.items() for profile in profiles}
_ONE_OF_SEVERAL = {(1, 24)}
"""1g.24gb is one of 7 on an H100 of 94 GB and one of 4 on an RTX PRO 6000: only the model settles it."""
_VALID = {4: (1, 2, 4), 7: (1, 2, 3, 4, 7), 2: (1, 2)}
_PARTITION_MODES = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4, "cpx": 8}
_CARD = re.compile(r"^(?:G[ABHPVK]|TU|AD)\d{3}[A-Z]*[_-]", re.IGNORECASE)
_VGPU = re.compile(r"^(?:GRID|NVIDIA)[_-].*[_-]\d+[QCBA]$", re.IGNORECASE)


class MigShare(NamedTuple):
    """`slices` of the `of` that the device is divided by; `model` is a hint where the name tells it, else empty."""

    slices: int
    of: int
    model: str


class GpuResource(NamedTuple):
    """What one unit of a scheduler's resource is: `share_num/share_den` of a device.

    `shared`: its share is not in the name: only the number of replicas tells it, or the model (`mig-1g.24gb`).
    """

    share_num: int
    share_den: int
    model: str
    shared: bool


def slices_of_model(gpu_model: str) -> int:
    """How many MIG slices a device of the model has; 1 for a model that MIG does not divide, or an unknown one."""
    upper = gpu_model.upper()
    return next((slices for pattern, slices in _SLICES if pattern.search(upper)), 1)


@lru_cache(maxsize=4096)
def mig_share(text: str, gpu_model: str = "") -> MigShare | None:
    """The share that a text with a profile in it names (`1g.10gb`, `MIG 3g.40gb`, `a100_1g.5gb`, `1c.3g.20gb`).

    None: no profile in it, or one that the model (given, or named in the text) can't have, or that only a model
    could settle (`1g.24gb`).
    """
    found = _PROFILE.search(text)
    if found is None:
        return None
    slices, gigabytes = int(found["slices"]), int(found["gb"])
    family = _MODEL_OF.get((slices, gigabytes), "")
    named = _model_named(text[: found.start()])
    of = slices_of_model(gpu_model or named)
    if of == 1:
        if (slices, gigabytes) in _ONE_OF_SEVERAL:
            return None
        of = slices_of_model(family) if family else 7
    if slices not in _VALID[of]:
        return None
    part = int(found["compute"] or slices)
    return MigShare(part, of, named or family) if part <= slices else None


def _model_named(prefix: str) -> str:
    """The model's name before a profile: `nvidia_a100_3g.20gb`, `NVIDIA-H100-80GB-HBM3-MIG-1g.10gb`."""
    cleaned = re.sub(r"(?:^|[ _-])mig[ _-]*$", "", prefix.strip(" _-/:"), flags=re.IGNORECASE).strip(" _-/:")
    if slices_of_model(cleaned) == 1:
        return ""
    return re.sub(r"^nvidia(?:[._]com)?[ _/-]+", "", cleaned, flags=re.IGNORECASE)


@lru_cache(maxsize=1024)
def gpu_resource(name: str) -> GpuResource | None:
    """What a resource name counts: `nvidia.com/gpu`, `nvidia.com/mig-1g.5gb`, `nvidia.com/gpu.shared`,
    `amd.com/gpu`, KubeVirt's card names, and all of them as kube-state-metrics writes them (`nvidia_com_gpu`).

    None: not a GPU (`cpu`, `memory`, `nvidia.com/gpumem`).
    """
    lower = name.strip().lower()
    vendor, _, kind = lower.partition("/") if "/" in lower else _sanitised(lower)
    kind = kind.replace("_", ".") if vendor != "nvidia.com" or not _CARD.match(kind) else kind
    if vendor == "nvidia.com":
        return _nvidia_resource(kind, name)
    if vendor == "amd.com":
        return _amd_resource(kind)
    if vendor == "gpu.intel.com" and kind in ("i915", "xe"):
        return GpuResource(1, 1, "", False)
    return None


def _sanitised(lower: str) -> tuple[str, str, str]:
    """Vendor and kind of a name whose dots, dashes and slashes all became underscores."""
    for vendor in ("nvidia.com", "amd.com", "gpu.intel.com"):
        prefix = vendor.replace(".", "_") + "_"
        if lower.startswith(prefix):
            return vendor, "/", lower[len(prefix) :]
    return "", "", lower


def _nvidia_resource(kind: str, name: str) -> GpuResource | None:
    shared = kind.endswith(".shared")
    if kind.removesuffix(".shared") == "gpu":
        return GpuResource(1, 1, "", shared)
    if kind.startswith(("mig-", "mig.")):
        profile = kind[4:].removesuffix(".shared")
        share = mig_share(profile)
        if share is None:
            return GpuResource(1, 1, "", True) if _PROFILE.search(profile) else None
        return GpuResource(share.slices, share.of, share.model, shared)
    card = re.split(r"nvidia[._]com[/_]", name.strip(), maxsplit=1, flags=re.IGNORECASE)[-1]
    if _CARD.match(card):
        return GpuResource(1, 1, card, False)
    return GpuResource(1, 1, card, True) if _VGPU.match(card) else None


def _amd_resource(kind: str) -> GpuResource | None:
    if kind == "gpu":
        return GpuResource(1, 1, "", False)
    parts = _PARTITION_MODES.get(re.split(r"[._-]", kind, maxsplit=1)[0])
    return GpuResource(1, parts, "", False) if parts else None


def model_of_product(product: str) -> str:
    """A GPU model from what a node label calls its product: without `-SHARED` and `-MIG-1g.5gb`."""
    return re.sub(r"-(?:SHARED|MIG-\d+g\..*)$", "", re.sub(r"-SHARED$", "", product, flags=re.IGNORECASE))
