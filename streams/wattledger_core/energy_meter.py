"""The energy meter: a batch's curves cut at holders and quarter-hours into energy lines. Owns the splitting rules."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from wattledger_core.batch import Batch, SampledDevice
from wattledger_core.book import Book, View
from wattledger_core.curve import METHOD_NAMES, Slice, mark_text
from wattledger_core.discrepancy import discrepancy, overlap, reading_discrepancies
from wattledger_core.energy_split import HELD, IDLE_STATE, UNATTRIBUTED_STATE, split_slice
from wattledger_core.hold import Hold, cut_holds, edges, failed_intervals
from wattledger_core.ids import digest
from wattledger_core.late import KNOWN
from wattledger_core.line import IDLE, UNATTRIBUTED, DeviceTotal, Discrepancy, Line
from wattledger_core.revision import AllocationRevision
from wattledger_core.steady import BatchCurves
from wattledger_core.units import quarter_cuts_us

ENERGY = "energy"
UNKNOWN_ENERGY = "energy_unknown"


@dataclass(slots=True)
class _Part:
    """What one holder has gathered in one quarter-hour of one device."""

    start_us: int
    end_us: int
    hold: Hold | None
    state: str
    reason: str
    measured_us: int = 0
    unknown_us: int = 0
    energy_uj: int = 0
    idle_uj: int = 0
    busy_us: int = 0
    method: int = 0
    marks: int = 0
    notes: set[str] = field(default_factory=set)

    def gather(self, a_us: int, b_us: int, part: Slice) -> None:
        self.start_us = min(self.start_us, a_us)
        self.end_us = max(self.end_us, b_us)
        self.measured_us += part.measured_us
        self.unknown_us += part.unknown_us
        self.energy_uj += part.energy_uj
        self.idle_uj += part.idle_uj
        self.busy_us += part.busy_us
        self.method |= part.method
        self.marks |= part.marks


def energy_totals(batch: Batch, curves: BatchCurves, partition: int, offset: int) -> list[DeviceTotal]:
    """C of each device at the batch's end: what its lines must sum to, whoever held it."""
    start_us, end_us = batch.start_us, batch.end_us
    whole = curves.whole()
    return [
        DeviceTotal(
            digest("total", ENERGY, batch.node, device.device, start_us),
            ENERGY, start_us, end_us, batch.node, device.device,
            0, whole[d].energy_uj, whole[d].measured_us, whole[d].unknown_us, partition, offset,
        )
        for d, device in enumerate(batch.devices)
    ]  # fmt: skip


def energy_lines(batch: Batch, curves: BatchCurves, book: Book, view: View) -> tuple[list[Line], list[Discrepancy]]:
    """Lines of a batch in one view, in device order; late.py names those without an id.

    Σ energy over a device's lines is C at the batch's end exactly; unknown time has lines of its own.
    """
    lines: list[Line] = []
    found: list[Discrepancy] = []
    start_us, end_us = batch.start_us, batch.end_us
    cuts = quarter_cuts_us(start_us, end_us)
    whole = curves.whole()
    failures = failed_intervals(book, batch.node, end_us, view)
    plain = not cuts and not failures
    for d, device in enumerate(batch.devices):
        revisions = book.allocations(batch.node, device.device, start_us, end_us, view)
        slice_ = whole[d]
        if slice_.marks:
            found += reading_discrepancies(batch, device, slice_)
        if plain and slice_.unknown_us == 0 and _held_throughout(revisions, start_us, end_us):
            lines.append(_held_line(batch, device, revisions[0], slice_, start_us, end_us))
            continue
        holders = cut_holds(revisions, start_us, end_us, failures)
        for first_us, last_us in zip([start_us, *cuts], [*cuts, end_us], strict=True):
            parts = _quarter_parts(batch, curves, d, holders, first_us, last_us, found)
            lines += [line for part in parts for line in _part_lines(batch, device, part)]
    return lines, found


def _held_throughout(revisions: Sequence[AllocationRevision], start_us: int, end_us: int) -> bool:
    """One exclusive holder, who pays from end to end."""
    if len(revisions) != 1:
        return False
    r = revisions[0]
    return (
        r.share_num == r.share_den
        and not r.gpu_instance
        and r.start_us <= start_us
        and (r.end_us is None or r.end_us >= end_us)
        and (r.stop_requested_us is None or r.stop_requested_us >= end_us)
    )


