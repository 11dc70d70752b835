"""FOCUS 1.0 to 1.3 cost and usage files (CSV, Parquet). The one cost basis is BilledCost: what is invoiced."""

from collections.abc import Iterator, Sequence

from wattledger_audit.intake.billing_category import category_of
from wattledger_audit.intake.billing_cloud import (
    Columns,
    Finals,
    Money,
    TenantNames,
    detect_header,
    open_columns,
    read_money,
    read_number,
    read_period,
    read_rows,
)
from wattledger_audit.intake.billing_fixed import refuse_shortened_id
from wattledger_audit.intake.billing_gpu import gpu_of
from wattledger_audit.intake.billing_tags import tenant_tag
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BILLING, BillingLine, Record
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import Source
from wattledger_audit.intake.table import Row

NEEDED = frozenset({"billed_cost", "billing_currency", "charge_category", "charge_period_start", "charge_period_end"})


class _Layout:
    def __init__(self, columns: Columns) -> None:
        cell = columns.cell
        self.billed_cost = cell("billed_cost")
        self.currency = cell("billing_currency")
        self.start, self.end = cell("charge_period_start"), cell("charge_period_end")
        self.billing_start = cell("billing_period_start")
        self.account = cell("billing_account_id")
        self.account_name = cell("billing_account_name")
        self.sub_account = cell("sub_account_id")
        self.sub_account_name = cell("sub_account_name")
        self.provider = cell("provider_name", "service_provider_name", "host_provider_name", "invoice_issuer_name")
        self.invoice = cell("invoice_id")
        self.category, self.charge_class = cell("charge_category"), cell("charge_class")
        self.sku = cell("sku_id", "sku_meter", "service_name")
        self.sku_words = [cell("sku_meter"), cell("service_name"), cell("service_category"), cell("resource_type")]
        self.description = cell("charge_description", "service_name")
        self.plan = cell("pricing_category")
        self.quantity, self.unit = cell("pricing_quantity"), cell("pricing_unit")
        self.consumed, self.consumed_unit = cell("consumed_quantity"), cell("consumed_unit")
        self.tags = cell("tags")
        self.names = TenantNames()
        self.finals = Finals()

    def survey(self, source: Source, rows: Iterator[Row]) -> None:
        """First reading: which names are one id's alone, which months have all their invoices, no id shortened."""
        for row in rows:
            account, sub_account = self.account(row.cells), self.sub_account(row.cells)
            for column, identity in (("BillingAccountId", account), ("SubAccountId", sub_account)):
                refuse_shortened_id(source.name, row.line, column, identity)
            self.names.see(self.sub_account_name(row.cells), sub_account)
            self.names.see(self.account_name(row.cells), account)
            self.finals.see(self.delivery(row.cells), bool(self.invoice(row.cells)))

    def delivery(self, cells: Sequence[str]) -> str:
        return f"focus/{self.provider(cells)}/{self.account(cells)}/{self.billing_start(cells)[:7]}"

    def tenant(self, cells: Sequence[str]) -> str:
        tagged = tenant_tag(self.tags(cells))
        name, identity = self.sub_account_name(cells), self.sub_account(cells)
        if tagged or name or identity:
            return tagged or self.names.of(name, identity)
        return self.names.of(self.account_name(cells), self.account(cells))

    def money(self, cells: Sequence[str]) -> Money:
        return read_money(self.billed_cost(cells), "BilledCost", self.currency(cells), "BillingCurrency")

    def lines(self, row: Row, money: Money) -> list[BillingLine]:
        cells = row.cells
        start_us, end_us = read_period(self.start(cells), self.end(cells), ("ChargePeriodStart", "ChargePeriodEnd"))
        tenant = self.tenant(cells)
        if not tenant:
            raise RowRefused("SubAccountId", "", "no_tenant: neither a sub account nor a billing account is named")
        quantity, unit = read_number(self.quantity(cells), "PricingQuantity"), self.unit(cells)
        if quantity is None:
            quantity, unit = read_number(self.consumed(cells), "ConsumedQuantity"), self.consumed_unit(cells)
        words = [self.description(cells), *(word(cells) for word in self.sku_words)]
        delivery = self.delivery(cells)
        return [
            BillingLine(
                row.line,
                self.invoice(cells),
                tenant,
                self.sku(cells),
                self.description(cells),
                self.plan(cells),
                start_us,
                end_us,
                quantity,
                unit,
                money.amount,
                money.currency,
                self._category(cells, money),
                delivery,
                self.finals.rank(delivery),
                gpu_of(self.sku(cells), *words, unit=unit),
            )
        ]

    def _category(self, cells: Sequence[str], money: Money) -> str:
        named = self.category(cells)
        if self.charge_class(cells).casefold() == "correction" and named in ("Usage", "Purchase"):
            named = "Adjustment"
        return category_of(money.amount, self.description(cells), named=named)


def detect(source: Source) -> Detection | None:
    why = "it has FOCUS columns (BilledCost, ChargeCategory, ChargePeriodStart); the amount taken is BilledCost"
    return detect_header(source, NEEDED, 95, why)


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """Reads the file twice: names, months and ids first. Raises InputRefused for shortened ids."""
    table, columns = open_columns(source, options, NEEDED)
    layout = _Layout(columns)
    layout.survey(source, table.rows)
    again, _ = open_columns(source, options, NEEDED)
    return read_rows(source, again, layout, rejections)


IMPORTERS = (Importer("FOCUS cost and usage", BILLING, detect, read),)
