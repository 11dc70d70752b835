"""Billing as WattLedger defines it, and as people export it from a spreadsheet: one reader, columns by their words.

Canonical: `invoice_id,tenant,period_start,period_end,sku,quantity,unit,amount,currency`. The file is read twice: the
first reading decides how it writes things, the second makes the lines; nothing that is not used goes unlisted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from wattledger_audit.intake.billing_carry import Carry
from wattledger_audit.intake.billing_category import says_credit
from wattledger_audit.intake.billing_columns import CANONICAL, find_billing_columns, is_billing_header
from wattledger_audit.intake.billing_gpu import gpu_of
from wattledger_audit.intake.billing_period import PeriodCells
from wattledger_audit.intake.billing_sheet import (
    LABELS,
    BillingSheet,
    blocks,
    is_repeated_header,
    open_sheet_table,
    period_cells,
    survey_sheet,
)
from wattledger_audit.intake.billing_sheet_row import SheetRow
from wattledger_audit.intake.billing_totals import RunningTotals
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BILLING, BillingLine, Record
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import TEXT, XLSX, Source
from wattledger_audit.intake.table import head_rows, normal_header

_NOT_FINAL = frozenset({
    "draft", "void", "voided", "cancelled", "canceled", "deleted", "failed", "proforma", "pro_forma", "quote",
    "entwurf", "storniert", "angebot",
})  # fmt: skip
_FINAL = frozenset({"final", "finalized", "issued", "open", "paid", "posted", "sent", "bezahlt", "offen", "gebucht"})
_JOB_WORDS = frozenset({"job_id", "jobid", "job", "jobidraw", "gpus", "attempt"})
_MOST_SPANS = 100_000


@dataclass(slots=True)
class _Lines:
    """Second reading: rows to lines, with what is carried and summed on the way."""

    source: Source
    sheet: BillingSheet
    rejections: Rejections
    carry: Carry
    totals: RunningTotals = field(default_factory=RunningTotals)
    early_totals: list[tuple[SheetRow, str, Decimal, str]] = field(default_factory=list)
    spans_us: dict[PeriodCells, tuple[int, int]] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def line(self, row: SheetRow, after_blank: bool) -> BillingLine | None:
        """The row's billing line; None where it is refused or a total, which the rejections then list."""
        if after_blank:
            self.carry.end_block()
            self.totals.end_block()
        amount: Decimal | None = None
        currency, summed = "", False
        try:
            amount = row.amount()
            currency = row.currency(row.texts["currency"])
            label = self.total_label(row, amount, currency)
            if label is not None:
                self.total(row, label, amount, currency)
                return None
            filled = self.carry.fill(row.texts)
            if amount is None:
                value = " | ".join(cell for cell in row.cells if cell)
                raise RowRefused(row.amount_column, value, self.no_amount(row))
            currency = row.currency(filled["currency"])
            is_tax = row.category(amount) == "tax" or row.is_tax(amount)
            self.totals.add(amount, currency, (filled["tenant"], filled["invoice_id"]), is_tax)
            summed = True
            return self.made(row, filled, amount, currency)
        except RowRefused as refused:
            if amount is not None and not summed:
                self.totals.add(amount, currency or self.sheet.currency, (), row.is_tax(amount))
            self.reject(row, refused, amount, currency)
            return None

    def reject(self, row: SheetRow, refused: RowRefused, amount: Decimal | None, currency: str) -> None:
        self.rejections.add(self.source.name, row.line, refused.column, refused.value, refused.reason, amount, currency)

    def no_amount(self, row: SheetRow) -> str:
        """Why a row has no amount: it is cut, a formula was never computed, or nothing was billed."""
        if self.source.kind == TEXT and row.is_cut():
            return (
                f"cut_row: {len(row.cells)} cells where the header has {self.sheet.columns.width}, none of them the "
                "amount: was the export cut?"
            )
        said = "no_amount: the row has no amount: nothing was billed by it"
        if self.source.kind != XLSX:
            return said
        return f"{said} (a formula never computed is empty too: open the workbook in a spreadsheet and save it)"

    def total_label(self, row: SheetRow, amount: Decimal | None, currency: str) -> str | None:
        """The word by which the row says that it is a total; empty where only its sum says so; None: it is no total."""
        texts = row.texts
        if self.totals.may_have_label(row.cells):
            names = {column.place: name for name, column in self.sheet.columns.at.items()}
            for place, cell in enumerate(row.cells):
                name = names.get(place, "")
                if (name and name not in LABELS) or not self.totals.is_label(cell):
                    continue
                if name == "category" or not row.is_full(name) or self._sums_its_rows(row, cell, amount, currency):
                    return cell
        if amount is not None and not any(texts[name] for name in ("sku", "description", "tenant", "quantity")):
            return "" if self.totals.is_sum(amount, currency) else None
        return None

    def _sums_its_rows(self, row: SheetRow, label: str, amount: Decimal | None, currency: str) -> bool:
        names = (row.texts["invoice_id"], row.texts["tenant"])
        return self.totals.is_bare_label(label) or (amount is not None and self.totals.is_sum(amount, currency, names))

    def total(self, row: SheetRow, label: str, amount: Decimal | None, currency: str) -> None:
        if amount is not None and self.totals.empty:
            self.early_totals.append((row, label, amount, currency))
        else:
            self._reject_total(row, label, amount, currency)
        self.carry.end_block()
        self.totals.end_group()

    def _reject_total(self, row: SheetRow, label: str, amount: Decimal | None, currency: str) -> None:
        reason = self.totals.verdict(label, (row.texts["tenant"], row.texts["invoice_id"]), amount, currency)
        self.reject(row, RowRefused(row.amount_column, label or str(amount), reason), amount, currency)

    def finish(self) -> None:
        """Totals that stood above all rows are checked once the rows are known."""
        for row, label, amount, currency in self.early_totals:
            self._reject_total(row, label, amount, currency)

    def made(self, row: SheetRow, filled: Mapping[str, str], amount: Decimal, currency: str) -> BillingLine:
        """Raises RowRefused, and InputRefused where nothing at all names the currency."""
        texts, category = row.texts, row.category(amount)
        tenant = self.sheet.names.of(filled["tenant"], filled["tenant_id"])
        if (not tenant or not row.names_what_for()) and row.is_tax(amount):
            reason = "tax_row: it is tax on the rows above; revenue is counted net of it"
            raise row.refused("tenant", reason, str(amount))
        if not tenant or not row.names_what_for():
            reason = "no_tenant: nothing says who this amount is for, or it is a total: fill the cell or take it out"
            raise row.refused("tenant", reason, str(amount))
        self.check_currency(row, amount, currency)
        self.check_sign(row, amount)
        status = normal_header(texts["status"])
        if status in _NOT_FINAL:
            raise row.refused("status", "not_final: an invoice of this status is no revenue")
        if row.price_not_set():
            plain = category if category != "adjustment" else row.category(abs(amount))
            if plain == "usage":
                raise row.refused("unit_price", "price_not_set: a unit price of -1 means that no price was set")
        start_us, end_us = self.span_us(period_cells(filled))
        quantity, unit = row.quantity()
        invoice, sku, description, plan = filled["invoice_id"], texts["sku"], texts["description"], texts["plan"]
        self.check_duplicate(row, (invoice, tenant, sku, start_us, end_us, quantity, amount))
        return BillingLine(
            row.line,
            invoice,
            tenant,
            sku or description,
            description,
            plan,
            start_us,
            end_us,
            quantity,
            unit,
            amount,
            currency,
            category,
            invoice or f"{tenant}/{start_us}/{end_us}",
            int(status in _FINAL),
            False if category == "non_gpu" else gpu_of(sku, description, plan, unit=unit),
        )

    def span_us(self, cells: PeriodCells) -> tuple[int, int]:
        span = self.spans_us.get(cells)
        if span is None:
            span = self.sheet.periods.span_us(cells)
            if len(self.spans_us) < _MOST_SPANS:
                self.spans_us[cells] = span
        return span

    def check_currency(self, row: SheetRow, amount: Decimal, currency: str) -> None:
        if currency:
            return
        if self.sheet.columns.has("currency"):
            raise row.refused("currency", "no_currency: fill the cell, or say --currency", str(amount))
        raise InputRefused(
            f"{self.source.name}, line {row.line}: the amount {amount} names no currency, and no column does: say "
            "--currency, such as --currency EUR"
        )

    def check_sign(self, row: SheetRow, amount: Decimal) -> None:
        """A credit adds to nothing: one above 0 is only meant where others of the file are below."""
        texts = row.texts
        if amount <= 0 or self.sheet.signed_credits:
            return
        if says_credit(texts["sku"], texts["description"], named=texts["category"]):
            reason = f"credit_sign: a credit is below 0: write -{amount:f}, or another type if it is none"
            raise RowRefused(row.amount_column, f"{amount:f}", reason)

    def check_duplicate(self, row: SheetRow, content: tuple[object, ...]) -> None:
        """The same line twice is only proven by an id of its own: two equal charges can both be meant."""
        if not row.texts["line_id"]:
            return
        key = hash((row.texts["line_id"], *content))
        if key in self.seen:
            raise row.refused("line_id", "duplicate_line: the same id with the same content came before in this file")
        self.seen.add(key)


