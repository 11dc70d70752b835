"""What was decided about a table: where its header is, what its columns mean, how it writes numbers and dates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from wattledger_audit.intake.billing_columns import is_billing_header
from wattledger_audit.intake.billing_sheet import BillingSheet, survey_sheet
from wattledger_audit.intake.date_form import DateForm, DateProof
from wattledger_audit.intake.fleet_inventory import is_inventory_header
from wattledger_audit.intake.fleet_reservations import is_reservation_header
from wattledger_audit.intake.importer import Importer
from wattledger_audit.intake.number_form import NumberForm, NumberProof
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.row import Table
from wattledger_audit.intake.source import Source
from wattledger_audit.intake.table import open_table
from wattledger_audit.intake.usage_columns import TIMES, is_usage_header, usage_columns

_USAGE_TABLE, _BILLING_TABLE = "canonical usage table", "billing table"
_HEADERS: Mapping[str, Callable[[Sequence[str]], bool]] = {
    _USAGE_TABLE: is_usage_header,
    _BILLING_TABLE: is_billing_header,
    "node inventory": is_inventory_header,
    "reservations": is_reservation_header,
}
_ORDERS = {"dmy": "day first", "mdy": "month first", "ymd": "year first"}


@dataclass(slots=True)
class TableDecided:
    """`columns`: header → meaning, empty for one that is not used. `decided`: what → words. Line 0: no header."""

    how: str
    header_line: int
    header: list[str]
    columns: dict[str, str] = field(default_factory=dict)
    decided: dict[str, str] = field(default_factory=dict)
    rows: int = 0


def decide_table(
    source: Source, importer: Importer, likely: Sequence[str], options: ReadOptions
) -> TableDecided | None:
    """What the importer sees of a table; `likely` is the header where the importer has no rule of its own for one.

    None where the file is no table. Raises `InputRefused` like the importer: for a form that nothing settles."""
    is_header = _HEADERS.get(importer.name)
    try:
        table = open_table(source, options, is_header or (lambda cells: list(cells) == list(likely)))
    except InputRefused:
        if is_header is None:
            return None
        raise
    decided = TableDecided(table.how, table.header_line, table.headers)
    if importer.name == _USAGE_TABLE:
        _decide_usage(source, table, options, decided)
    else:
        decided.rows = sum(1 for _ in table.rows)
        if importer.name == _BILLING_TABLE:
            _decide_billing(survey_sheet(source, options), decided)
    return decided


def _decide_usage(source: Source, table: Table, options: ReadOptions, decided: TableDecided) -> None:
    columns = usage_columns(table.headers)
    meanings = {place: meaning for meaning, place in columns.at.items() if place < columns.width}
    decided.columns = {title: meanings.get(place, "") for place, title in enumerate(table.headers)}
    dates, numbers = DateProof(), NumberProof()
    times = [(columns.at[m], columns.title[m]) for m in TIMES if columns.has(m)]
    counts = [(columns.at[m], columns.title[m]) for m in ("gpus", "tokens") if columns.has(m)]
    for line, cells in table.rows:
        decided.rows += 1
        for places, proof in ((times, dates), (counts, numbers)):
            for place, title in places:
                if place < len(cells) and cells[place]:
                    proof.add(line, title, cells[place])
    decided.decided["numbers"] = numbers_told(numbers.decide(source.name, options))
    decided.decided["dates"] = dates_told(dates.decide(source.name, options))


def _decide_billing(sheet: BillingSheet, decided: TableDecided) -> None:
    meanings = {column.place: meaning for meaning, column in sheet.columns.at.items()}
    decided.columns = {title: meanings.get(place, "") for place, title in enumerate(decided.header)}
    told = decided.decided
    told["numbers"] = numbers_told(sheet.numbers)
    told["dates"] = dates_told(sheet.periods.dates)
    ends = {True: "its last day is in it", False: "it is the first day after", None: "no period ends with a date alone"}
    told["period ends"] = ends[sheet.periods.inclusive]
    told["currency"] = sheet.currency or "each amount names its own"
    if sheet.carry.columns:
        told["blank cells"] = f"continue the row above in {', '.join(sorted(sheet.carry.columns))}"


def numbers_told(form: NumberForm) -> str:
    """How a file writes numbers."""
    marks = {".": "decimal point", ",": "decimal comma"}
    return marks[form.decimal] if form.decimal else "no number needed a decimal mark"


def dates_told(form: DateForm) -> str:
    """How a file writes dates, and which zone times without one are in."""
    parts = [f"{_ORDERS[order]} where {separator!r} separates" for separator, order in sorted(form.orders.items())]
    parts.append("no zone is needed" if form.zone is None else f"times without an offset are in {form.zone.key}")
    return "; ".join(parts)
