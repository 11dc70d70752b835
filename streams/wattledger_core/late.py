"""Chains: what was written first, and what each late revision reverses and corrects. Owns the ids of lines.

Rows are never changed. A late revision's step appends a reversal of every row that differs and a correction; a row
that a step leaves as it was keeps its id.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from wattledger_core.book import Entry, View
from wattledger_core.ids import digest
from wattledger_core.line import CORRECTION, REVERSAL, DeviceTotal, Discrepancy, Line

KNOWN, UNKNOWN = "known", "unknown"
"""Last part of a line's identity: whether its energy is."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What one view makes of one batch or quarter-hour; line ids are empty."""

    lines: list[Line]
    totals: list[DeviceTotal]
    discrepancies: list[Discrepancy]


@dataclass(slots=True)
class Written:
    """Rows to append: originals, reversals, corrections."""

    lines: list[Line] = field(default_factory=list)
    totals: list[DeviceTotal] = field(default_factory=list)
    discrepancies: list[Discrepancy] = field(default_factory=list)


def _identity(line: Line) -> tuple[str | int, ...]:
    return (
        line.kind, line.node, line.group_start_us, line.device, line.gpu_instance, line.tenant, line.allocation_id,
        line.state, line.reason, line.start_us, UNKNOWN if line.energy_uj is None else KNOWN,
    )  # fmt: skip


def _content(line: Line) -> tuple[object, ...]:
    return line[1:30]


def name_originals(lines: Iterable[Line]) -> list[Line]:
    """Give first-written lines their ids, where they have none: a hash of what each is about."""
    return [line if line.line_id else Line(digest("line", *_identity(line)), *line[1:]) for line in lines]


def reverse_line(line: Line, cause_id: str) -> Line:
    """The line that takes `line` back: every quantity negated, named by the cause and the line."""
    return line._replace(
        line_id=digest("reversal", cause_id, line.line_id),
        span_us=-line.span_us,
        device_us=-line.device_us,
        energy_uj=None if line.energy_uj is None else -line.energy_uj,
        idle_energy_uj=-line.idle_energy_uj,
        busy_us=-line.busy_us,
        sign=-1,
        entry=REVERSAL,
        of_line_id=line.line_id,
        cause_id=cause_id,
    )


def _step(standing: list[Line], after: list[Line], cause_id: str, written: Written) -> list[Line]:
    keep = {_content(line): line for line in standing}
    wanted = {_content(line) for line in after}
    for line in standing:
        if _content(line) not in wanted:
            written.lines.append(reverse_line(line, cause_id))
    result: list[Line] = []
    for line in after:
        kept = keep.get(_content(line))
        if kept is None:
            name = digest("correction", cause_id, *_identity(line))
            kept = line._replace(line_id=name, entry=CORRECTION, cause_id=cause_id)
            written.lines.append(kept)
        result.append(kept)
    return result


def _total_step(
    standing: list[DeviceTotal], after: list[DeviceTotal], cause_id: str, written: Written
) -> list[DeviceTotal]:
    """The same for totals; only quarter-hours' can change (a batch is what it is)."""
    keep = {total[1:12]: total for total in standing}
    wanted = {total[1:12] for total in after}
    for total in standing:
        if total[1:12] not in wanted:
            written.totals.append(
                total._replace(
                    total_id=digest("reversal", cause_id, total.total_id),
                    in_service_us=-total.in_service_us,
                    energy_uj=-total.energy_uj,
                    measured_us=-total.measured_us,
                    unknown_us=-total.unknown_us,
                    sign=-1,
                    entry=REVERSAL,
                    of_total_id=total.total_id,
                    cause_id=cause_id,
                )
            )
    result = []
    for total in after:
        kept = keep.get(total[1:12])
        if kept is None:
            name = digest("correction", cause_id, total.total_id)
            kept = total._replace(total_id=name, entry=CORRECTION, cause_id=cause_id)
            written.totals.append(kept)
        result.append(kept)
    return result


def write_chain(
    cut: Callable[[View], Cut], cutoff_us: int, late: Iterable[Entry], only: Entry | None = None
) -> Written:
    """Everything that a batch or quarter-hour writes: the cut known before the cutoff, then a step for each late
    entry in order. With `only`, just that entry's step (the ones before it were written when they came)."""
    written = Written()
    first = cut(View(cutoff_us))
    lines = name_originals(first.lines)
    totals = first.totals
    if only is None:
        written.lines += lines
        written.totals += totals
        written.discrepancies += first.discrepancies
    for entry in late:
        step = Written()
        after = cut(View(cutoff_us, entry.index))
        cause_id = entry.revision.revision_id
        lines = _step(lines, after.lines, cause_id, step)
        totals = _total_step(totals, after.totals, cause_id, step)
        if only is None or only.index == entry.index:
            written.lines += step.lines
            written.totals += step.totals
            written.discrepancies += after.discrepancies
        if only is not None and only.index == entry.index:
            break
    return written
