"""Purchases month by month: payments, actual hours, service lives; every amount worked out by hand."""

from datetime import date
from decimal import Decimal
from fractions import Fraction

import pytest
from wattledger_audit.assessment.cost_purchase import (
    MonthCost,
    Purchase,
    hourly_rate,
    local_months,
    money,
    month_costs,
    monthly_payment,
)
from wattledger_core.interval import FOREVER_US
from wattledger_core.units import US_PER_HOUR
from wattledger_core.verdict_idle import split_money
from wattledger_streams.tariff_file_zone import load_zone, utc_us

from tests.pricing_builders import at

BERLIN = load_zone("Europe/Berlin")
OCTOBER = (at("2026-10-01T00:00+02:00"), at("2026-11-01T00:00+01:00"))
EVER = (0, FOREVER_US)


def bought(price: str, months: int, **changes: str | int | None) -> Purchase:
    fields: dict[str, str | int | None] = {"residual": "0", "interest_rate": "0", "hosting": "0", "in_service": None}
    fields |= changes
    in_service = fields["in_service"]
    return Purchase(
        Fraction(price),
        Fraction(str(fields["residual"])),
        months,
        Fraction(str(fields["interest_rate"])),
        None if in_service is None else utc_us(str(in_service), BERLIN),
        Fraction(str(fields["hosting"])),
    )


def costs(purchase: Purchase, start: str, end: str, span: tuple[int, int] = EVER) -> list[MonthCost]:
    return list(month_costs(purchase, BERLIN, span, (utc_us(start, BERLIN), utc_us(end, BERLIN))))


def test_a_hundred_a_month_is_a_hundred_in_a_month_of_745_hours() -> None:
    (october,) = costs(bought("3600", 36, in_service="2026-01-01"), "2026-10-01", "2026-11-01")
    assert (october.start_us, october.end_us) == OCTOBER
    hours = (october.end_us - october.start_us) // US_PER_HOUR
    amount = money(october.amount)
    assert (hours, amount) == (745, Decimal(100))
    assert hourly_rate(amount, *OCTOBER) == Decimal("0.134228187919")
    assert sum(split_money(amount, [1] * hours)) == Decimal(100) != Decimal("100.01073888")


@pytest.mark.parametrize(
    ("zone", "month", "hours"),
    [
        ("Europe/Berlin", "2026-03", 743),
        ("Europe/Berlin", "2026-10", 745),
        ("Europe/Berlin", "2026-02", 672),
        ("Europe/Berlin", "2028-02", 696),
        ("America/New_York", "2026-03", 743),
        ("America/New_York", "2026-11", 721),
        ("Asia/Kolkata", "2026-10", 744),
        ("UTC", "2026-10", 744),
        # clocks skipped the first hour of this month
        ("America/Asuncion", "2017-10", 743),
    ],
)
def test_a_month_has_its_actual_local_hours(zone: str, month: str, hours: int) -> None:
    middle_us = at(f"{month}-15T12:00Z")
    (found,) = local_months(load_zone(zone), middle_us, middle_us + 1)
    assert found[1] - found[0] == hours * US_PER_HOUR


def test_months_follow_each_other_over_the_end_of_a_year() -> None:
    found = list(local_months(BERLIN, at("2026-11-30T23:30+01:00"), at("2027-02-01T00:00+01:00")))
    assert [start for start, _ in found] == [
        at("2026-11-01T00:00+01:00"), at("2026-12-01T00:00+01:00"), at("2027-01-01T00:00+01:00"),
    ]  # fmt: skip
    assert found[-1][1] == at("2027-02-01T00:00+01:00")


@pytest.mark.parametrize(
    ("purchase", "payment"),
    [
        (bought("3600", 36), "100"),
        (bought("3600", 36, residual="360"), "90"),
        (bought("30000", 48, residual="30000"), "0"),
        # a loan of 10,000 over 60 months at 5 %, and of 200,000 over 360 at 6.5 %, as any loan table has them
        (bought("10000", 60, interest_rate="0.05"), "188.712336440109"),
        (bought("200000", 360, interest_rate="0.065"), "1264.136046985927"),
        # one month: the price and a month's interest on it, less what it is still worth
        (bought("1200", 1, interest_rate="0.12", residual="200"), "1012"),
        # worth what it cost for ever: the interest alone
        (bought("1200", 24, interest_rate="0.12", residual="1200"), "12"),
    ],
)
def test_the_payment_of_a_month_is_level(purchase: Purchase, payment: str) -> None:
    assert money(monthly_payment(purchase)) == Decimal(payment)


