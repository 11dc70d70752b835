"""How a shared card's energy is split among its holders: by processes, by MIG slices and activity, else equally.

Every split sums to the slice exactly; what belongs to nobody is idle or unattributed.
"""

from wattledger_core.activity import integral_if_known
from wattledger_core.batch import Batch
from wattledger_core.capacity import STOP_PENDING
from wattledger_core.curve import Slice
from wattledger_core.hold import Hold
from wattledger_core.split import share_weights, split_exactly

HELD = "held"
IDLE_STATE = "idle"
UNATTRIBUTED_STATE = "unattributed"

Share = tuple[Hold | None, str, str, Slice]


def split_slice(
    batch: Batch, d: int, active: list[Hold], a_us: int, b_us: int, whole: Slice
) -> tuple[list[Share], set[str]]:
    """Who has which part of a slice, summing to it exactly, and the quality notes of the split."""
    if not active:
        return _unheld(whole), set()
    if len(active) == 1 and not active[0].revision.gpu_instance:
        return _one_holder(batch, d, active[0], a_us, b_us, whole)
    if any(hold.revision.gpu_instance for hold in active):
        return _split_mig(batch, d, active, a_us, b_us, whole)
    return _split_by_processes(batch, d, active, a_us, b_us, whole)


def _unheld(whole: Slice) -> list[Share]:
    """Nobody holds it: energy while busy is unattributed, the rest idle."""
    busy_uj = whole.energy_uj - whole.idle_uj
    if whole.busy_us == 0 or busy_uj == 0:
        return [(None, IDLE_STATE, "", whole)]
    busy_us = min(whole.busy_us, whole.measured_us) if whole.idle_uj else whole.measured_us
    used = Slice(busy_uj, 0, 0, whole.busy_us, busy_us, 0, whole.method, whole.marks)
    idle_us = whole.measured_us - busy_us
    idle = Slice(whole.idle_uj, whole.idle_uj, 0, 0, idle_us, whole.unknown_us, whole.method, whole.marks)
    shares: list[Share] = [(None, UNATTRIBUTED_STATE, "", used)]
    if idle_us or whole.unknown_us or whole.idle_uj:
        shares.append((None, IDLE_STATE, "", idle))
    return shares


def _held_share(hold: Hold, part: Slice) -> Share:
    if hold.zombie:
        return hold, UNATTRIBUTED_STATE, STOP_PENDING, part
    return hold, HELD, "", part


def _one_holder(batch: Batch, d: int, hold: Hold, a_us: int, b_us: int, whole: Slice) -> tuple[list[Share], set[str]]:
    """A single holder of the whole card, or the only one on a time-sliced card: all of it, but for what processes
    that belong to nobody used beside it."""
    if hold.revision.share_num == hold.revision.share_den:
        return [_held_share(hold, whole)], set()
    return _split_by_processes(batch, d, [hold], a_us, b_us, whole)


def _split_by_processes(
    batch: Batch, d: int, active: list[Hold], a_us: int, b_us: int, whole: Slice
) -> tuple[list[Share], set[str]]:
    """Time-slicing, MPS and overlaps: by SM share of each job's processes, else equally by declared share."""
    notes: set[str] = set()
    weights, _, contradicts = share_weights(active)
    if contradicts:
        notes.add("overlap")
    by_job: dict[tuple[str, str], int] = {}
    untold: set[tuple[str, str]] = set()
    for process in batch.devices[d].processes:
        key = (process.cluster, process.job)
        used_here = integral_if_known(batch, process.sm_ppm, process.valid, a_us, b_us)
        untold |= {key} if used_here is None else set()
        by_job[key] = by_job.get(key, 0) + (used_here or 0)
    owners = {(hold.revision.cluster, hold.revision.job) for hold in active}
    used = [by_job.get((h.revision.cluster, h.revision.job), 0) for h in active]
    stranger = sum(weight for key, weight in by_job.items() if key not in owners)
    # a holder whose processes are there and whose share nobody tells has not used nothing
    if sum(used) > 0 and not contradicts and not untold & owners:
        weights = used
        notes.add("split_by_sm")
    else:
        stranger = 0
        weights = weights if contradicts else [1] * len(active)
        if len(active) > 1:
            notes.add("split_equally")
    slices = _parts(whole, [*weights, stranger])
    shares = [_held_share(hold, part) for hold, part in zip(active, slices, strict=False)]
    if stranger:
        shares.append((None, UNATTRIBUTED_STATE, "", slices[-1]))
    return shares, notes


