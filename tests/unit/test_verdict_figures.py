"""Uses and idle pools folded from lines and rows: each line is a quarter-hour at 2.00 compute, 3.00 billed, and 0.1 kWh
at 0.40, so 0.50 compute, 0.75 billed and 0.04 energy."""

from decimal import Decimal

import pytest
from wattledger_core.line import IDLE, STRANDED, UNATTRIBUTED, UNAVAILABLE, Line
from wattledger_core.verdict_figures import Figures, figures
from wattledger_core.verdict_idle import IdlePool

from tests.pricing_builders import (
    QUARTER,
    S,
    corrected_line,
    energy_line,
    price,
    pricer,
    reversed_line,
    tick,
    time_line,
)

BOOK = (
    price("compute", "2.00", offset=0),
    price("energy", "0.40", offset=1),
    price("rate", "3.00", offset=2),
    price("rate", "1.00", offset=3, plan="reserved"),
    tick(1_000_000),
)
ZERO = Decimal(0)


def of(*lines: Line) -> Figures:
    return figures(lines, pricer(*BOOK).price(lines))


def test_a_held_quarter_hour_is_cost_beside_what_it_is_billed() -> None:
    (use,) = of(time_line(), energy_line()).uses
    assert (use.tenant, use.sku, use.plan, use.site, use.gpu_model) == ("acme", "h100", "on_demand", "fra1", "H100")
    assert (use.held_us, use.billable_us, use.measured_us) == (QUARTER, QUARTER, QUARTER)
    assert (use.marginal_cost, use.own_cost, use.billed) == (Decimal("0.04"), Decimal("0.54"), Decimal("0.75"))
    assert use.unpriced_rows == 0


def test_free_time_and_idle_energy_are_the_pools() -> None:
    found = of(time_line(state="free", tenant=IDLE), energy_line(state="idle", tenant=IDLE))
    assert found == ([], [IdlePool("fra1", "H100", QUARTER, Decimal("0.54"))])


@pytest.mark.parametrize(
    ("state", "tenant"),
    [("unavailable", UNAVAILABLE), ("stranded", STRANDED), ("unattributed", UNATTRIBUTED)],
)
def test_what_is_neither_a_customers_nor_idle_is_in_neither_part(state: str, tenant: str) -> None:
    assert of(time_line(state=state, tenant=tenant)) == ([], [])


def test_stranded_time_is_spread_over_what_its_holder_held_on_the_plan_by_held_time() -> None:
    found = of(
        time_line(device_us=QUARTER // 4),
        time_line(line_id="b", sku="big", device_us=QUARTER * 3 // 4),
        time_line(line_id="c", plan="spot"),
        time_line(line_id="s", state="stranded", sku=""),
    )
    assert {(use.sku, use.plan): use.own_cost for use in found.uses} == {
        ("h100", "on_demand"): Decimal("0.25"),  # 0.125 + 0.50 × 1/4
        ("big", "on_demand"): Decimal("0.75"),  # 0.375 + 0.50 × 3/4
        ("h100", "spot"): Decimal("0.50"),
    }


def test_a_reservation_that_nobody_used_is_its_holders_cost_and_bill() -> None:
    (use,) = of(time_line(state="reserved_unused", plan="reserved", sku="")).uses
    assert (use.tenant, use.plan, use.held_us, use.billable_us) == ("acme", "reserved", 0, QUARTER)
    assert (use.own_cost, use.billed) == (Decimal("0.50"), Decimal("0.25"))


def test_rows_without_a_price_are_counted_until_they_are_taken_back() -> None:
    line = time_line()
    unpriced = pricer(BOOK[0], tick(1_000_000))
    (use,) = figures([line], unpriced.price([line])).uses
    assert (use.unpriced_rows, use.billed) == (1, ZERO)
    moved = [line, reversed_line(line), corrected_line(line, tenant="bolt")]
    (other,) = figures(moved, unpriced.price(moved)).uses
    assert (other.tenant, other.unpriced_rows, other.own_cost) == ("bolt", 1, Decimal("0.50"))


@pytest.mark.parametrize(
    ("energy", "measured_us"),
    [
        ([], 0),
        ([energy_line(), energy_line(line_id="u", energy_uj=None, span_us=10 * S, reason="gap")], QUARTER * 3 // 4),
        ([energy_line(energy_uj=None, reason="gap")], 0),
        ([energy_line(1)], 0),
        ([energy_line(), energy_line(line_id="u", energy_uj=None, reason="gap"),
          reversed_line(energy_line(line_id="u", energy_uj=None, reason="gap"))], QUARTER),
    ],
)  # fmt: skip
def test_held_time_counts_as_measured_in_the_share_of_its_span_with_known_energy(
    energy: list[Line], measured_us: int
) -> None:
    assert of(time_line(), *energy).uses[0].measured_us == measured_us
