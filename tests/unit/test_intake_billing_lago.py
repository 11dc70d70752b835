"""Lago invoices: only final ones count, fees are net of tax, periods end as the customer's own zone says."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from wattledger_audit.intake import billing_lago

from tests.unit.billing_reading import OCTOBER, Reading, at, read_text

D = Decimal


def fee(**changed: object) -> dict[str, object]:
    return {
        "lago_id": "f1", "amount_cents": 123456, "amount_currency": "EUR", "units": "100.50",
        "taxes_amount_cents": 23456, "total_amount_cents": 146912,
        "item": {"type": "charge", "code": "gpu_hours", "name": "GPU hours", "filters": {"model": ["H100"]}},
        "from_date": "2026-10-01", "to_date": "2026-10-31", "external_subscription_id": "sub",
    } | changed  # fmt: skip


def invoice(*fees: dict[str, object], **changed: object) -> dict[str, object]:
    return {
        "lago_id": "i1", "number": "LAG-1", "issuing_date": "2026-11-02", "status": "finalized", "currency": "EUR",
        "customer": {"external_id": "acme", "name": "Acme Inc", "applicable_timezone": "UTC"},
        "subscriptions": [{"external_id": "sub", "plan_code": "on_demand"}], "fees": list(fees),
    } | changed  # fmt: skip


def read(folder: Path, document: object) -> Reading:
    text = document if isinstance(document, str) else json.dumps(document)
    return read_text(folder, text, billing_lago.IMPORTERS, name="lago.json")


@pytest.mark.parametrize(
    "document",
    [
        invoice(fee()),
        {"invoice": invoice(fee())},
        {"invoices": [invoice(fee())], "meta": {}},
        [invoice(fee())],
        json.dumps(invoice(fee())) + "\n" + json.dumps(invoice(number="LAG-2")),
    ],
)
def test_fees_are_net_lines_of_their_invoice(tmp_path: Path, document: object) -> None:
    line = read(tmp_path, document).lines[0]
    assert (line.amount, line.currency, line.quantity, line.unit) == (D("1234.56"), "EUR", D("100.50"), "gpu_hours")
    assert (line.tenant, line.sku, line.plan, line.category) == ("acme", "gpu_hours/H100", "on_demand", "usage")
    assert (line.start_us, line.end_us, line.gpu) == (*OCTOBER, True)
    assert (line.invoice_id, line.delivery, line.delivery_rank) == ("LAG-1", "LAG-1", 1)


@pytest.mark.parametrize("status", ["draft", "voided", "failed", "pending", "generating"])
def test_invoices_that_are_not_final_are_listed_with_their_money(tmp_path: Path, status: str) -> None:
    found = read(tmp_path, invoice(fee(), fee(lago_id="f2", amount_cents=-56), status=status))
    assert (found.lines, found.money) == ([], {"not_final": D("1234")})


@pytest.mark.parametrize(
    ("zone", "start", "end", "expected"),
    [
        ("UTC", "2026-10-01", "2026-10-31", OCTOBER),
        ("Europe/Berlin", "2026-10-01", "2026-10-31", (at("2026-09-30T22:00"), at("2026-10-31T23:00"))),
        ("UTC", "2026-10-01T00:00:00Z", "2026-10-31T23:59:59Z", OCTOBER),
        (
            "Europe/Berlin",
            "2026-09-30T22:00:00Z",
            "2026-10-31T22:59:59Z",
            (at("2026-09-30T22:00"), at("2026-10-31T23:00")),
        ),
        ("UTC", "2026-10-01T00:00:00+00:00", "2026-10-31T23:59:59.999Z", OCTOBER),
    ],
)
def test_periods_end_with_their_last_day_in_the_customers_zone(
    tmp_path: Path, zone: str, start: str, end: str, expected: tuple[int, int]
) -> None:
    customer = {"external_id": "acme", "applicable_timezone": zone}
    line = read(tmp_path, invoice(fee(from_date=start, to_date=end), customer=customer)).lines[0]
    assert (line.start_us, line.end_us) == expected


@pytest.mark.parametrize(
    ("kind", "amount", "category"),
    [
        ("charge", 1, "usage"), ("subscription", 1, "commitment"), ("commitment", 1, "shortfall"),
        ("add_on", 1, "usage"), ("subscription", -1, "adjustment"),
    ],
)  # fmt: skip
def test_fee_types_become_revenue_categories(tmp_path: Path, kind: str, amount: int, category: str) -> None:
    item = {"type": kind, "code": "h100", "name": "H100"}
    assert read(tmp_path, invoice(fee(item=item, amount_cents=amount))).categories() == [category]


def test_a_wallets_top_up_is_no_revenue_and_is_listed(tmp_path: Path) -> None:
    found = read(tmp_path, invoice(fee(item={"type": "credit", "code": "credit"})))
    assert (found.lines, found.money) == ([], {"prepayment": D("1234.56")})


def test_coupons_and_progressive_invoices_lower_the_revenue(tmp_path: Path) -> None:
    found = read(tmp_path, invoice(fee(), coupons_amount_cents=1000, progressive_billing_credit_amount_cents=456))
    assert [(line.category, line.amount) for line in found.lines] == [
        ("usage", D("1234.56")), ("credit_promo", D(-10)), ("adjustment", D("-4.56")),
    ]  # fmt: skip


def test_a_credit_note_that_pays_is_listed_and_not_counted(tmp_path: Path) -> None:
    found = read(tmp_path, invoice(fee(), credit_notes_amount_cents=500))
    assert (found.total, found.money) == (D("1234.56"), {"credit_note": D(-5)})


@pytest.mark.parametrize(("currency", "amount"), [("JPY", "123456"), ("KWD", "123.456"), ("ISK", "123456")])
def test_minor_units_are_those_of_iso(tmp_path: Path, currency: str, amount: str) -> None:
    assert read(tmp_path, invoice(fee(amount_currency=currency))).total == D(amount)


def test_the_same_fee_twice_counts_once_but_a_yearly_plan_beside_monthly_charges_stays(tmp_path: Path) -> None:
    plan = fee(lago_id="f2", item={"type": "subscription", "code": "h100"})
    found = read(tmp_path, invoice(fee(), fee(), plan))
    assert (len(found.lines), found.rejected) == (2, [(2, "duplicate_line")])


def test_a_one_off_fee_without_dates_has_the_day_of_its_invoice(tmp_path: Path) -> None:
    line = read(tmp_path, invoice(fee(from_date=None, to_date=None))).lines[0]
    assert (line.start_us, line.end_us) == (at("2026-11-02"), at("2026-11-03"))


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"amount_currency": "zzz"}, "bad_currency"), ({"amount_cents": None}, "no_amount"),
        ({"units": "many"}, "bad_quantity"), ({"from_date": "soon"}, "bad_time"),
        ({"to_date": "2026-09-01"}, "bad_period"),
    ],
)  # fmt: skip
def test_a_fee_that_cannot_be_used_is_listed(tmp_path: Path, changed: dict[str, object], code: str) -> None:
    assert read(tmp_path, invoice(fee(**changed))).rejected == [(1, code)]


def credit_note(*items: dict[str, object], **changed: object) -> dict[str, object]:
    return {
        "lago_id": "cn1", "number": "LAG-1-CN1", "issuing_date": "2026-11-20", "credit_status": "available",
        "currency": "EUR", "total_amount_cents": 1190, "items": list(items),
    } | changed  # fmt: skip


def credited(cents: int, **changed: object) -> dict[str, object]:
    parts = {"external_customer_id": "acme"} | changed
    return {"lago_id": f"cni{cents}", "amount_cents": cents, "amount_currency": "EUR", "fee": fee(**parts)}


@pytest.mark.parametrize("wrapped", [lambda note: note, lambda note: {"credit_notes": [note]}, lambda note: [note]])
def test_a_credit_note_takes_back_revenue_of_its_fees_period(
    tmp_path: Path, wrapped: Callable[[dict[str, object]], object]
) -> None:
    found = read(tmp_path, wrapped(credit_note(credited(1000), credited(200, lago_id="f2"))))
    assert ([line.amount for line in found.lines], found.rejected) == ([D(-10), D(-2)], [])
    line = found.lines[0]
    assert (line.tenant, line.sku, line.category, line.quantity) == ("acme", "gpu_hours/H100", "refund", None)
    assert (line.start_us, line.end_us, line.delivery, line.delivery_rank) == (*OCTOBER, "LAG-1-CN1", 1)


def test_the_coupons_share_of_a_credit_note_was_never_paid(tmp_path: Path) -> None:
    found = read(tmp_path, credit_note(credited(1000), coupons_adjustment_amount_cents=150))
    assert [(line.amount, line.category) for line in found.lines] == [(D(-10), "refund"), (D("1.5"), "credit_promo")]


def test_a_void_credit_note_counts_only_if_it_has_paid_back(tmp_path: Path) -> None:
    void = credit_note(credited(1000), credit_status="voided", refund_amount_cents=0)
    assert (read(tmp_path, void).lines, read(tmp_path, void).money) == ([], {"not_final": D(-10)})
    assert read(tmp_path, {**void, "refund_amount_cents": 1190}).total == D(-10)


def test_a_credited_top_up_is_no_revenue_either(tmp_path: Path) -> None:
    found = read(tmp_path, credit_note(credited(1000, item={"type": "credit", "name": "wallet"})))
    assert (found.lines, found.money) == ([], {"prepayment": D(-10)})


def test_a_list_of_invoices_without_fees_is_refused_with_its_money(tmp_path: Path) -> None:
    bare = {key: value for key, value in invoice(fees_amount_cents=123456).items() if key != "fees"}
    draft = bare | {"status": "draft", "fees_amount_cents": 100}
    found = read(tmp_path, {"invoices": [bare, draft, invoice(fee())], "meta": {"next_page": None}})
    assert (found.total, found.rejected) == (D("1234.56"), [(1, "no_fees"), (2, "not_final")])
    assert found.money == {"no_fees": D("1234.56"), "not_final": D(1)}


def test_a_page_that_is_not_the_last_is_said(tmp_path: Path) -> None:
    pages = [
        {"invoices": [invoice(fee(lago_id=f"f{n}"))], "meta": {"next_page": n + 1 if n < 2 else None}} for n in (1, 2)
    ]
    assert read(tmp_path, "\n".join(map(json.dumps, pages))).rejected == []
    assert read(tmp_path, pages[0]).rejected == [(1, "page_incomplete")]


def test_fees_without_their_invoice_count_and_that_is_said_once(tmp_path: Path) -> None:
    fees = [fee(external_customer_id="acme"), fee(external_customer_id="acme", lago_id="f2")]
    found = read(tmp_path, {"fees": fees})
    assert (found.total, found.rejected) == (D("2469.12"), [(1, "status_not_told")])


@pytest.mark.parametrize("name", ["coupons_amount_cents", "credit_notes_amount_cents"])
def test_a_deduction_that_is_no_number_is_listed_and_the_fees_count(tmp_path: Path, name: str) -> None:
    found = read(tmp_path, invoice(fee(), **{name: "some"}))
    assert (found.total, found.rejected) == (D("1234.56"), [(1, "bad_amount")])
