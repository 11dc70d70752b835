"""Stripe's invoice line items: minor units of every currency, prorations, drafts, deliveries, whatever wraps them."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from wattledger_audit.intake import billing_stripe
from wattledger_audit.intake.refusal import InputRefused

from tests.unit.billing_reading import OCTOBER, Reading, read_text

D = Decimal
S = 1_000_000
NO_DECIMALS = (
    "jpy", "krw", "bif", "clp", "djf", "gnf", "kmf", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf",
)  # fmt: skip


def item(**changed: object) -> dict[str, object]:
    start, end = (us // S for us in OCTOBER)
    return {
        "id": "il_1000001", "object": "line_item", "amount": 123456, "currency": "usd", "description": "H100 GPU hours",
        "invoice": "in_1000001", "period": {"start": start, "end": end}, "proration": False, "quantity": 100,
        "metadata": {"tenant": "acme"},
    } | changed  # fmt: skip


def invoice(lines: list[dict[str, object]], **changed: object) -> dict[str, object]:
    return {
        "id": "in_1", "object": "invoice", "number": "ACME-0001", "status": "paid", "customer": "cus_1",
        "customer_name": "Acme", "currency": "usd", "lines": {"object": "list", "data": lines},
    } | changed  # fmt: skip


def read(folder: Path, document: object) -> Reading:
    text = document if isinstance(document, str) else json.dumps(document)
    return read_text(folder, text, billing_stripe.IMPORTERS, name="stripe.json")


def lost(found: Reading) -> list[tuple[int, str]]:
    """What was not used; that an item's invoice is not there is said beside it."""
    return [each for each in found.rejected if each[1] != "status_not_told"]


@pytest.mark.parametrize(
    ("currency", "amount"),
    [
        ("usd", "1234.56"), ("eur", "1234.56"), ("isk", "1234.56"), ("ugx", "1234.56"), ("kwd", "123.456"),
        ("bhd", "123.456"), ("jod", "123.456"), ("omr", "123.456"), ("tnd", "123.456"),
        *((code, "123456") for code in NO_DECIMALS),
    ],
)  # fmt: skip
def test_minor_units_are_those_of_the_currency(tmp_path: Path, currency: str, amount: str) -> None:
    found = read(tmp_path, {"data": [item(currency=currency)]})
    assert [(line.amount, line.currency) for line in found.lines] == [(D(amount), currency.upper())]


@pytest.mark.parametrize(
    "document",
    [
        {"object": "list", "data": [item()], "has_more": False},
        [item()],
        item(),
        json.dumps(item()) + "\n" + json.dumps(item(id="il_2000002", amount=0)),
        invoice([item(metadata={"tenant": "acme"})]),
        {"data": [invoice([item()])]},
        {"type": "invoice.finalized", "data": {"object": invoice([item()])}},
    ],
)
def test_line_items_are_found_in_whatever_wraps_them(tmp_path: Path, document: object) -> None:
    found = read(tmp_path, document)
    assert (found.total, found.lines[0].tenant, lost(found)) == (D("1234.56"), "acme", [])
    assert (found.lines[0].start_us, found.lines[0].end_us) == OCTOBER
    assert (found.lines[0].quantity, found.lines[0].gpu) == (D(100), True)


@pytest.mark.parametrize("status", ["draft", "void"])
def test_drafts_and_void_invoices_do_not_count_and_are_listed(tmp_path: Path, status: str) -> None:
    found = read(tmp_path, invoice([item(), item(id="il_2", amount=-100)], status=status))
    assert (found.lines, found.money) == ([], {"not_final": D("1233.56")})


@pytest.mark.parametrize("status", ["open", "paid", "uncollectible"])
def test_an_invoice_that_is_not_paid_is_still_revenue_and_final(tmp_path: Path, status: str) -> None:
    line = read(tmp_path, invoice([item(metadata={})], status=status)).lines[0]
    assert (line.tenant, line.invoice_id, line.delivery, line.delivery_rank) == ("Acme", "ACME-0001", "in_1000001", 1)


