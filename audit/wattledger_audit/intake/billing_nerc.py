"""Monthly invoices of research clouds in service units (NERC, MGHPCC): one row a project and SU type.

A credit column takes off the cost, as a line of its own. The rate history of such a cloud is no billing.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from zoneinfo import ZoneInfo

from wattledger_audit.intake import local_time
from wattledger_audit.intake.billing_category import category_of
from wattledger_audit.intake.billing_cloud import Columns, Money, detect_header, open_columns, read_number, read_rows
from wattledger_audit.intake.billing_fixed import refuse_shortened_id
from wattledger_audit.intake.billing_gpu import gpu_of
from wattledger_audit.intake.currency import currency_beside, currency_code
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BILLING, BillingLine, Record
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.row import Row
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import Source

NEEDED = frozenset({"invoice_month", "su_type", "cost"})
_MONTH = re.compile(r"(\d{4})[-/]?(\d{2})(?:-\d{2})?")
_MARKS = str.maketrans("", "", "$,€£ ")


class _Layout:
    def __init__(self, columns: Columns, source: Source, options: ReadOptions) -> None:
        cell = columns.cell
        self.source, self.zone = source, options.timezone or options.days_in or ZoneInfo("UTC")
        self.asked = options.currency
        hours = [name for name in columns.names if name.startswith("su_hours")]
        self.month, self.cost, self.credit = cell("invoice_month"), cell("cost"), cell("credit")
        self.currency = cell("currency")
        self.project = cell("project", "project_allocation", "project_name")
        self.project_id = cell("project_id", "project_allocation_id")
        self.cluster = cell("cluster_name")
        self.kind, self.hours, self.rate = cell("su_type"), cell(*hours), cell("rate")
        self.invoice, self.credit_code = cell("invoice_number", "invoice_id"), cell("credit_code")

    def money(self, cells: Sequence[str]) -> Money:
        text = self.cost(cells)
        amount = read_number(text.translate(_MARKS), "Cost", "bad_amount")
        if amount is None:
            raise RowRefused("Cost", text, "no_amount: the row has no cost")
        currency = currency_code(self.currency(cells)) or currency_beside(text, self.asked) or self.asked
        if not currency:
            raise InputRefused(
                f"{self.source.name}: its costs name no currency: say --currency, such as --currency USD"
            )
        return Money(amount, currency)

    def lines(self, row: Row, money: Money) -> list[BillingLine]:
        cells = row.cells
        refuse_shortened_id(self.source.name, row.line, "Project ID", self.project_id(cells))
        start_us, end_us = self._period(cells)
        tenant, kind = self.project(cells) or self.project_id(cells), self.kind(cells)
        if not tenant:
            raise RowRefused("Project", "", "no_tenant: the row names no project")
        if self.rate(cells).translate(_MARKS) in ("-1", "-1.0", "-1.00"):
            raise RowRefused("Rate", self.rate(cells), "price_not_set: a rate of -1 means that no price was set")
        platform = self.cluster(cells) or kind.partition(" ")[0]
        charge = BillingLine(
            row.line,
            self.invoice(cells),
            tenant,
            kind,
            kind,
            "",
            start_us,
            end_us,
            read_number(self.hours(cells).translate(_MARKS), "SU Hours"),
            "SU hours",
            money.amount,
            money.currency,
            category_of(money.amount, kind, named="usage"),
            f"su/{platform}/{self.month(cells)}/{self.project_id(cells) or tenant}",
            0,
            gpu_of(kind),
        )
        credit = read_number(self.credit(cells).translate(_MARKS), "Credit")
        return [charge, _credited(charge, credit, self.credit_code(cells))] if credit else [charge]

    def _period(self, cells: Sequence[str]) -> tuple[int, int]:
        text = self.month(cells)
        found = _MONTH.fullmatch(text)
        try:
            first = date(int(found[1]), int(found[2]), 1) if found else None
        except ValueError:
            first = None
        if first is None:
            raise RowRefused("Invoice Month", text, "no_period: no month such as 2026-10")
        after = date(first.year + first.month // 12, first.month % 12 + 1, 1)
        return local_time.day_start_us(first, self.zone), local_time.day_start_us(after, self.zone)


def _credited(charge: BillingLine, credit: Decimal, code: str) -> BillingLine:
    amount = -abs(credit)
    words = f"credit {code}".strip()
    category = category_of(amount, words, named="credit")
    return charge._replace(description=words, quantity=None, unit="", amount=amount, category=category)


def detect(source: Source) -> Detection | None:
    return detect_header(source, NEEDED, 93, "it has columns of a service unit invoice (Invoice Month, SU Type, Cost)")


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """One reading. Raises InputRefused where nothing names the currency."""
    table, columns = open_columns(source, options, NEEDED)
    return read_rows(source, table, _Layout(columns, source, options), rejections)


IMPORTERS = (Importer("service unit invoice", BILLING, detect, read),)
