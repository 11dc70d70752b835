"""Azure cost and usage exports, EA and MCA, old and new headers (CSV, Parquet): one row a day and meter.

Dates are day or month first by proof over all dates of the file, the billing period's among them.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from wattledger_core.units import US_PER_S

from wattledger_audit.intake.billing_category import category_of
from wattledger_audit.intake.billing_cloud import (
    Columns,
    CurrencyRefused,
    Money,
    TenantNames,
    has_columns,
    open_columns,
    read_rows,
)
from wattledger_audit.intake.billing_fixed import day_text, refuse_shortened_id
from wattledger_audit.intake.billing_gpu import gpu_of
from wattledger_audit.intake.billing_tags import TENANT_TAGS, tenant_tag
from wattledger_audit.intake.currency import currency_code
from wattledger_audit.intake.date_form import DateForm, DateProof, UnclearDate
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.number_form import NotANumber, NumberForm, NumberProof
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BILLING, BillingLine, Record
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.row import Row
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import Source
from wattledger_audit.intake.table import head_rows

NEEDED = frozenset({"meter_category", "meter_id", "quantity"})
_COST = ("cost_in_billing_currency", "pre_tax_cost", "pretax_cost", "extended_cost", "cost")
_DATE = ("date", "usage_date_time", "usage_date")
_CATEGORIES = {
    "usage": "usage", "purchase": "commitment", "refund": "refund", "tax": "tax", "adjustment": "adjustment",
    "unusedreservation": "commitment", "unusedsavingsplan": "commitment", "roundingadjustment": "adjustment",
    "credit": "credit",
}  # fmt: skip
_UTC = ZoneInfo("UTC")


class _Layout:
    def __init__(self, columns: Columns, source: Source, options: ReadOptions) -> None:
        cell = columns.cell
        self.source, self.options = source, options
        self.cost, self.quantity = cell(*_COST), cell("quantity")
        self.cost_column = next((name for name in _COST if columns.has(name)), "cost")
        self.currency = cell("billing_currency_code", "billing_currency", "currency_code", "currency")
        self.date = cell(*_DATE)
        self.billing_dates = (cell("billing_period_start_date"), cell("billing_period_end_date"))
        self.customer = cell("customer_name", "partner_customer_name")
        self.subscription_name = cell("subscription_name")
        self.subscription = cell("subscription_id", "subscription_guid")
        self.account = cell("billing_account_id", "subscription_id", "subscription_guid")
        self.invoice = cell("invoice_id")
        self.sku, self.product = cell("meter_id"), cell("product_name", "product", "meter_name")
        self.words = [
            cell(name) for name in ("meter_category", "meter_sub_category", "meter_subcategory", "meter_name")
        ]
        self.unit, self.plan = cell("unit_of_measure"), cell("pricing_model")
        self.kind = cell("charge_type")
        self.tags = cell("tags")
        self.tag = columns.tag(*TENANT_TAGS)
        self.names = TenantNames()
        self.numbers = NumberForm(".")
        self.dates = DateForm({}, _UTC)

    def survey(self, rows: Iterator[Row]) -> None:
        """First reading: how dates and numbers are written, which names are one subscription's alone."""
        numbers, dates, commas = NumberProof(), DateProof(), False
        for row in rows:
            refuse_shortened_id(self.source.name, row.line, "SubscriptionId", self.subscription(row.cells))
            self.names.see(self.subscription_name(row.cells), self.subscription(row.cells))
            for column, text in (("Date", self.date(row.cells)), *self._billing_period(row.cells)):
                if text:
                    dates.add(row.line, column, text)
            for column, text in ((self.cost_column, self.cost(row.cells)), ("Quantity", self.quantity(row.cells))):
                commas = commas or "," in text
                numbers.add(row.line, column, text)
        self.dates = dates.decide(self.source.name, self.options, _UTC)
        if commas or self.options.decimal:
            self.numbers = numbers.decide(self.source.name, self.options)

    def _billing_period(self, cells: Sequence[str]) -> Iterator[tuple[str, str]]:
        names = ("BillingPeriodStartDate", "BillingPeriodEndDate")
        return zip(names, (read(cells) for read in self.billing_dates), strict=True)

    def money(self, cells: Sequence[str]) -> Money:
        amount = self._number(self.cost(cells), self.cost_column)
        if amount is None:
            raise RowRefused(self.cost_column, "", "no_amount: the row has no cost")
        currency = currency_code(self.currency(cells))
        if not currency:
            raise CurrencyRefused("BillingCurrencyCode", amount)
        return Money(amount, currency)

    def _number(self, text: str, column: str) -> Decimal | None:
        try:
            return self.numbers.parse(text) if text else None
        except NotANumber as error:
            raise RowRefused(column, text, str(error)) from None

    def lines(self, row: Row, money: Money) -> list[BillingLine]:
        cells = row.cells
        start_us, end_us = self._day(cells)
        tenant = self._tenant(cells)
        if not tenant:
            raise RowRefused("SubscriptionId", "", "no_tenant: neither a customer nor a subscription is named")
        product, unit, kind = self.product(cells), self.unit(cells), self.kind(cells).casefold()
        words = [product, *(word(cells) for word in self.words)]
        return [
            BillingLine(
                row.line,
                self.invoice(cells),
                tenant,
                self.sku(cells),
                product,
                self.plan(cells),
                start_us,
                end_us,
                self._number(self.quantity(cells), "Quantity"),
                unit,
                money.amount,
                money.currency,
                category_of(money.amount, product, named=_CATEGORIES.get(kind, kind or "usage")),
                f"azure/{self.account(cells)}/{day_text(start_us)}",
                int(bool(self.invoice(cells))),
                gpu_of(*words, unit=unit),
            )
        ]

    def _tenant(self, cells: Sequence[str]) -> str:
        named = self.tag(cells) or tenant_tag(self.tags(cells)) or self.customer(cells)
        return named or self.names.of(self.subscription_name(cells), self.subscription(cells))

    def _day(self, cells: Sequence[str]) -> tuple[int, int]:
        text = self.date(cells)
        if not text:
            raise RowRefused("Date", "", "no_period: the row does not say when its service was")
        try:
            day = self.dates.parse_day(text)
            if day is not None:
                return self.dates.day_start_us(day), self.dates.day_start_us(day + timedelta(days=1))
            start_us = self.dates.parse(text)
        except UnclearDate as error:
            raise RowRefused("Date", text, str(error)) from None
        return start_us, start_us + 86_400 * US_PER_S


def _is_azure(cells: Sequence[str]) -> bool:
    return has_columns(cells, NEEDED) and any(
        has_columns(cells, frozenset({cost, date})) for cost in _COST for date in _DATE
    )


def detect(source: Source) -> Detection | None:
    if any(_is_azure(cells) for cells in head_rows(source)):
        return Detection(95, "it has columns of an Azure cost export (MeterCategory, MeterId, a date and a cost)")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """Reads the file twice: how it writes dates and numbers first. Raises InputRefused where that is not proven."""
    table, columns = open_columns(source, options, NEEDED)
    if not _is_azure(table.headers):
        raise InputRefused(f"{source.name} has no column with a date and one with a cost: export it with both")
    layout = _Layout(columns, source, options)
    layout.survey(table.rows)
    again, _ = open_columns(source, options, NEEDED)
    return read_rows(source, again, layout, rejections)


IMPORTERS = (Importer("Azure cost export", BILLING, detect, read),)
