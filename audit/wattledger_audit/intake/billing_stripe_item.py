"""One Stripe invoice line item, as JSON or as a CSV row gives it, and the billing lines that it makes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from wattledger_core.units import US_PER_S

from wattledger_audit.intake.billing_category import category_of
from wattledger_audit.intake.billing_fixed import fixed_number, service_end_us, utc_stamp_us
from wattledger_audit.intake.billing_gpu import gpu_of
from wattledger_audit.intake.currency import currency_code, stripe_decimals
from wattledger_audit.intake.record import BillingLine
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import Source

VOID = frozenset({"void", "voided", "deleted"})
NOT_FINAL = VOID | {"draft"}
FINAL = frozenset({"paid", "open", "uncollectible", "issued"})
PENDING = "pending"


class Item(NamedTuple):
    """A line item's texts. `amount` is in minor units unless `major`; `discount` and `inclusive_tax` likewise, both
    positive. `start` and `end` are epoch seconds or UTC stamps. `status` is its invoice's."""

    line: int
    item_id: str
    invoice: str
    number: str
    tenant: str
    sku: str
    description: str
    plan: str
    start: str
    end: str
    quantity: str
    unit: str
    amount: str
    discount: str
    inclusive_tax: str
    currency: str
    status: str
    named: str
    major: bool = False


@dataclass(slots=True)
class StripeLines:
    """Makes the lines of items, each item once."""

    seen: set[str] = field(default_factory=set)

    def money(self, item: Item) -> tuple[Decimal, str]:
        """The item's amount in its currency. Raises RowRefused (`bad_amount`, `bad_currency`)."""
        currency = currency_code(item.currency)
        if not currency:
            raise RowRefused("currency", item.currency, "bad_currency: no ISO code such as usd")
        return _amount(item.amount, "amount", currency, item.major), currency

    def lines(self, item: Item, amount: Decimal, currency: str) -> Sequence[BillingLine]:
        """The charge net of inclusive tax, that tax, and the item's discounts, each as a line. Raises RowRefused."""
        if item.status.casefold() in NOT_FINAL:
            raise RowRefused("status", item.status, "not_final: the invoice is a draft or void, which is no revenue")
        if item.status == PENDING:
            raise RowRefused("invoice", "null", "not_final: the item is on no invoice yet, so it is billed to nobody")
        if item.item_id and item.item_id in self.seen:
            raise RowRefused("id", item.item_id, "duplicate_line: this line item came before in this file")
        if not item.tenant:
            raise RowRefused("customer", "", "no_tenant: neither a customer nor a subscription is named")
        start_us, end_us = _period(item)
        quantity = _quantity(item)
        self.seen.add(item.item_id)
        tax = _amount(item.inclusive_tax or "0", "tax_amounts", currency, item.major)
        discount = _amount(item.discount or "0", "discount_amounts", currency, item.major)
        words = (item.description, item.sku)
        charge = BillingLine(
            item.line,
            item.number or item.invoice,
            item.tenant,
            item.sku or item.description,
            item.description,
            item.plan,
            start_us,
            end_us,
            quantity,
            item.unit if quantity is not None else "",
            amount - tax,
            currency,
            category_of(amount, *words, named=item.named),
            delivery_of(item),
            int(item.status.casefold() in FINAL),
            gpu_of(*words, item.plan, unit=item.unit),
        )
        made = [charge]
        for part, category, what in ((tax, "tax", "tax in the price"), (-discount, "credit_promo", "discount")):
            if part:
                description = f"{what}: {item.description}".strip(": ")
                made.append(
                    charge._replace(description=description, quantity=None, unit="", amount=part, category=category)
                )
        return made


def delivery_of(item: Item) -> str:
    """What a later export of the same invoice replaces."""
    return item.invoice or item.number or f"stripe/{item.item_id}"


def voided(items: Iterable[Item]) -> set[str]:
    """The deliveries of items whose invoice is void: nothing that was exported of them before holds any more."""
    return {delivery_of(item) for item in items if item.status.casefold() in VOID}


def _amount(text: str, column: str, currency: str, major: bool) -> Decimal:
    try:
        number = fixed_number(text)
    except ValueError as error:
        raise RowRefused(column, text, f"bad_amount: {error}") from None
    if number is None:
        raise RowRefused(column, text, "no_amount: the line item has no amount")
    if major:
        return number
    if number != number.to_integral_value():
        raise RowRefused(column, text, "bad_amount: an amount in minor units (cents) is a whole number")
    return number.scaleb(-stripe_decimals(currency))


def _quantity(item: Item) -> Decimal | None:
    try:
        return fixed_number(item.quantity)
    except ValueError as error:
        raise RowRefused("quantity", item.quantity, f"bad_quantity: {error}") from None


def _period(item: Item) -> tuple[int, int]:
    ends = []
    for column, text in (("period.start", item.start), ("period.end", item.end)):
        if not text:
            raise RowRefused(column, "", "no_period: the line item does not say when its service was")
        try:
            ends.append(int(text) * US_PER_S if text.isdigit() else utc_stamp_us(text))
        except ValueError:
            raise RowRefused(column, text, "bad_time: neither epoch seconds nor an ISO stamp") from None
    end_us = service_end_us(ends[0], ends[1])
    if end_us is None:
        raise RowRefused("period.end", item.end, f"bad_period: it ends before it starts ({item.start})")
    return ends[0], end_us


def read_items(source: Source, items: Iterable[Item], rejections: Rejections) -> Iterator[BillingLine]:
    """The lines of all items in order; an item that can't be used goes to the rejections with its amount."""
    stripe = StripeLines()
    for item in items:
        amount: Decimal | None = None
        currency = ""
        try:
            amount, currency = stripe.money(item)
            made = stripe.lines(item, amount, currency)
        except RowRefused as refused:
            column, value = refused.column, refused.value
            rejections.add(source.name, item.line, column, value, refused.reason, amount, currency)
        else:
            yield from made