@pytest.mark.parametrize(
    ("changed", "category"),
    [
        ({"proration": True, "amount": -500, "description": "Unused time on H100"}, "adjustment"),
        ({"price": {"recurring": {"usage_type": "licensed"}}}, "commitment"),
        ({"price": {"recurring": {"usage_type": "metered"}}}, "usage"),
        ({"plan": {"usage_type": "licensed"}}, "commitment"),
        ({"amount": -500, "description": "SLA credit"}, "credit_sla"),
        ({"amount": -500, "description": "promo credit"}, "credit_promo"),
        ({"metadata": {"tenant": "acme", "category": "shortfall"}}, "shortfall"),
        ({"description": "Minimum commitment shortfall"}, "shortfall"),
    ],
)
def test_stripe_lines_get_their_category(tmp_path: Path, changed: dict[str, object], category: str) -> None:
    assert read(tmp_path, [item(**changed)]).categories() == [category]


def test_discounts_and_inclusive_tax_are_lines_and_nothing_is_lost(tmp_path: Path) -> None:
    changed = {
        "amount": 11900,
        "discount_amounts": [{"amount": 1000, "discount": "di_1"}],
        "tax_amounts": [{"amount": 1900, "inclusive": True}, {"amount": 700, "inclusive": False}],
    }
    found = read(tmp_path, [item(**changed)])
    assert [(line.category, line.amount) for line in found.lines] == [
        ("usage", D(100)), ("tax", D(19)), ("credit_promo", D(-10)),
    ]  # fmt: skip


def test_a_charge_for_an_instant_lies_in_its_month(tmp_path: Path) -> None:
    at_s = OCTOBER[0] // S
    line = read(tmp_path, [item(period={"start": at_s, "end": at_s})]).lines[0]
    assert (line.start_us, line.end_us) == (OCTOBER[0], OCTOBER[0] + S)


def test_the_same_item_twice_counts_once_and_a_missing_page_is_said(tmp_path: Path) -> None:
    found = read(tmp_path, {"data": [item(), item()], "has_more": True})
    assert found.total == D("1234.56")
    assert sorted(lost(found)) == [(1, "page_incomplete"), (2, "duplicate_line")]
    assert found.money == {"duplicate_line": D("1234.56")}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"currency": "zzz"}, "bad_currency"), ({"amount": 1.5}, "bad_amount"), ({"period": None}, "no_period"),
        ({"period": {"start": 20, "end": 10}}, "bad_period"), ({"metadata": {}, "invoice": None}, "no_tenant"),
    ],
)  # fmt: skip
def test_an_item_that_cannot_be_used_is_listed(tmp_path: Path, changed: dict[str, object], code: str) -> None:
    assert lost(read(tmp_path, [item(**changed)])) == [(1, code)]


def test_items_without_their_invoice_count_and_that_is_said_once(tmp_path: Path) -> None:
    found = read(tmp_path, [item(), item(id="il_2000002")])
    assert (found.total, found.rejected) == (D("2469.12"), [(1, "status_not_told")])
    assert read(tmp_path, [invoice([item()])]).rejected == []


def test_an_item_on_no_invoice_yet_is_billed_to_nobody(tmp_path: Path) -> None:
    pending = {"object": "invoiceitem", "customer": "cus_1"}
    found = read(tmp_path, [item(id="ii_1", invoice=None, **pending), item(id="ii_2", invoice="in_2", **pending)])
    assert (found.total, lost(found), found.money) == (D("1234.56"), [(1, "not_final")], {"not_final": D("1234.56")})


def note(lines: list[dict[str, object]], **changed: object) -> dict[str, object]:
    return {
        "id": "cn_1", "object": "credit_note", "number": "ACME-0001-CN-01", "status": "issued", "invoice": "in_1",
        "customer": "cus_1", "currency": "usd", "created": OCTOBER[1] // S + 86_400, "lines": {"data": lines},
    } | changed  # fmt: skip


def noted(**changed: object) -> dict[str, object]:
    return {
        "id": "cnli_1", "object": "credit_note_line_item", "amount": 5000, "description": "refund of H100 hours",
        "invoice_line_item": "il_1000001", "quantity": 25,
    } | changed  # fmt: skip


def test_a_credit_note_takes_back_revenue_of_the_service_that_it_credits(tmp_path: Path) -> None:
    found = read(tmp_path, [note([noted()]), invoice([item(metadata={})])])
    assert (found.total, found.rejected) == (D("1184.56"), [])
    refund = found.lines[0]
    assert (refund.amount, refund.category, refund.tenant, refund.quantity) == (D("-50"), "refund", "Acme", None)
    assert (refund.start_us, refund.end_us) == OCTOBER
    assert (refund.invoice_id, refund.delivery, refund.gpu) == ("ACME-0001-CN-01", "cn_1", True)


