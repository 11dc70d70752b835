"""What Stripe's lists hold beside charges: credit notes, which take revenue back, and items of no invoice yet."""

from wattledger_audit.intake.billing_document import Object, text_of
from wattledger_audit.intake.billing_stripe_item import Item


def is_credit_note(invoice: Object) -> bool:
    """Whether what wraps an item is a credit note."""
    return text_of(invoice, "object") == "credit_note"


def is_pending(entry: Object) -> bool:
    """Whether an item waits for an invoice: it is billed to nobody so far."""
    return text_of(entry, "object") == "invoiceitem" and "invoice" in entry and entry["invoice"] is None


def credited(item: Item, note: Object, entry: Object) -> Item:
    """What a credit note's line takes back: its amounts with the other sign, in the service period of what it
    credits where the file has that, else at the time of the note."""
    when = text_of(note, "effective_at", "created")
    return item._replace(
        item_id=text_of(entry, "id"),
        invoice=text_of(note, "id"),
        number=text_of(note, "number"),
        sku=item.sku or item.description,
        description=f"credit note: {item.description}".strip(": "),
        start=item.start or when,
        end=item.end or when,
        quantity="",
        amount=_negated(text_of(entry, "amount")),
        discount=_negated(item.discount),
        inclusive_tax=_negated(item.inclusive_tax),
        status=text_of(note, "status"),
        named="refund",
    )


def _negated(amount: str) -> str:
    if amount in ("", "0"):
        return amount
    return amount[1:] if amount.startswith("-") else f"-{amount}"
