"""First reading of a billing sheet: how it writes numbers, dates, periods, currencies, blanks; or why it is refused."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from wattledger_audit.intake.billing_carry import CarryProof, CarryRule
from wattledger_audit.intake.billing_category import says_credit
from wattledger_audit.intake.billing_cloud import TenantNames
from wattledger_audit.intake.billing_columns import BillingColumns, find_billing_columns, is_billing_header
from wattledger_audit.intake.billing_fixed import refuse_shortened_id
from wattledger_audit.intake.billing_header import refuse_sides, with_second_row
from wattledger_audit.intake.billing_period import PeriodCells, PeriodForm, PeriodProof
from wattledger_audit.intake.billing_sheet_format import format_currency
from wattledger_audit.intake.billing_totals import RunningTotals
from wattledger_audit.intake.currency import currency_beside, currency_code
from wattledger_audit.intake.number_form import NumberForm, NumberProof, is_below_zero
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.row import Exact, Row, Table
from wattledger_audit.intake.source import TEXT, Source
from wattledger_audit.intake.table import head_rows, open_table

NUMBERS = ("amount", "gross", "tax", "quantity", "unit_price")
LABELS = ("invoice_id", "tenant", "project", "sku", "description", "plan", "category")
_IDS = ("invoice_id", "tenant", "tenant_id", "project", "line_id")
_PLAIN = re.compile(r"-?[\d.,]+", re.ASCII)
_WITH_UNIT = re.compile(r"([-+(]?\d[\d.,'’\s]*)([^\W\d_].*)")
_NAMED_CURRENCY = re.compile(
    r"(?:currency|währung|waehrung|amounts|beträge|angaben)\s*(?:are|is|in|:|=|-|sind)*\s*(?:in\s+)?"
    r"(?P<code>[a-z]{3}|[€$£])(?![a-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class BillingSheet:
    """What the first reading found out. `currency` is that of amounts that name none themselves, empty if unknown;
    `signed_credits`: some credit is below 0, so one above 0 is meant."""

    columns: BillingColumns
    numbers: NumberForm
    periods: PeriodForm
    carry: CarryRule
    names: TenantNames
    currency: str
    signed_credits: bool


@dataclass(slots=True)
class _Survey:
    columns: BillingColumns
    options: ReadOptions
    numbers: NumberProof = field(default_factory=NumberProof)
    periods: PeriodProof = field(default_factory=PeriodProof)
    names: TenantNames = field(default_factory=TenantNames)
    currencies: set[str] = field(default_factory=set)
    tenant: str = ""
    signed_credits: bool = False


def survey_sheet(source: Source, options: ReadOptions) -> BillingSheet:
    """Reads all rows once. Raises InputRefused where the file proves no form and no flag says it."""
    table, columns = open_sheet_table(source, options)
    _check_columns(source, columns)
    refuse_sides(source.name, table.headers)
    found, carry, labels = _Survey(columns, options), CarryProof(columns), RunningTotals()
    new_block = True
    for row, after_blank in blocks(source, table):
        if is_repeated_header(table, row.cells):
            continue
        texts = columns.texts(row.cells)
        if labels.may_have_label(row.cells) and any(labels.is_label(texts[name]) for name in LABELS):
            new_block = True
        elif texts["amount"] or texts["gross"] or carry.is_heading(texts):
            carry.add(texts, new_block or after_blank)
            new_block = False
        _survey_row(source, found, row.line, texts)
    titles = (columns.title("start" if columns.has("start") else "period"), columns.title("end"))
    currency = columns.currency or _title_currency(source, options)
    if not currency and len(found.currencies) == 1:
        currency = next(iter(found.currencies))
    if not currency and not found.currencies and not columns.has("currency"):
        currency = format_currency(source, options.currency)
    return BillingSheet(
        columns,
        found.numbers.decide(source.name, options),
        found.periods.decide(source.name, options, titles, columns.end_is_inclusive),
        carry.decide(),
        found.names,
        currency or options.currency or "",
        found.signed_credits,
    )


def _survey_row(source: Source, found: _Survey, line: int, texts: Mapping[str, str]) -> None:
    columns = found.columns
    for name in _IDS:
        text = texts[name]
        if "+" in text or type(text) is not str:
            refuse_shortened_id(source.name, line, columns.title(name), text)
    for name in NUMBERS:
        if cell := split_quantity(texts[name])[0] if name == "quantity" else texts[name]:
            found.numbers.add(line, columns.title(name), cell)
            if name != "quantity" and not _PLAIN.fullmatch(cell):
                found.currencies.add(currency_beside(cell, found.options.currency))
    found.currencies.discard("")
    if not found.signed_credits and is_below_zero(texts["amount"] or texts["gross"]):
        found.signed_credits = says_credit(texts["sku"], texts["description"], named=texts["category"])
    found.tenant = texts["tenant"] or found.tenant
    found.names.see(texts["tenant"], texts["tenant_id"])
    titles = (columns.title("start"), columns.title("end"))
    found.periods.add(line, titles, (found.tenant, texts["sku"]), period_cells(texts))


def split_quantity(text: str) -> tuple[str, str]:
    """A quantity's number and the unit written beside it; words alone ("flat") are no number and no unit."""
    if isinstance(text, Exact) or not text[-1:].isalpha():
        return text, ""
    found = _WITH_UNIT.fullmatch(text)
    if found:
        return found[1].strip(), found[2]
    return (text, "") if any(character.isdigit() for character in text) else ("", "")


