"""What one unit of a pod's GPU resource is on its node: a device, a MIG instance, a time-sliced part of either."""

import re
from fractions import Fraction
from typing import NamedTuple

from wattledger_audit.intake.mig_profile import GpuResource, mig_share, model_of_product

_PRODUCTS = ("nvidia_com_gpu_product", "amd_com_gpu_product_name", "beta_amd_com_gpu_product_name", "gpu_product")


class NodeShare(NamedTuple):
    """`share` of a device of `gpu_model`; `marks` say what was not told."""

    share: Fraction
    gpu_model: str
    marks: tuple[str, ...]


def share_on_node(
    name: str, resource: GpuResource, node_labels: dict[str, str], cores_percent: int | None
) -> NodeShare:
    """Replicas and MIG's single strategy stand in the node's labels; `cores_percent` is HAMi's part of a device."""
    product = next((node_labels[name] for name in _PRODUCTS if name in node_labels), "")
    gpu_model = model_of_product(product) or resource.model
    share = Fraction(resource.share_num, resource.share_den)
    profile = mig_share(name, gpu_model) or mig_share(product)  # the single strategy calls instances nvidia.com/gpu
    if profile:
        share = Fraction(profile.slices, profile.of)
    if cores_percent is not None and 0 < cores_percent < 100:
        return NodeShare(share * Fraction(cores_percent, 100), gpu_model, ())
    kind = re.sub(r"[^a-z0-9]", "_", name.lower()).removesuffix("_shared")
    replicas = node_labels.get(f"{kind}_replicas", "")
    sliced = (resource.shared and not profile) or name.lower().endswith("shared") or product.upper().endswith("-SHARED")
    if replicas.isdecimal() and int(replicas) > 1:
        return NodeShare(share / int(replicas), gpu_model, ())
    return NodeShare(share, gpu_model, ("share_unknown",) if sliced else ())
