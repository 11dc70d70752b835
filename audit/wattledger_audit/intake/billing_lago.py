"""Lago invoices and credit notes with their fees (JSON). Fees are net of tax in minor units of ISO 4217.

Only final invoices count. Coupons and what progressive invoices have billed before are lines of their own, over the
whole invoice's period.
"""

import re
from collections.abc import Iterator
from decimal import Decimal

from wattledger_audit.intake.billing_category import category_of
from wattledger_audit.intake.billing_document import (
    Object,
    as_list,
    as_object,
    looks_like_json,
    read_documents,
    text_of,
)
from wattledger_audit.intake.billing_gpu import gpu_of
from wattledger_audit.intake.billing_lago_amount import fee_category, fee_money, fee_plan, fee_unit, fee_units
from wattledger_audit.intake.billing_lago_credit import as_invoice, is_credit_note
from wattledger_audit.intake.billing_lago_fee import customer_zone, fee_period_us, fee_words
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BILLING, BillingLine, Record
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import Source

_FEE = re.compile(r'"lago_id"|"amount_cents"\s*:')
_DEDUCTIONS = (
    ("coupons_amount_cents", "credit_promo", "coupons"),
    ("progressive_billing_credit_amount_cents", "adjustment", "billed before by progressive invoices"),
)


def detect(source: Source) -> Detection | None:
    if looks_like_json(source) and _FEE.search(source.head) and ('"fees"' in source.head or '"lago_id"' in source.head):
        return Detection(93, "it is JSON with Lago's invoices and fees; amounts are net of tax, in minor units")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """Lines in file order; `line` is the ndjson line, else the fee's place in the document, from 1."""
    reader = _Reader(source, rejections)
    next_page = ""
    for document in read_documents(source):
        reader.line = document.line if document.line > 1 else reader.line
        next_page = text_of(as_object(as_object(document.value).get("meta")), "next_page")
        for invoice, fees in _invoices(document.value):
            yield from reader.lines(invoice, fees, count=document.line == 1)
    if next_page:
        reason = "page_incomplete: there is a next page, so invoices are missing: export all pages"
        rejections.add(source.name, reader.line, "meta.next_page", next_page, reason)


def voided_in(source: Source) -> set[str]:
    """Deliveries that the file says are void."""
    return {
        text_of(invoice, "number", "lago_id")
        for document in read_documents(source)
        for invoice, _ in _invoices(document.value)
        if text_of(invoice, "status") == "voided"
    }


def _invoices(value: object) -> Iterator[tuple[Object, list[Object]]]:
    """Invoices and credit notes with their fees, whatever they are wrapped in; fees alone have an empty invoice."""
    if isinstance(value, list):
        for item in value:
            yield from _invoices(item)
        return
    entry = as_object(value)
    if is_credit_note(entry):
        yield as_invoice(entry)
        return
    fees = as_list(entry.get("fees"))
    if "status" in entry or "issuing_date" in entry or "number" in entry:
        yield entry, [as_object(fee) for fee in fees]
    elif fees:
        yield from (({}, [as_object(fee)]) for fee in fees)
    elif "amount_cents" in entry:
        yield {}, [entry]
    else:
        for name in ("invoices", "invoice", "fee", "credit_notes", "credit_note"):
            if name in entry:
                yield from _invoices(entry[name])


