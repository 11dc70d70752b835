"""Lago's credit notes as invoices with negative fees: each item takes back revenue of the fee that it names."""

from decimal import Decimal

from wattledger_audit.intake.billing_document import Object, as_list, as_object, text_of


def is_credit_note(entry: Object) -> bool:
    """Whether an object is a credit note: it has a credit status and items with their fees."""
    return "credit_status" in entry and isinstance(entry.get("items"), list)


def as_invoice(note: Object) -> tuple[Object, list[Object]]:
    """The note as an invoice and its fees, so that periods, tenants and SKUs are read as theirs are. A void note is
    one whose credit can't be used and that refunded nothing."""
    void = text_of(note, "credit_status") == "voided" and text_of(note, "refund_amount_cents") in ("", "0")
    items = [as_object(item) for item in as_list(note.get("items"))]
    fees = [
        {
            **as_object(item.get("fee")), "lago_id": text_of(item, "lago_id"), "units": "",
            "amount_cents": _negated(text_of(item, "amount_cents")),
            "amount_currency": text_of(item, "amount_currency") or text_of(note, "currency"),
        }
        for item in items
    ]  # fmt: skip
    named = next((text_of(fee, "external_customer_id") for fee in fees if text_of(fee, "external_customer_id")), "")
    invoice = {
        "number": text_of(note, "number", "lago_id"), "status": "voided" if void else "finalized",
        "issuing_date": text_of(note, "issuing_date"), "currency": text_of(note, "currency"),
        "customer": as_object(note.get("customer")) or {"external_id": named}, "credit_note": True,
        "coupons_amount_cents": _negated(text_of(note, "coupons_adjustment_amount_cents") or "0"),
    }  # fmt: skip
    return invoice, list(fees)


def _negated(cents: str) -> str:
    try:
        return format(-Decimal(cents), "f")
    except ArithmeticError:
        return cents
