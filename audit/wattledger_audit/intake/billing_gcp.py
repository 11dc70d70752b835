"""Google Cloud billing exports (CSV, Parquet). Credits lie inside their row's cost line and are lines of their own."""

from collections.abc import Iterator, Sequence

from wattledger_audit.intake.billing_category import category_of
from wattledger_audit.intake.billing_cloud import (
    Columns,
    Money,
    detect_header,
    open_columns,
    read_money,
    read_number,
    read_period,
    read_rows,
)
from wattledger_audit.intake.billing_fixed import day_text, refuse_shortened_id
from wattledger_audit.intake.billing_gcp_credits import COLUMN, Credit, read_credits
from wattledger_audit.intake.billing_gpu import gpu_of
from wattledger_audit.intake.billing_tags import tenant_tag
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BILLING, BillingLine, Record
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.row import Row
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import Source

NEEDED = frozenset({"billing_account_id", "cost", "currency", "usage_start_time", "usage_end_time", "sku_description"})
_CATEGORIES = {"regular": "usage", "tax": "tax", "adjustment": "adjustment", "rounding_error": "adjustment"}


class _Layout:
    def __init__(self, columns: Columns, source: Source, rejections: Rejections) -> None:
        cell = columns.cell
        self.source, self.rejections = source, rejections
        self.cost, self.currency = cell("cost"), cell("currency")
        self.start, self.end = cell("usage_start_time"), cell("usage_end_time")
        self.account, self.project = cell("billing_account_id"), cell("project_id", "project_name")
        self.month, self.day = cell("invoice_month"), cell("partition_date")
        self.sku, self.description = cell("sku_id"), cell("sku_description")
        self.service = cell("service_description")
        self.quantity = cell("usage_amount_in_pricing_units", "usage_amount")
        self.unit = cell("usage_pricing_unit" if columns.has("usage_amount_in_pricing_units") else "usage_unit")
        self.kind, self.credits = cell("cost_type"), cell("credits")
        self.labels, self.project_labels = cell("labels"), cell("project_labels")

    def money(self, cells: Sequence[str]) -> Money:
        return read_money(self.cost(cells), "cost", self.currency(cells), "currency")

    def lines(self, row: Row, money: Money) -> list[BillingLine]:
        cells = row.cells
        refuse_shortened_id(self.source.name, row.line, "project.id", self.project(cells))
        start_us, end_us = read_period(self.start(cells), self.end(cells), ("usage_start_time", "usage_end_time"))
        tags = (tenant_tag(text(cells)) for text in (self.labels, self.project_labels))
        tenant = next(filter(None, tags), "") or self.project(cells) or self.account(cells)
        if not tenant:
            raise RowRefused("project.id", "", "no_tenant: neither a project nor a billing account is named")
        sku, description, unit = self.sku(cells), self.description(cells), self.unit(cells)
        day = self.day(cells)[:10] or day_text(start_us)
        charge = BillingLine(
            row.line,
            "",
            tenant,
            sku,
            description,
            "",
            start_us,
            end_us,
            read_number(self.quantity(cells), "usage.amount"),
            unit,
            money.amount,
            money.currency,
            category_of(money.amount, description, named=_CATEGORIES.get(self.kind(cells), self.kind(cells))),
            f"gcp/{self.account(cells)}/{self.month(cells)}/{day}",
            0,
            gpu_of(sku, description, self.service(cells), unit=unit),
        )
        return [charge, *(_credited(charge, credit) for credit in self._credits(row))]

    def _credits(self, row: Row) -> list[Credit]:
        """A cell that can't be read is listed, and the charge beside it still counts."""
        try:
            return read_credits(self.credits(row.cells))
        except RowRefused as refused:
            self.rejections.add(self.source.name, row.line, COLUMN, refused.value, refused.reason)
            return []


def _credited(charge: BillingLine, credit: Credit) -> BillingLine:
    kind = credit.kind.replace("_", " ")
    words = f"{credit.name} ({kind})" if credit.name and kind else credit.name or kind or "credit"
    category = category_of(credit.amount, words, named="credit")
    return charge._replace(description=words, quantity=None, unit="", amount=credit.amount, category=category)


def detect(source: Source) -> Detection | None:
    why = "it has columns of a Google Cloud billing export (sku.description, usage_start_time); cost and credits count"
    return detect_header(source, NEEDED, 95, why)


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """One reading, in file order; a row's credits follow its cost."""
    table, columns = open_columns(source, options, NEEDED)
    return read_rows(source, table, _Layout(columns, source, rejections), rejections)


IMPORTERS = (Importer("Google Cloud billing export", BILLING, detect, read),)