class _Reader:
    def __init__(self, source: Source, rejections: Rejections) -> None:
        self.source, self.rejections = source, rejections
        self.line = 0
        self.seen: set[str] = set()
        self.told_status = False

    def lines(self, invoice: Object, fees: list[Object], count: bool) -> Iterator[BillingLine]:
        made: list[BillingLine] = []
        if not fees:
            self._refuse_without_fees(invoice, count)
        elif not invoice and not self.told_status:
            self.told_status = True
            reason = "status_not_told: fees without their invoice count even if it is a draft or void: export invoices"
            self.rejections.add(self.source.name, self.line + count, "status", "", reason)
        for fee in fees:
            self.line += count
            money: tuple[Decimal, str] | None = None
            try:
                money = fee_money(fee, "amount_cents", text_of(fee, "amount_currency") or text_of(invoice, "currency"))
                made.append(self._fee_line(invoice, fee, *money))
            except RowRefused as refused:
                self._reject(refused, *(money or (None, "")))
        yield from made
        if made:
            yield from self._deductions(invoice, made)

    def _refuse_without_fees(self, invoice: Object, count: bool) -> None:
        """Lists of invoices have no fees: their money is named, and where the fees are."""
        name = "fees_amount_cents"
        if "fees" in invoice or text_of(invoice, name) in ("", "0"):
            return
        self.line += count
        money: tuple[Decimal, str] | None = None
        try:
            money = fee_money(invoice, name, text_of(invoice, "currency"))
            self._refuse_what_is_no_revenue(invoice, {})
            raise RowRefused("fees", "", "no_fees: the invoice is here without its fees: export it by itself, or fees")
        except RowRefused as refused:
            self._reject(refused, *(money or (None, "")))

    def _fee_line(self, invoice: Object, fee: Object, amount: Decimal, currency: str) -> BillingLine:
        self._refuse_what_is_no_revenue(invoice, fee)
        customer = as_object(invoice.get("customer")) or as_object(fee.get("customer"))
        tenant = text_of(customer, "external_id", "name", "lago_id") or text_of(fee, "external_customer_id")
        if not tenant:
            raise RowRefused("customer", "", "no_tenant: no customer is named")
        start_us, end_us = fee_period_us(fee, invoice, customer_zone(customer))
        sku, description = fee_words(fee)
        item = as_object(fee.get("item"))
        code, kind = text_of(item, "code"), text_of(item, "type")
        unit = fee_unit(code)
        number = text_of(invoice, "number", "lago_id") or text_of(fee, "lago_invoice_id")
        self.seen.add(text_of(fee, "lago_id"))
        return BillingLine(
            self.line,
            number,
            tenant,
            sku,
            description,
            fee_plan(invoice, fee),
            start_us,
            end_us,
            fee_units(fee),
            unit,
            amount,
            currency,
            category_of(amount, description, named=fee_category(invoice, kind, amount)),
            number or f"lago/{text_of(fee, 'lago_id')}",
            int(text_of(invoice, "status") == "finalized"),
            gpu_of(sku, description, unit=unit),
        )

    def _refuse_what_is_no_revenue(self, invoice: Object, fee: Object) -> None:
        status = text_of(invoice, "status")
        if status and status != "finalized":
            raise RowRefused("status", status, "not_final: only finalized invoices are revenue")
        kind = text_of(as_object(fee.get("item")), "type")
        if kind == "credit" or text_of(invoice, "invoice_type") == "credit":
            reason = "prepayment: a wallet's top-up is no revenue; what it pays for is billed by its own fees"
            raise RowRefused("item.type", kind, reason)
        fee_id = text_of(fee, "lago_id")
        if fee_id and fee_id in self.seen:
            raise RowRefused("lago_id", fee_id, "duplicate_line: this fee came before in this file")

    def _deductions(self, invoice: Object, made: list[BillingLine]) -> Iterator[BillingLine]:
        start_us, end_us = min(line.start_us for line in made), max(line.end_us for line in made)
        for name, category, words in _DEDUCTIONS:
            amount = self._deducted(invoice, name, made[0].currency)
            if amount:
                yield made[0]._replace(
                    sku=words, description=words, plan="", start_us=start_us, end_us=end_us, quantity=None, unit="",
                    amount=-amount, category=category, gpu=None,
                )  # fmt: skip
        name = "credit_notes_amount_cents"
        amount = self._deducted(invoice, name, made[0].currency)
        if amount:
            reason = "credit_note: it pays this invoice and lowers an earlier one's revenue: give the credit notes too"
            self._reject(RowRefused(name, str(amount), reason), -amount, made[0].currency)

    def _deducted(self, invoice: Object, name: str, currency: str) -> Decimal:
        """An amount that an invoice takes off its fees; 0, and listed, for one that can't be read."""
        if not text_of(invoice, name):
            return Decimal(0)
        try:
            return fee_money(invoice, name, currency)[0]
        except RowRefused as refused:
            self._reject(refused, None, currency)
            return Decimal(0)

    def _reject(self, refused: RowRefused, amount: Decimal | None, currency: str) -> None:
        self.rejections.add(
            self.source.name, self.line, refused.column, refused.value, refused.reason, amount, currency
        )


IMPORTERS = (Importer("Lago invoices", BILLING, detect, read),)