def open_sheet_table(source: Source, options: ReadOptions) -> tuple[Table, BillingColumns]:
    """The table under its billing header. Raises InputRefused."""
    table = open_table(source, options, is_billing_header)
    first = next(table.rows, None)
    joined = None if first is None else with_second_row(table.headers, first.cells)
    if joined is not None:
        table.headers = joined
    elif first is not None:
        table.rows = chain((first,), table.rows)
    return table, find_billing_columns(table.headers)


def blocks(source: Source, table: Table) -> Iterator[tuple[Row, bool]]:
    """Rows, and whether a blank row stands above each (line numbers leave a gap that no line break in a cell fills)."""
    last: Row | None = None
    for row in table.rows:
        after_blank = False
        if last is not None and row.line > last.line + 1:
            breaks = sum(cell.count("\n") for cell in last.cells) if source.kind == TEXT else 0
            after_blank = row.line > last.line + 1 + breaks
        yield row, after_blank
        last = row


def is_repeated_header(table: Table, cells: Sequence[str]) -> bool:
    """A header that a page break has put between the rows."""
    if cells[0].casefold() != table.headers[0].casefold():
        return False
    return [cell.casefold() for cell in cells if cell] == [cell.casefold() for cell in table.headers if cell]


def period_cells(texts: Mapping[str, str]) -> PeriodCells:
    """A row's period out of its cells by meaning."""
    return PeriodCells(texts["start"], texts["end"], texts["period"], texts["day"])


def _check_columns(source: Source, columns: BillingColumns) -> None:
    if not (columns.has("period", "day") or (columns.has("start") and columns.has("end"))):
        raise InputRefused(
            f"{source.name}: no columns say when the service was: name them period_start and period_end, or month "
            "(an invoice date is not taken for it)"
        )
    if not columns.has("amount") and not columns.has("tax"):
        raise InputRefused(
            f"{source.name}: {columns.title('gross')!r} is an amount with tax and no column has the tax: add a column "
            "with the net amount or with the tax"
        )
    if not columns.has("tenant"):
        raise InputRefused(f"{source.name}: no column says who was billed: name one tenant (or customer, Kunde)")


def _title_currency(source: Source, options: ReadOptions) -> str:
    """The currency that a row above the header names (`All amounts in EUR`)."""
    for cells in head_rows(source):
        if is_billing_header(cells):
            break
        found = _NAMED_CURRENCY.search(" ".join(cells))
        if found:
            return currency_code(found["code"], options.currency)
    return ""