def _split_mig(
    batch: Batch, d: int, active: list[Hold], a_us: int, b_us: int, whole: Slice
) -> tuple[list[Share], set[str]]:
    """MIG: the idle floor by slices (unheld ones to idle), the rest by slices × activity; activity unknown: by
    slices held; floor unknown and activity unknown: all of it by slices (measurement.md section 3)."""
    weights, total, contradicts = share_weights(active)
    notes = {"overlap"} if contradicts else set()
    device = batch.devices[d]
    activity: dict[str, int | None] = {
        i.gpu_instance: integral_if_known(batch, i.activity_ppm, i.valid, a_us, b_us) for i in device.instances
    }
    held = [activity.get(hold.revision.gpu_instance) for hold in active]
    known = all(value is not None for value in held)
    owned = {hold.revision.gpu_instance for hold in active}
    stranger = 0
    floor_known = device.idle_floor_mw is not None
    if known and sum(value or 0 for value in held) > 0:
        dynamic_weights = [weight * (value or 0) for weight, value in zip(weights, held, strict=True)]
        stranger = sum(
            i.slices * total // device.slices * (activity[i.gpu_instance] or 0)
            for i in device.instances
            if i.gpu_instance not in owned
        )
        static = whole.static_uj if floor_known else 0
        notes.add("split_by_activity")
    else:
        dynamic_weights = weights
        static = whole.static_uj
        notes.add("split_by_slices")
    static_parts = split_exactly(static, weights, total)
    dynamic = whole.energy_uj - static
    dynamic_parts = split_exactly(dynamic, [*dynamic_weights, stranger])
    rest = _parts(whole, [*weights, total - sum(weights)])
    shares: list[Share] = []
    for hold, static_uj, dynamic_uj, part in zip(active, static_parts, dynamic_parts, rest, strict=False):
        energy_uj = static_uj + dynamic_uj
        shares.append(_held_share(hold, _with_energy(part, energy_uj, min(energy_uj, part.idle_uj))))
    if stranger:
        used = Slice(dynamic_parts[-1], 0, 0, 0, 0, 0, whole.method, whole.marks)
        shares.append((None, UNATTRIBUTED_STATE, "", used))
    idle_uj = static - sum(static_parts)
    if idle_uj or sum(weights) < total:
        shares.append((None, IDLE_STATE, "", _with_energy(rest[-1], idle_uj, idle_uj)))
    return shares, notes


def _with_energy(part: Slice, energy_uj: int, idle_uj: int) -> Slice:
    return Slice(
        energy_uj, idle_uj, 0, part.busy_us, part.measured_us, part.unknown_us, part.method, part.marks
    )  # fmt: skip


def _parts(whole: Slice, weights: list[int]) -> list[Slice]:
    """Every quantity of a slice split by the same weights."""
    columns = [
        split_exactly(value, weights)
        for value in (
            whole.energy_uj,
            whole.idle_uj,
            whole.static_uj,
            whole.busy_us,
            whole.measured_us,
            whole.unknown_us,
        )
    ]
    return [
        Slice(energy, min(idle, energy), static, busy, measured, unknown, whole.method, whole.marks)
        for energy, idle, static, busy, measured, unknown in zip(*columns, strict=True)
    ]
