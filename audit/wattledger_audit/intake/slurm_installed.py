"""How many physical GPUs a node has, from SLURM's GRES of it, where MIG instances count one by one."""

from typing import NamedTuple

from wattledger_audit.intake.slurm_mig import gpu_type
from wattledger_audit.intake.slurm_tres import Tres

_MEMORY_PARTS = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
"""Eighths of an A100's or H100's memory that a profile of so many slices has: two of 3g fill a card (NVIDIA's table
of profiles)."""


class Installed(NamedTuple):
    """So many devices of a model (empty: not said)."""

    gpu_model: str
    gpus: int


def installed_gpus(gres: Tres, configured: Tres) -> tuple[Installed, ...]:
    """Devices by model, in the order named. For MIG it is the fewest cards that the instances fit on."""
    tres = gres if gres.names_gpus else configured
    whole: dict[str, int] = {}
    slices: dict[str, tuple[int, int, int]] = {}
    named = 0
    for kind, count in tres.types:
        named += count
        part = gpu_type(kind)
        if part.share_den == 1:
            whole[part.gpu_model] = whole.get(part.gpu_model, 0) + count
        else:
            compute, memory, _ = slices.get(part.gpu_model, (0, 0, 0))
            eighths = _MEMORY_PARTS[part.share_num] if part.share_den == 7 else part.share_num
            slices[part.gpu_model] = (compute + count * part.share_num, memory + count * eighths, part.share_den)
    for model, (compute, memory, den) in slices.items():
        cards = max(-(-compute // den), -(-memory // (8 if den == 7 else den)))
        whole[model] = whole.get(model, 0) + cards
    if tres.gpus is not None and tres.gpus > named:
        whole[""] = tres.gpus - named
    return tuple(Installed(model, count) for model, count in whole.items() if count > 0)
