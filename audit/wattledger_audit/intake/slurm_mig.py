"""What a GPU type in SLURM's GRES says: the model, and for a MIG profile the part of the device it is."""

import re
from typing import NamedTuple

from wattledger_audit.intake.mig_profile import mig_share

_LOOKS_MIG = re.compile(r"(?:^|[^a-z0-9])\d+g[._]\d+gb", re.IGNORECASE)
_NO_TYPE = frozenset({"", "(null)", "null", "none", "n/a"})


class GpuType(NamedTuple):
    """`share_num/share_den` is 1/1 for a whole device, slices over what the card divides into for MIG.

    `known` is False for a profile whose card nothing tells."""

    gpu_model: str
    share_num: int
    share_den: int
    known: bool = True


def gpu_type(text: str) -> GpuType:
    """`a100` -> a100 1/1; `a100_3g.20gb` -> a100 3/7; `1g.6gb` -> A30 1/4; `(null)` -> no model."""
    word = text.strip()
    if word.lower() in _NO_TYPE:
        return GpuType("", 1, 1)
    if _LOOKS_MIG.search(word) is None:
        return GpuType(word, 1, 1)
    share = mig_share(word)
    if share is None:
        return GpuType(word, 1, 1, known=False)
    return GpuType(share.model, share.slices, share.of)
