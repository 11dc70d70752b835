"""Which GPUs a SLURM job held: the one count out of the columns that name some, by model and MIG share."""

from collections.abc import Iterable
from typing import NamedTuple

from wattledger_audit.intake.slurm_mig import gpu_type
from wattledger_audit.intake.slurm_tres import Tres

FROM_OTHER_COLUMN = "gpus_from_gres_used"
"""The allocated TRES name no GPU; another column of the same row does."""
TYPES_DISAGREE = "gpu_types_disagree"
"""The typed counts add up to more than the total."""
MIG_UNKNOWN = "mig_share_unknown"
"""A MIG profile that several cards have, and the type does not say which card."""
TRES_CUT = "tres_cut"
"""The text ends in the middle, so GPUs may be missing from it."""


class GpuHold(NamedTuple):
    """So many devices of one model and share. `gpus` None: unknown. `label` tells holds of one job apart."""

    label: str
    gpu_model: str
    gpus: int | None
    share_num: int = 1
    share_den: int = 1
    marks: tuple[str, ...] = ()


def hold_gpus(allocated: Tres, others: Iterable[Tres], started: bool, tracked: bool) -> tuple[GpuHold, ...]:
    """One hold per GPU type, at least one in all.

    `others` are the row's further columns, the best first; they count only where `allocated` has no GPU key. When no
    column names any, that is 0 on a cluster whose TRES list GPUs (`tracked`) and unknown on one that lists none. A
    run that has not started holds what it asked for."""
    if allocated.names_gpus and (allocated.shared == "" or _total(allocated) > 0):
        return _by_type(allocated, ())
    if allocated.shared:
        return (GpuHold("", "", None, marks=(f"{allocated.shared}_share_unknown",)),)
    if allocated.cut:
        return (GpuHold("", "", None, marks=(TRES_CUT,)),)
    for other in others:
        if other.names_gpus:
            return _by_type(other, (FROM_OTHER_COLUMN,) if started and _total(other) > 0 else ())
        if other.shared:
            return (GpuHold("", "", None, marks=(f"{other.shared}_share_unknown",)),)
    return (GpuHold("", "", 0 if tracked else None),)


def _total(tres: Tres) -> int:
    return max(tres.gpus or 0, sum(count for _, count in tres.types))


def _by_type(tres: Tres, marks: tuple[str, ...]) -> tuple[GpuHold, ...]:
    """`gres/gpu` is the total and typed entries its breakdown; typed ones alone are all there is."""
    counts: dict[str, int] = {}
    for kind, count in tres.types:  # one entry per node where a text lists nodes
        counts[kind] = counts.get(kind, 0) + count
    typed = [(kind, count) for kind, count in counts.items() if count > 0]
    named = sum(counts.values())
    total = named if tres.gpus is None else tres.gpus
    if named > total:
        marks = (*marks, TYPES_DISAGREE)
        if len(typed) == 1:
            typed = [(typed[0][0], total)] if total > 0 else []
    holds = []
    for kind, count in typed:
        part = gpu_type(kind)
        if part.known:
            holds.append(GpuHold(kind, part.gpu_model, count, part.share_num, part.share_den, marks))
        else:
            holds.append(GpuHold(kind, part.gpu_model, None, marks=(*marks, MIG_UNKNOWN)))
    if named < total:
        holds.append(GpuHold("untyped", "", total - named, marks=marks))
    if holds:
        return tuple(holds)
    only = tres.types[0][0] if len(counts) == 1 else ""
    return (GpuHold(only, gpu_type(only).gpu_model, 0, marks=marks),)