def _held_line(
    batch: Batch, device: SampledDevice, r: AllocationRevision, part: Slice, start_us: int, end_us: int
) -> Line:
    """The hot path: one holder, all measured, one quarter-hour; named at once, as late.py would name it."""
    name = digest(
        "line", ENERGY, batch.node, start_us, device.device, "", r.tenant, r.allocation_id, HELD, "", start_us, KNOWN
    )
    return Line(
        name, ENERGY, start_us, end_us, batch.node, device.device, "", batch.site, device.gpu_model, HELD, "", r.tenant,
        r.project, r.user, r.model_tag, r.cluster, r.job, r.attempt, r.allocation_id, r.plan, r.sku, start_us, end_us,
        end_us - start_us, 0, part.energy_uj, part.idle_uj, part.busy_us, METHOD_NAMES[part.method],
        mark_text(part.marks) if part.marks else "",
    )  # fmt: skip


def _quarter_parts(
    batch: Batch, curves: BatchCurves, d: int, holders: list[Hold], a_us: int, b_us: int, found: list[Discrepancy]
) -> list[_Part]:
    """One device over one quarter-hour (or what the batch covers of it): a part for each holder, idle, unattributed."""
    device = batch.devices[d]
    parts: dict[tuple[str, str, str], _Part] = {}
    points = [p for p in edges(holders, a_us, b_us) if a_us <= p <= b_us]
    for first_us, last_us in itertools.pairwise(points):
        active = [hold for hold in holders if hold.start_us <= first_us and hold.end_us >= last_us]
        if active or first_us > batch.start_us or last_us < batch.end_us:
            slice_ = curves.slice(d, first_us, last_us)
        else:
            slice_ = curves.whole()[d]  # nobody's from end to end: no curve is built
        shares, notes = split_slice(batch, d, active, first_us, last_us, slice_)
        if "overlap" in notes:
            found.append(overlap(batch.node, device.device, active, first_us, last_us))
        for hold, state, reason, part in shares:
            key = (hold.revision.allocation_id if hold else "", state, reason)
            if key not in parts:
                parts[key] = _Part(first_us, last_us, hold, state, reason)
            parts[key].gather(first_us, last_us, part)
            parts[key].notes |= notes
        if any(state == UNATTRIBUTED_STATE and not hold for hold, state, _, _ in shares):
            found.append(discrepancy("usage_without_holder", batch.node, device.device, first_us, last_us))
    return list(parts.values())


def _part_lines(batch: Batch, device: SampledDevice, part: _Part) -> list[Line]:
    """A line for what was measured, and one that says so for what was not."""
    marks = sorted({m for m in (mark_text(part.marks), *part.notes) if m})
    text = ",".join(sorted({name for mark in marks for name in mark.split(",")}))
    lines = []
    if part.measured_us or part.energy_uj or not part.unknown_us:
        method = METHOD_NAMES[part.method]
        measured = (part.reason, part.measured_us, part.energy_uj, part.idle_uj, part.busy_us, method, text)
        lines.append(_part_line(batch, device, part, *measured))
    if part.unknown_us:
        reason = part.reason or UNKNOWN_ENERGY
        lines.append(_part_line(batch, device, part, reason, part.unknown_us, None, 0, 0, METHOD_NAMES[0], text))
    return lines


def _part_line(
    batch: Batch, device: SampledDevice, part: _Part, reason: str, span_us: int, energy_uj: int | None,
    idle_uj: int, busy_us: int, method: str, marks: str,
) -> Line:  # fmt: skip
    if part.hold is None:
        tenant = IDLE if part.state == IDLE_STATE else UNATTRIBUTED
        holder = (tenant, "", "", "", "", "", 0, "", "", "")
        instance = ""
    else:
        r = part.hold.revision
        tenant = r.tenant if part.state == HELD else UNATTRIBUTED
        holder = (
            tenant, r.project, r.user, r.model_tag, r.cluster, r.job, r.attempt, r.allocation_id, r.plan, r.sku,
        )  # fmt: skip
        instance = r.gpu_instance
    return Line(
        "", ENERGY, batch.start_us, batch.end_us, batch.node, device.device, instance, batch.site, device.gpu_model,
        part.state, reason, *holder, part.start_us, part.end_us, span_us, 0, energy_uj, idle_uj, busy_us, method,
        marks,
    )  # fmt: skip
