"""Oracle Cloud cost reports (CSV). Reports of a day add up; a line is the same again by its reference number.

A correction (`isCorrection`) is a row of its own, as Oracle describes it, and is counted as an adjustment.
"""

from collections.abc import Iterator, Sequence

from wattledger_audit.intake.billing_category import category_of
from wattledger_audit.intake.billing_cloud import (
    Columns,
    Money,
    TenantNames,
    detect_header,
    open_columns,
    read_money,
    read_number,
    read_period,
    read_rows,
)
from wattledger_audit.intake.billing_fixed import month_text, refuse_shortened_id
from wattledger_audit.intake.billing_gpu import gpu_of
from wattledger_audit.intake.billing_tags import TENANT_TAGS
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BILLING, BillingLine, Record
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.row import Row
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import Source

NEEDED = frozenset({"line_item_reference_no", "line_item_interval_usage_start", "cost_my_cost"})


class _Layout:
    def __init__(self, columns: Columns) -> None:
        cell = columns.cell
        self.cost, self.currency = cell("cost_my_cost"), cell("cost_currency_code")
        self.start, self.end = cell("line_item_interval_usage_start"), cell("line_item_interval_usage_end")
        self.reference, self.tenancy = cell("line_item_reference_no"), cell("line_item_tenant_id")
        self.correction = cell("line_item_is_correction")
        self.compartment, self.compartment_id = cell("product_compartment_name"), cell("product_compartment_id")
        self.sku, self.description = cell("cost_product_sku", "product_resource"), cell("product_description")
        self.service = cell("product_service")
        self.quantity = cell("usage_billed_quantity")
        self.unit = cell("cost_sku_unit_description", "cost_billing_unit_readable")
        self.tag = columns.tag(*TENANT_TAGS)
        self.names = TenantNames()

    def survey(self, source: Source, rows: Iterator[Row]) -> None:
        for row in rows:
            refuse_shortened_id(source.name, row.line, "lineItem/tenantId", self.tenancy(row.cells))
            self.names.see(self.compartment(row.cells), self.compartment_id(row.cells))

    def money(self, cells: Sequence[str]) -> Money:
        return read_money(self.cost(cells), "cost/myCost", self.currency(cells), "cost/currencyCode")

    def lines(self, row: Row, money: Money) -> list[BillingLine]:
        cells = row.cells
        columns = ("lineItem/intervalUsageStart", "lineItem/intervalUsageEnd")
        start_us, end_us = read_period(self.start(cells), self.end(cells), columns)
        named = self.names.of(self.compartment(cells), self.compartment_id(cells))
        tenant = self.tag(cells) or named or self.tenancy(cells)
        if not tenant:
            raise RowRefused("product/compartmentName", "", "no_tenant: neither compartment nor tenancy is named")
        corrects = self.correction(cells).casefold() == "true"
        sku, description, unit = self.sku(cells), self.description(cells), self.unit(cells)
        return [
            BillingLine(
                row.line,
                "",
                tenant,
                sku,
                description,
                "",
                start_us,
                end_us,
                read_number(self.quantity(cells), "usage/billedQuantity"),
                unit,
                money.amount,
                money.currency,
                category_of(money.amount, description, named="adjustment" if corrects else "usage"),
                f"oci/{self.tenancy(cells)}/{month_text(start_us)}/{self.reference(cells)}",
                0,
                gpu_of(sku, description, self.service(cells), unit=unit),
            )
        ]


def detect(source: Source) -> Detection | None:
    why = (
        "it has columns of an Oracle Cloud cost report (lineItem/referenceNo, cost/myCost); the amount taken is myCost"
    )
    return detect_header(source, NEEDED, 95, why)


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """Reads the file twice: compartments' names and ids first."""
    table, columns = open_columns(source, options, NEEDED)
    layout = _Layout(columns)
    layout.survey(source, table.rows)
    again, _ = open_columns(source, options, NEEDED)
    return read_rows(source, again, layout, rejections)


IMPORTERS = (Importer("Oracle Cloud cost report", BILLING, detect, read),)
