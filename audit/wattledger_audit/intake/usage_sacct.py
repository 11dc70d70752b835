"""`sacct -P` and `sacct -p` dumps as usage runs. Owns recognising them and the passes over the file."""

from collections.abc import Iterator
from itertools import islice

from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import USAGE, Record, UsageRun
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.sacct_columns import RESOURCE_FIELDS, picker_of
from wattledger_audit.intake.sacct_layout import Layout, find_layout, without_comments
from wattledger_audit.intake.sacct_records import SacctRecords
from wattledger_audit.intake.sacct_rows import SacctRows
from wattledger_audit.intake.sacct_sniff import is_fixed_width, looks_headerless, sacct_failure
from wattledger_audit.intake.slurm_run import RowRejected
from wattledger_audit.intake.slurm_tres import parse_gres, parse_tres
from wattledger_audit.intake.source import TEXT, Source, text_lines

HEAD_LINES = 400
_TIME_FIELDS = ("start", "end", "submit", "elapsed", "elapsedraw", "state")


def detect(source: Source) -> Detection | None:
    """A header of sacct's names; a known layout that the cells prove; or what looks like a dump that needs a flag."""
    if source.kind != TEXT:
        return None
    lines = source.head.split("\n")
    lines = lines[:-1] if len(lines) > 1 else lines
    found = find_layout(lines[:HEAD_LINES], None, None)
    if found is not None:
        layout, header = found
        if header >= 0 and not any(field in layout.fields for field in _TIME_FIELDS):
            return None
        if header >= 0:
            names = ", ".join(lines[header].lstrip("\ufeff# ").split(layout.delimiter)[:4])
            return Detection(97, f"a header of sacct's columns ({names}, …) split at {layout.delimiter!r}")
        return Detection(85, f"rows that fit sacct's columns {', '.join(layout.fields[:3])}, … one by one, no header")
    records = without_comments(lines)
    if is_fixed_width(lines):
        return Detection(80, "sacct's fixed-width output, which cuts values")
    if not records and (failure := sacct_failure(lines)):
        return Detection(60, f"nothing but sacct's error: {failure}")
    if looks_headerless(records):
        return Detection(40, "job ids and state words split at |, no header: looks like sacct -n, needs --fields")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """Every job row as a run (or one per GPU type, or per waiting array task), in file order."""
    layout, header_line = _layout(source, options)
    picker = picker_of(layout, source.name)
    rows = SacctRows(source.name, options, _tracked(source, layout, options))
    records = SacctRecords(text_lines(source), layout, header_line, source.name, rejections)
    seen: set[int] = set()
    for record in records:
        if records.layout is not layout:
            layout = records.layout
            picker = picker_of(layout, source.name)
        try:
            runs = rows.runs(record, picker)
        except RowRejected as error:
            rejections.add(source.name, record.line, error.column, error.value, error.reason)
            continue
        mark = hash(record.text)
        if mark in seen:
            reason = "duplicate_row: the same line stands earlier in the file; it counts once"
            rejections.add(source.name, record.line, "JobID", runs[0].job, reason)
            continue
        seen.add(mark)
        yield from runs


def usage_runs(source: Source, options: ReadOptions, rejections: Rejections) -> list[UsageRun]:
    """All runs of a dump as a list, for looking at a file that fits in memory."""
    return [record for record in read(source, options, rejections) if isinstance(record, UsageRun)]


def _layout(source: Source, options: ReadOptions) -> tuple[Layout, int]:
    """The layout and the line of its header (0: none), or a refusal that says which flag settles it."""
    head = list(islice(text_lines(source), HEAD_LINES))
    found = find_layout(head, options.fields, options.delimiter)
    if found is not None:
        return found[0], found[1] + 1
    name = source.name
    if failure := sacct_failure(head):
        raise InputRefused(f"{name}: sacct itself failed, {failure!r}: correct the sacct command and export again")
    if is_fixed_width(head):
        raise InputRefused(f"{name}: fixed-width sacct output cuts values: export again with sacct -P")
    records = without_comments(head)
    first = records[0][:200] if records else ""
    if options.fields:
        raise InputRefused(
            f"{name}: no row has the {len(options.fields)} columns of --fields; the first one is {first!r}: "
            "give --fields as sacct's -o had them, and --delimiter if it is not |"
        )
    raise InputRefused(
        f"{name}: a sacct dump without a header whose columns do not prove themselves; its first row is {first!r}: "
        "say --fields with the names that sacct's -o had, in order (State,JobID,Start,…), or export without -n"
    )


def _tracked(source: Source, layout: Layout, options: ReadOptions) -> frozenset[str]:
    """The clusters of which some row names GPUs, be it none: there, a row that names none has none.

    One cluster ends the look at the first such row; a dump of several is looked through."""
    columns = [(layout.fields.index(name), name) for name in RESOURCE_FIELDS if name in layout.fields]
    if not columns:
        return frozenset()
    several = layout.fields.index("cluster") if "cluster" in layout.fields else None
    fallback = options.cluster or ""
    found: set[str] = set()
    last: list[str] = []  # the cluster found last: most rows are of the same
    for text in text_lines(source):
        if "gpu" not in text:
            continue
        if several is not None and text.split(layout.delimiter, several + 1)[several : several + 1] == last:
            continue
        parts = layout.split(text)
        if len(parts) < layout.width:
            continue
        cluster = fallback if several is None else parts[several] or fallback
        if cluster in found:
            continue
        if any(_names_gpus(name, parts[at]) for at, name in columns):
            found.add(cluster)
            last = parts[several : several + 1] if several is not None else []
            if several is None:
                break
    return frozenset(found)


def _names_gpus(field: str, text: str) -> bool:
    return (parse_tres(text) if field.endswith("tres") else parse_gres(text)).names_gpus


IMPORTERS: tuple[Importer, ...] = (Importer("sacct", USAGE, detect, read),)
