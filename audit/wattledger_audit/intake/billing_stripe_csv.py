"""Stripe exports of invoice line items as CSV. Amounts are in minor units, unless any of them has a decimal point."""

from collections.abc import Iterator, Sequence

from wattledger_audit.intake.billing_cloud import Columns, TenantNames, snake
from wattledger_audit.intake.billing_fixed import refuse_shortened_id
from wattledger_audit.intake.billing_stripe_item import Item, read_items, voided
from wattledger_audit.intake.billing_tags import TENANT_TAGS
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BILLING, Record
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.row import Row
from wattledger_audit.intake.source import Source
from wattledger_audit.intake.table import head_rows, open_table

_BASE = frozenset({"amount", "currency", "period_start", "period_end"})
_ONE_OF = frozenset({"proration", "price_id", "plan_id", "subscription_id", "invoice_line_item_id", "line_item_id"})


class _Reader:
    """Reads the rows of one export."""

    def __init__(self, headers: Sequence[str]) -> None:
        cell = Columns([_name(header) for header in headers]).cell
        self.tag = cell(*(f"{prefix}{tag}" for prefix in ("metadata_", "") for tag in TENANT_TAGS[:2]))
        self.customer, self.customer_name = cell("customer_id", "customer"), cell("customer_name")
        self.customer_text = cell("customer_email", "subscription_id", "subscription", "invoice_id", "invoice")
        self.item_id = cell("invoice_line_item_id", "line_item_id", "id")
        self.invoice, self.number = cell("invoice_id", "invoice"), cell("invoice_number", "number")
        self.sku = cell("price_nickname", "plan_nickname", "product_name", "price_id", "plan_id", "plan")
        self.description = cell("description", "line_item_description")
        self.plan = cell("plan_name", "price_nickname", "plan_nickname")
        self.start, self.end = cell("period_start"), cell("period_end")
        self.quantity, self.unit = cell("quantity"), cell("unit", "unit_label")
        self.amount, self.currency = cell("amount"), cell("currency")
        self.discount = cell("discount_amount", "discount")
        self.status, self.proration = cell("invoice_status", "status"), cell("proration")
        self.names = TenantNames()
        self.major = False

    def survey(self, source: Source, rows: Iterator[Row]) -> None:
        """First reading: whether amounts are in major units, which customer names are one id's alone."""
        for row in rows:
            self.major = self.major or "." in self.amount(row.cells)
            refuse_shortened_id(source.name, row.line, "customer", self.customer(row.cells))
            self.names.see(self.customer_name(row.cells), self.customer(row.cells))

    def item(self, row: Row) -> Item:
        cells = row.cells
        tenant = self.tag(cells) or self.names.of(self.customer_name(cells), self.customer(cells))
        return Item(
            line=row.line,
            item_id=self.item_id(cells),
            invoice=self.invoice(cells),
            number=self.number(cells),
            tenant=tenant or self.customer_text(cells),
            sku=self.sku(cells),
            description=self.description(cells),
            plan=self.plan(cells),
            start=self.start(cells),
            end=self.end(cells),
            quantity=self.quantity(cells),
            unit=self.unit(cells),
            amount=self.amount(cells).replace(",", "") if self.major else self.amount(cells),
            discount=self.discount(cells),
            inclusive_tax="",
            currency=self.currency(cells),
            status=self.status(cells),
            named="adjustment" if self.proration(cells).casefold() in ("true", "1", "yes") else "",
            major=self.major,
        )


def _name(header: str) -> str:
    return snake(header).removesuffix("_utc")


def _is_header(cells: Sequence[str]) -> bool:
    names = {_name(cell) for cell in cells}
    return (
        names >= _BASE and bool(names & _ONE_OF) and bool(names & {"invoice", "invoice_id"}) and "tenant" not in names
    )


def detect(source: Source) -> Detection | None:
    if any(_is_header(cells) for cells in head_rows(source)):
        return Detection(88, "it has the columns of a Stripe export of invoice line items")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """Reads the file twice: how its amounts are written first."""
    table = open_table(source, options, _is_header)
    reader = _Reader(table.headers)
    reader.survey(source, table.rows)
    again = open_table(source, options, _is_header)
    return read_items(source, map(reader.item, again.rows), rejections)


def voided_in(source: Source) -> set[str]:
    """Deliveries that the file says are void."""
    table = open_table(source, ReadOptions(), _is_header)
    return voided(map(_Reader(table.headers).item, table.rows))


IMPORTERS = (Importer("Stripe invoice lines (CSV)", BILLING, detect, read),)