def test_a_credit_note_alone_lies_where_it_was_issued(tmp_path: Path) -> None:
    found = read(tmp_path, {"data": [note([noted(discount_amounts=[{"amount": 1000}])])]})
    assert [(line.amount, line.category, line.tenant) for line in found.lines] == [
        (D(-50), "refund", "cus_1"), (D(10), "credit_promo", "cus_1"),
    ]  # fmt: skip
    assert {line.start_us for line in found.lines} == {OCTOBER[1] + 86_400 * S}


def test_a_void_credit_note_takes_nothing_back(tmp_path: Path) -> None:
    found = read(tmp_path, note([noted()], status="void"))
    assert (found.lines, found.money) == ([], {"not_final": D("-50")})


def test_only_the_last_page_of_a_file_has_to_be_the_last(tmp_path: Path) -> None:
    pages = [{"object": "list", "data": [invoice([item(id=f"il_{n}")])], "has_more": n < 2} for n in range(3)]
    assert read(tmp_path, "\n".join(map(json.dumps, pages))).rejected == []
    assert read(tmp_path, "\n".join(map(json.dumps, pages[:2]))).rejected == [(2, "page_incomplete")]
    assert read(tmp_path, pages[:1]).rejected == [(1, "page_incomplete")]
    cut = {**invoice([]), "lines": {"object": "list", "data": [item()], "has_more": True}}
    assert read(tmp_path, {"data": [cut, invoice([item(id="il_9")])]}).rejected == [(1, "page_incomplete")]


@pytest.mark.parametrize(("status", "code"), [("paid", "no_lines"), ("draft", "not_final")])
def test_an_invoice_without_its_lines_is_listed_with_its_money(tmp_path: Path, status: str, code: str) -> None:
    bare = {key: value for key, value in invoice([], total=123400, status=status).items() if key != "lines"}
    found = read(tmp_path, {"data": [bare, invoice([item()])]})
    assert (found.total, found.rejected, found.money) == (D("1234.56"), [(1, code)], {code: D(1234)})


def test_the_exact_quantity_counts_where_there_is_one(tmp_path: Path) -> None:
    assert read(tmp_path, [item(quantity=62, quantity_decimal="61.725")]).lines[0].quantity == D("61.725")


def test_a_customer_without_its_name_has_the_one_that_it_has_elsewhere(tmp_path: Path) -> None:
    pair = [invoice([item(metadata={})]), invoice([item(metadata={}, id="il_2")], customer_name=None)]
    assert [line.tenant for line in read(tmp_path, pair).lines] == ["Acme", "Acme"]


def test_customers_with_one_name_stay_apart(tmp_path: Path) -> None:
    pair = [invoice([item(metadata={}, id=f"il_{n}")], customer=f"cus_{n}") for n in (1, 2)]
    assert [line.tenant for line in read(tmp_path, pair).lines] == ["Acme (cus_1)", "Acme (cus_2)"]


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match=r"stripe.json, line 2: no JSON"):
        read(tmp_path, json.dumps(item()) + "\n{broken")


CSV = "id,invoice_id,customer_name,customer_id,description,amount,currency,period_start,period_end,quantity,proration\n"


@pytest.mark.parametrize(
    ("amounts", "total"), [(("123456", "-100"), "1233.56"), (("1,234.56", "-1.00"), "1233.56"), (("12.00", "3"), "15")]
)
def test_a_csv_export_is_in_minor_units_unless_it_has_a_decimal_point(
    tmp_path: Path, amounts: tuple[str, str], total: str
) -> None:
    rows = [
        f'il_{n},in_1,Acme,cus_1,H100,"{amount}",usd,2026-10-01 00:00:00,1793491200,5,{"true" if n else "false"}\n'
        for n, amount in enumerate(amounts)
    ]
    found = read_text(tmp_path, CSV + "".join(rows), billing_stripe.IMPORTERS)
    assert (found.total, found.categories()) == (D(total), ["usage", "adjustment"])
    assert {(line.start_us, line.end_us, line.delivery, line.tenant) for line in found.lines} == {
        (*OCTOBER, "in_1", "Acme")
    }
