"""What a file is taken for and why, how it is read, what its first rows are understood as; or what it would need."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from wattledger_streams.tariff_file_text import PriceSheetError

from wattledger_audit.assessment.cost_file_tree import SECTIONS, read_cost_tree
from wattledger_audit.column_guess import known_cells
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import COSTS, ROLES, Record
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.registry import IMPORTERS, take
from wattledger_audit.intake.source import Source, open_source
from wattledger_audit.intake.table import head_rows
from wattledger_audit.mapping_draft import MappingDraft, draft_mappings, guess_header
from wattledger_audit.record_shown import shown_record
from wattledger_audit.rejection_examples import RejectionExamples
from wattledger_audit.table_decided import TableDecided, decide_table

READ, REFUSED, UNTAKEN, COST_FILE, BAD_COST_FILE = "read", "refused", "nothing takes it", "cost file", "bad cost file"
_TEXT_LINES, _CELL = 8, 200


@dataclass(frozen=True, slots=True)
class Candidate:
    """A format that a file could be: how sure (1 to 100) and why."""

    format: str
    role: str
    score: int
    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Lines not used for one reason: how many, and the first of them."""

    code: str
    count: int
    line: int
    column: str
    value: str
    words: str


@dataclass(slots=True)
class Inspected:
    """One file. `status`: read, refused (`message` says what to do), nothing takes it, cost file, bad cost file.

    `first` are the first records as understood, each field in words. `cells` are the first rows as they stand, where
    the file was not read. `rows` is None where the file is no table."""

    name: str
    path: Path
    status: str
    message: str = ""
    kind: str = ""
    encoding: str = ""
    taken: Candidate | None = None
    others: list[Candidate] = field(default_factory=list)
    table: TableDecided | None = None
    first: list[dict[str, str]] = field(default_factory=list)
    records: int = 0
    rejected: list[Refused] = field(default_factory=list)
    sections: dict[str, str] = field(default_factory=dict)
    cells: list[list[str]] = field(default_factory=list)
    drafts: list[MappingDraft] = field(default_factory=list)

    @property
    def rows(self) -> int | None:
        return None if self.table is None else self.table.rows


def inspect_file(path: Path, role: str | None, options: ReadOptions, rows: int) -> Inspected:
    """Look at one file, all of it; `role` narrows what it may be. Never raises for what is in the file."""
    try:
        source = open_source(path, options.encoding)
    except InputRefused as error:
        return Inspected(path.name, path, REFUSED, str(error))
    found = Inspected(source.name, path, READ, kind=source.kind, encoding=source.encoding)
    ranked = _ranked(source, role)
    found.others = [Candidate(one.name, one.role, it.score, it.why) for it, one in ranked]
    if not ranked:
        _show_untaken(source, role, rows, found)
        return found
    try:
        importer = take(path, role, options.encoding).importer
    except InputRefused as error:
        found.status, found.message, found.cells = REFUSED, str(error), _cells(source, rows)
        return found
    found.taken = next(one for one in found.others if one.format == importer.name)
    found.others.remove(found.taken)
    if importer.role == COSTS:
        _look_at_costs(path, found)
    else:
        _read(source, importer, options, rows, found)
    return found


def _ranked(source: Source, role: str | None) -> list[tuple[Detection, Importer]]:
    """What could be it, the surest first."""
    looked = [(importer.detect(source), importer) for importer in IMPORTERS if role in (None, importer.role)]
    return sorted(((it, one) for it, one in looked if it is not None), key=lambda pair: -pair[0].score)


def _read(source: Source, importer: Importer, options: ReadOptions, rows: int, found: Inspected) -> None:
    rejections = RejectionExamples()
    try:
        found.table = decide_table(source, importer, _likely_header(source), options)
        records: Iterator[Record] = importer.read(source, options, rejections)
        for record in islice(records, rows):
            found.records += 1
            found.first.append(shown_record(record, options.timezone))
        found.records += sum(1 for _ in records)
    except InputRefused as error:
        found.status, found.message, found.cells = REFUSED, str(error), _cells(source, rows)
    for (_, code), one in rejections.first.items():
        count = rejections.counts[one.file, code]
        words = one.reason.partition(":")[2].strip()
        found.rejected.append(Refused(code, count, one.line, one.column, one.value, words))


def _likely_header(source: Source) -> Sequence[str]:
    """The widest of the first rows that is all words: what an importer without a rule of its own goes by."""
    rows = [cells for cells in head_rows(source) if len(cells) > 1 and all(not cell[:1].isdigit() for cell in cells)]
    return max(rows, key=lambda cells: (sum(map(bool, cells)), known_cells(cells)), default=[])


def _show_untaken(source: Source, role: str | None, rows: int, found: Inspected) -> None:
    wanted = f"as {role}" if role else f"as {', '.join(ROLES)}"
    found.status = UNTAKEN
    found.message = f"no format that is known {wanted} has its columns"
    found.cells = _cells(source, rows)
    header = guess_header(head_rows(source), source.head)
    if header is not None:
        found.drafts = [draft for draft in draft_mappings(header) if role in (None, draft.role)]


def _cells(source: Source, rows: int) -> list[list[str]]:
    """The first rows as cells; a text that is no table as lines."""
    cells = [[cell[:_CELL] for cell in row] for row in head_rows(source, rows + 1)]
    if any(len(row) > 1 for row in cells):
        return cells
    return [[line[:_CELL]] for line in source.head.splitlines()[:_TEXT_LINES]]


def _look_at_costs(path: Path, found: Inspected) -> None:
    """Whether a cost file is right, and how much is in each of its sections."""
    found.status = COST_FILE
    try:
        _, form = read_cost_tree(path)
    except PriceSheetError as error:
        found.status, found.message = BAD_COST_FILE, str(error)
        return
    found.sections = {
        "currency": form.currency,
        "timezone": form.timezone or "not said",
        "fleet_file": form.fleet_file or "",
    }
    found.sections |= {name: f"{len(getattr(form, name))} entries" for name in SECTIONS if getattr(form, name)}
    found.sections = {name: words for name, words in found.sections.items() if words}