def detect(source: Source) -> Detection | None:
    for cells in head_rows(source):
        names = {normal_header(cell) for cell in cells}
        if names.issuperset(CANONICAL):
            return Detection(90, "it has all columns of a canonical billing file")
        if is_billing_header(cells):
            return _sheet_detection(cells, names)
    return None


def _sheet_detection(cells: list[str], names: set[str]) -> Detection:
    columns = find_billing_columns(cells)
    known = ", ".join(columns.title(name) for name in ("invoice_id", "tenant", "amount", "gross") if columns.has(name))
    extra = sum(columns.has(name) for name in ("invoice_id", "currency", "quantity", "sku", "start", "period", "tax"))
    score = 15 if names & _JOB_WORDS else 35 + 6 * extra
    return Detection(score, f"it is a table with columns of invoices ({known})")


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """Lines in file order. Raises InputRefused where the file proves no form and no flag says it."""
    sheet = survey_sheet(source, options)
    table, columns = open_sheet_table(source, options)
    lines = _Lines(source, sheet, rejections, Carry(sheet.carry))
    for row, after_blank in blocks(source, table):
        if is_repeated_header(table, row.cells):
            rejections.add(source.name, row.line, "", row.cells[0], "repeated_header: the header once more")
            continue
        if len(row.cells) > columns.width and any(row.cells[columns.width :]):
            reason = (
                f"too_many_cells: {len(row.cells)} cells where the header has {columns.width}: put quotes round a cell "
                "that has a delimiter in it"
            )
            rejections.add(source.name, row.line, "", " | ".join(row.cells), reason)
            continue
        made = lines.line(SheetRow(row, sheet, options.currency), after_blank)
        if made is not None:
            yield made
    lines.finish()


IMPORTERS = (Importer("billing table", BILLING, detect, read),)