@pytest.mark.parametrize(("rate", "residual"), [("0.05", "0"), ("0.0725", "3000"), ("0.3", "29999.99")])
def test_discounted_payments_and_residual_are_worth_the_price(rate: str, residual: str) -> None:
    purchase = bought("30000", 37, interest_rate=rate, residual=residual)
    growth = 1 + Fraction(rate) / 12
    worth = sum(monthly_payment(purchase) / growth**n for n in range(1, 38)) + Fraction(residual) / growth**37
    assert worth == 30000


def test_payments_run_from_in_service_for_their_months_and_hosting_goes_on() -> None:
    purchase = bought("300", 3, in_service="2026-02-01", hosting="7")
    found = [(money(c.amount), c.start_us) for c in costs(purchase, "2026-01-01", "2026-07-01")]
    assert found == [
        (Decimal(107), at("2026-02-01T00:00+01:00")),
        (Decimal(107), at("2026-03-01T00:00+01:00")),
        (Decimal(107), at("2026-04-01T00:00+02:00")),
        (Decimal(7), at("2026-05-01T00:00+02:00")),
        (Decimal(7), at("2026-06-01T00:00+02:00")),
    ]


def test_nothing_is_left_after_the_last_payment_without_hosting() -> None:
    found = costs(bought("300", 3, in_service="2026-02-01"), "2026-05-01", "2027-01-01")
    assert sum(cost.amount for cost in found) == 0


def test_a_month_begun_in_its_middle_bears_its_share_by_hours() -> None:
    (october,) = costs(bought("3600", 36, in_service="2026-10-16", hosting="10"), "2026-10-01", "2026-11-01")
    assert (october.start_us, october.end_us) == (at("2026-10-16T00:00+02:00"), OCTOBER[1])
    assert october.amount == 110 * Fraction(16 * 24 + 1, 745)


def test_the_month_of_the_last_payment_is_cut_where_it_ends() -> None:
    found = costs(bought("300", 3, in_service="2026-02-11", hosting="31"), "2026-05-01", "2026-06-01")
    (before, after) = found
    assert before.end_us == after.start_us == at("2026-05-11T00:00+02:00")
    # February bore 18 of its 28 days, so 10/28 of a payment are left for ten days of May
    assert before.amount == 100 * Fraction(10, 28) + 31 * Fraction(10, 31)
    assert after.amount == 31 * Fraction(21, 31)


@pytest.mark.parametrize(
    "in_service", ["2026-01-01", "2026-10-16", "2026-01-31", "2024-02-29", "2026-03-29T12:00", "2025-12-31T23:59"]
)
@pytest.mark.parametrize("months", [1, 2, 13, 36])
def test_all_payments_sum_to_the_price_less_the_residual(in_service: str, months: int) -> None:
    purchase = bought("10000", months, in_service=in_service, residual="1234.56")
    assert sum(cost.amount for cost in costs(purchase, "2023-01-01", "2031-01-01")) == Fraction("8765.44")


def test_an_entry_that_ends_ends_its_payments() -> None:
    purchase = bought("3100", 31, in_service="2026-01-01")
    span = (0, utc_us("2026-03-11", BERLIN))
    found = costs(purchase, "2026-03-01", "2026-05-01", span)
    assert [(cost.end_us, cost.amount) for cost in found] == [(span[1], 100 * Fraction(240, 743))]


def test_without_a_date_in_service_every_month_has_a_payment() -> None:
    assert [cost.amount for cost in costs(bought("3600", 36), "2026-10-01", "2027-10-01")] == [100] * 12


def test_only_months_that_touch_the_period_come_and_they_come_whole() -> None:
    found = costs(bought("3600", 36, in_service="2026-01-01"), "2026-10-31T23:00", "2026-11-01T01:00")
    assert [(cost.amount, (cost.end_us - cost.start_us) // US_PER_HOUR) for cost in found] == [
        (Fraction(100), 745),
        (Fraction(100), 720),
    ]


@pytest.mark.parametrize(
    ("exact", "rounded"),
    [
        (Fraction(1, 3), "0.333333333333"),
        (Fraction(25, 10**13), "0.000000000002"),
        (Fraction(35, 10**13), "0.000000000004"),
        (Fraction(-1, 3), "-0.333333333333"),
        (Fraction(123456789012345678901234567890), "123456789012345678901234567890"),
    ],
)
def test_money_is_rounded_once_half_even_at_twelve_decimals(exact: Fraction, rounded: str) -> None:
    assert money(exact) == Decimal(rounded)


def test_a_life_beyond_the_calendar_does_not_end() -> None:
    assert date.max.year == 9999
    (found,) = costs(bought("1200", 1200, in_service="9950-01-01"), "9950-01-01", "9950-02-01")
    assert found.amount == 1
