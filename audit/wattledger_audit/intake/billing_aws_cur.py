"""AWS Cost and Usage Reports, legacy and 2.0 (CSV, Parquet). The one cost basis is UnblendedCost.

A line covered by a savings plan carries its on-demand cost and its negation takes it off again; the plan's own fee
is what is paid. So all are kept, and the negation's quantity is not: it is no second hour of use.
"""

from collections.abc import Iterator, Sequence

from wattledger_audit.intake.billing_category import category_of
from wattledger_audit.intake.billing_cloud import (
    Columns,
    Finals,
    Money,
    detect_header,
    open_columns,
    read_money,
    read_number,
    read_period,
    read_rows,
)
from wattledger_audit.intake.billing_fixed import refuse_shortened_id
from wattledger_audit.intake.billing_gpu import gpu_of
from wattledger_audit.intake.billing_tags import TENANT_TAGS, tenant_tag
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BILLING, BillingLine, Record
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.row import Row
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import Source

NEEDED = frozenset({"line_item_line_item_type", "line_item_unblended_cost", "line_item_usage_start_date"})
NEGATION = "SavingsPlanNegation"
_CATEGORIES = {
    "Usage": "usage", "DiscountedUsage": "usage", "SavingsPlanCoveredUsage": "usage", NEGATION: "usage",
    "RIFee": "commitment", "SavingsPlanRecurringFee": "commitment", "SavingsPlanUpfrontFee": "commitment",
    "Fee": "commitment", "Tax": "tax", "Credit": "credit", "Refund": "refund", "BundledDiscount": "credit",
    "EdpDiscount": "credit", "PrivateRateDiscount": "credit", "Discount": "credit",
}  # fmt: skip


class _Layout:
    def __init__(self, columns: Columns) -> None:
        cell = columns.cell
        self.cost = cell("line_item_unblended_cost")
        self.currency = cell("line_item_currency_code")
        self.start, self.end = cell("line_item_usage_start_date"), cell("line_item_usage_end_date")
        self.kind = cell("line_item_line_item_type")
        self.account, self.payer = cell("line_item_usage_account_id"), cell("bill_payer_account_id")
        self.billing_start = cell("bill_billing_period_start_date")
        self.invoice = cell("bill_invoice_id")
        self.sku = cell("line_item_usage_type", "line_item_product_code")
        self.instance = cell("product_instance_type")
        self.product = cell("line_item_product_code", "product_servicecode")
        self.family = cell("product_product_family")
        self.description = cell("line_item_line_item_description")
        self.plan = cell("pricing_term")
        self.quantity, self.unit = cell("line_item_usage_amount"), cell("pricing_unit")
        self.tag = columns.tag(*(f"user_{tag}" for tag in TENANT_TAGS), *TENANT_TAGS)
        self.tags = cell("resource_tags", "cost_category")
        self.finals = Finals()

    def survey(self, source: Source, rows: Iterator[Row]) -> None:
        for row in rows:
            refuse_shortened_id(source.name, row.line, "lineItem/UsageAccountId", self.account(row.cells))
            refuse_shortened_id(source.name, row.line, "bill/PayerAccountId", self.payer(row.cells))
            self.finals.see(self.delivery(row.cells), bool(self.invoice(row.cells)))

    def delivery(self, cells: Sequence[str]) -> str:
        return f"cur/{self.payer(cells)}/{self.billing_start(cells)[:7]}"

    def money(self, cells: Sequence[str]) -> Money:
        return read_money(self.cost(cells), "lineItem/UnblendedCost", self.currency(cells), "lineItem/CurrencyCode")

    def lines(self, row: Row, money: Money) -> list[BillingLine]:
        cells = row.cells
        columns = ("lineItem/UsageStartDate", "lineItem/UsageEndDate")
        start_us, end_us = read_period(self.start(cells), self.end(cells), columns)
        tenant = self.tag(cells) or tenant_tag(self.tags(cells)) or self.account(cells) or self.payer(cells)
        if not tenant:
            raise RowRefused("lineItem/UsageAccountId", "", "no_tenant: no account is named")
        kind, sku, description = self.kind(cells), self.sku(cells), self.description(cells)
        quantity = None
        if kind != NEGATION:
            quantity = read_number(self.quantity(cells), "lineItem/UsageAmount")
        unit, delivery = self.unit(cells), self.delivery(cells)
        words = (sku, description, self.instance(cells), self.product(cells), self.family(cells))
        return [
            BillingLine(
                row.line,
                self.invoice(cells),
                tenant,
                sku,
                description,
                self.plan(cells),
                start_us,
                end_us,
                quantity,
                unit,
                money.amount,
                money.currency,
                category_of(money.amount, description, named=_CATEGORIES.get(kind, kind)),
                delivery,
                self.finals.rank(delivery),
                gpu_of(*words, unit=unit),
            )
        ]


def detect(source: Source) -> Detection | None:
    why = "it has columns of an AWS Cost and Usage Report (LineItemType, UsageStartDate); UnblendedCost is taken"
    return detect_header(source, NEEDED, 95, why)


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """Reads the file twice: account ids and whether every line has its invoice first."""
    table, columns = open_columns(source, options, NEEDED)
    layout = _Layout(columns)
    layout.survey(source, table.rows)
    again, _ = open_columns(source, options, NEEDED)
    return read_rows(source, again, layout, rejections)


IMPORTERS = (Importer("AWS Cost and Usage Report", BILLING, detect, read),)
