"""Totals that refuse to hide what has no price."""

from decimal import Decimal

import pytest
from wattledger_core.pricing_total import MixedCurrencies, Total, UnpricedTotal, total

from tests.pricing_builders import energy_line, price, pricer, reversed_line, tick, time_line

COMPUTE = price("compute", "2.00", offset=0)


def test_a_total_sums_what_stands() -> None:
    rows = pricer(COMPUTE, price("rate", "3", offset=1), tick(10_000)).price([time_line(0), time_line(1)])
    assert total(row for row in rows if row.component == "compute") == Total(Decimal(1), "EUR", 0, 0)


def test_a_total_with_unpriced_rows_is_refused_and_names_them() -> None:
    rows = pricer(COMPUTE, tick(10_000)).price([time_line(0), time_line(1), energy_line()])
    with pytest.raises(UnpricedTotal) as refusal:
        total(rows)
    message = str(refusal.value)
    assert message.startswith("3 rows have no price: 2 of billed to acme, plan on_demand, sku h100, H100 at fra1")
    assert "1 of energy of H100 at fra1 (no_price)" in message


def test_a_total_with_unpriced_rows_can_be_asked_for_and_says_how_many() -> None:
    rows = pricer(COMPUTE, tick(10_000)).price([time_line(0), time_line(1)])
    assert total(rows, allow_unpriced=True) == Total(Decimal(1), "EUR", 2, 0)


def test_unpriced_rows_that_were_taken_back_refuse_nothing() -> None:
    line = time_line()
    rows = pricer(tick(10_000)).price([line, reversed_line(line)])
    assert total(rows) == Total(Decimal(0), "", 0, 0)


def test_a_late_price_makes_an_unpriced_total_whole() -> None:
    late = price("rate", "3", offset=2, reason="contract came late")
    rows = pricer(COMPUTE, tick(5_000), late).price([time_line()])
    assert total(row for row in rows if row.component == "billed") == Total(Decimal("0.75"), "EUR", 0, 0)


def test_unmeasured_rows_are_counted() -> None:
    rows = pricer(price("energy", "0.3", offset=0), tick(10_000)).price([energy_line(energy_uj=None, reason="gap")])
    assert total(rows) == Total(Decimal(0), "", 0, 1)


def test_currencies_are_never_added_up() -> None:
    mixed = pricer(COMPUTE, price("rate", "3", offset=1, currency="USD"), tick(10_000)).price([time_line()])
    with pytest.raises(MixedCurrencies, match="EUR, USD"):
        total(mixed)
