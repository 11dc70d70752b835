"""Stripe invoices, credit notes and their line items in JSON: `{"data": […]}`, a list, invoices with lines, ndjson."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from wattledger_audit.intake import billing_stripe_csv
from wattledger_audit.intake.billing_cloud import TenantNames
from wattledger_audit.intake.billing_document import (
    Document,
    Object,
    as_list,
    as_object,
    looks_like_json,
    read_documents,
    text_of,
)
from wattledger_audit.intake.billing_stripe_credit import credited, is_credit_note, is_pending
from wattledger_audit.intake.billing_stripe_item import NOT_FINAL, PENDING, Item, read_items, voided
from wattledger_audit.intake.billing_tags import TENANT_TAGS
from wattledger_audit.intake.currency import currency_code, stripe_decimals
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BILLING, Record
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.source import Source

_JSON = re.compile(
    r'"object"\s*:\s*"(?:line_item|invoice|invoiceitem|credit_note)"|"(?:il|ii|sli|in|sub|price)_\w{6,}"|"proration"\s*:'
)


def detect(source: Source) -> Detection | None:
    if looks_like_json(source) and _JSON.search(source.head) and '"lago_id"' not in source.head:
        return Detection(92, "it is JSON with Stripe's invoice line items; amounts are in minor units")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """Lines in file order; `line` is the ndjson line, else the item's place in the document, from 1.

    Items without their invoice count, with a line in the rejections that says so: whether it is final is not told."""
    items, bare = _items(source, rejections)
    if bare is not None:
        reason = "status_not_told: lines without their invoice count even if it is a draft or void: export invoices"
        rejections.add(source.name, bare, "status", "", reason)
    yield from read_items(source, items, rejections)


def voided_in(source: Source) -> set[str]:
    """Deliveries that the file says are void."""
    return voided(_items(source, Rejections(io.StringIO()))[0])


def _items(source: Source, rejections: Rejections) -> tuple[list[Item], int | None]:
    """The items in file order, and the line of the first one of which no invoice is there."""
    names, pairs, has_more = TenantNames(), [], False
    for document in read_documents(source):
        several = document.line > 1
        page = document.value[-1] if isinstance(document.value, list) and document.value else document.value
        has_more = as_object(page).get("has_more") is True
        for place, (invoice, entry) in enumerate(_entries(source, document, rejections), start=1):
            invoice = invoice or as_object(entry.get("invoice"))
            names.see(text_of(invoice, "customer_name"), _customer_id(invoice))
            pairs.append((document.line if several else place, invoice, entry))
    if has_more:
        _page_incomplete(source, document.line, rejections)
    charged = {text_of(entry, "id"): (invoice, entry) for _, invoice, entry in pairs if not is_credit_note(invoice)}
    bare = next((line for line, invoice, _ in pairs if "status" not in invoice), None)
    return [_read_item(names, charged, *pair) for pair in pairs], bare


def _read_item(
    names: TenantNames, charged: Mapping[str, tuple[Object, Object]], line: int, invoice: Object, entry: Object
) -> Item:
    if not is_credit_note(invoice):
        return _item(names, line, invoice, entry)
    paid, charge = charged.get(text_of(entry, "invoice_line_item"), ({}, {}))
    named = _item(names, line, paid or invoice, {**charge, **entry})
    return credited(named, invoice, entry)


def _entries(source: Source, document: Document, rejections: Rejections) -> Iterator[tuple[Object, Object]]:
    """Every (invoice, line item) in a document, whatever it is wrapped in; the invoice is empty if not given."""
    waiting: list[object] = [document.value]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, list):
            waiting = [*value, *waiting]
            continue
        entry = as_object(value)
        lines = entry.get("lines")
        if as_object(lines).get("has_more") is True:
            _page_incomplete(source, document.line, rejections)
        if lines is not None:
            items = as_list(lines) or as_list(as_object(lines).get("data"))
            yield from ((entry, as_object(item)) for item in items)
        elif text_of(entry, "object") in ("invoice", "credit_note"):
            _refuse_without_lines(source, document.line, entry, rejections)
        elif "amount" in entry and "currency" in entry:
            yield {}, entry
        else:
            inner = (entry.get(name) for name in ("data", "invoices", "object", "invoice"))
            waiting = [*(found for found in inner if isinstance(found, list | dict)), *waiting]


def _page_incomplete(source: Source, line: int, rejections: Rejections) -> None:
    reason = "page_incomplete: has_more is true, so lines are missing: export all pages"
    rejections.add(source.name, line, "has_more", "true", reason)


def _refuse_without_lines(source: Source, line: int, invoice: Object, rejections: Rejections) -> None:
    currency = currency_code(text_of(invoice, "currency"))
    total = text_of(invoice, "total", "amount", "amount_due")
    amount = Decimal(total).scaleb(-stripe_decimals(currency)) if currency and total.lstrip("-").isdecimal() else None
    reason = "no_lines: the invoice is here without its lines: export it with them"
    if text_of(invoice, "status").casefold() in NOT_FINAL:
        reason = "not_final: the invoice is a draft or void, which is no revenue"
    rejections.add(source.name, line, "lines", text_of(invoice, "number", "id"), reason, amount, currency)


def _customer_id(invoice: Object) -> str:
    return text_of(as_object(invoice.get("customer")), "id") or text_of(invoice, "customer")


def _item(names: TenantNames, line: int, invoice: Object, entry: Object) -> Item:
    price = as_object(entry.get("price")) or as_object(entry.get("plan"))
    details = as_object(as_object(entry.get("pricing")).get("price_details"))
    product = as_object(price.get("product"))
    metadata, period = as_object(entry.get("metadata")), as_object(entry.get("period"))
    sku = text_of(metadata, "sku") or text_of(price, "lookup_key", "nickname") or text_of(product, "name")
    return Item(
        line,
        text_of(entry, "id"),
        text_of(entry, "invoice") or text_of(invoice, "id"),
        text_of(invoice, "number"),
        _tenant(names, invoice, entry, metadata),
        sku or text_of(price, "product", "id") or text_of(details, "product", "price"),
        text_of(entry, "description"),
        text_of(metadata, "plan") or text_of(price, "nickname"),
        text_of(period, "start") or text_of(entry, "period_start"),
        text_of(period, "end") or text_of(entry, "period_end"),
        text_of(entry, "quantity_decimal", "quantity"),
        text_of(metadata, "unit") or text_of(product, "unit_label"),
        text_of(entry, "amount"),
        _summed(entry.get("discount_amounts")),
        _summed(tax for tax in _taxes(entry) if _is_inclusive(as_object(tax))),
        text_of(entry, "currency") or text_of(invoice, "currency"),
        text_of(invoice, "status") or (PENDING if is_pending(entry) else ""),
        _named(entry, price, metadata),
    )


def _tenant(names: TenantNames, invoice: Object, entry: Object, metadata: Object) -> str:
    tagged = [text_of(as_object(item.get("metadata")), *TENANT_TAGS) for item in (entry, invoice)]
    customer = as_object(invoice.get("customer")) or as_object(entry.get("customer"))
    name = text_of(invoice, "customer_name") or text_of(customer, "name")
    identity = _customer_id(invoice) or text_of(customer, "id") or text_of(entry, "customer")
    subscription = text_of(entry, "subscription") or text_of(
        as_object(as_object(entry.get("parent")).get("subscription_item_details")), "subscription"
    )
    known = next((tag for tag in tagged if tag), "") or names.of(name, identity)
    return known or text_of(invoice, "customer_email") or subscription or text_of(entry, "invoice")


def _named(entry: Object, price: Object, metadata: Object) -> str:
    """The category that the item itself says: prorations correct a period, licensed plans are paid whatever is used."""
    said = text_of(metadata, "category")
    parent = as_object(as_object(entry.get("parent")).get("subscription_item_details"))
    if said or entry.get("proration") is True or parent.get("proration") is True:
        return said or "adjustment"
    usage_type = text_of(as_object(price.get("recurring")), "usage_type") or text_of(price, "usage_type")
    if text_of(entry, "amount").startswith("-"):
        return ""
    return {"licensed": "commitment", "metered": "usage"}.get(usage_type, "")


def _taxes(entry: Object) -> list[object]:
    return as_list(entry.get("tax_amounts")) or as_list(entry.get("taxes"))


def _is_inclusive(tax: Object) -> bool:
    return tax.get("inclusive") is True or tax.get("tax_behavior") == "inclusive"


def _summed(parts: object) -> str:
    """The whole-number sum of the parts' amounts as text, empty if there are none."""
    items = list(parts) if isinstance(parts, Iterable) and not isinstance(parts, str) else []
    amounts = [as_object(part).get("amount") for part in items]
    return str(sum((Decimal(str(amount)) for amount in amounts if isinstance(amount, int | Decimal)), Decimal(0)))


IMPORTERS = (Importer("Stripe invoice lines (JSON)", BILLING, detect, read), *billing_stripe_csv.IMPORTERS)
