"""Which rows a line gets, what each shows, and what it costs; every amount computed by hand."""

from decimal import Decimal
from typing import Any

import pytest
from wattledger_core.cost import CostRow
from wattledger_core.ids import digest
from wattledger_core.line import IDLE, STRANDED, UNAVAILABLE, Line

from tests.pricing_builders import (
    QUARTER,
    corrected_line,
    energy_line,
    price,
    pricer,
    reversed_line,
    tick,
    time_line,
)

BOOK = (
    price("compute", "2.00", offset=0, site="fra1", gpu_model="H100"),
    price("energy", "0.30", offset=1, site="fra1", pue=Decimal("1.25")),
    price("rate", "3.00", offset=2, gpu_model="H100"),
    price("rate", "1.00", offset=3, plan="reserved"),
    price("pool", "0.40", offset=4, pool_name="fabric", driver="installed_gpu_h"),
    price("pool", "0.20", offset=5, pool_name="licences", driver="held_gpu_h", marginal=True),
    price("pool", "0.05", offset=6, pool_name="cooling", driver="kwh", marginal=True),
    tick(100_000),
)


def priced(line: Line, *more: Any) -> dict[str, str]:
    """Component → cost, or its status and reason."""
    rows = pricer(*BOOK[:-1], *more, BOOK[-1]).price([line])
    return {row.component: f"{row.cost.normalize():f}" if row.cost is not None else row.reason for row in rows}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # 0.25 h × 2.00, × 0.40, × 0.20, × 3.00
        (time_line(), {"compute": "0.5", "pool:fabric": "0.1", "pool:licences": "0.05", "billed": "0.75"}),
        (time_line(plan="reserved"),
         {"compute": "0.5", "pool:fabric": "0.1", "pool:licences": "0.05", "billed": "0.25"}),
        (time_line(state="reserved_unused", plan="reserved", sku=""),
         {"compute": "0.5", "pool:fabric": "0.1", "billed": "0.25"}),
        (time_line(state="stranded"), {"compute": "0.5", "pool:fabric": "0.1"}),
        (time_line(state="free", tenant=IDLE, plan=""), {"compute": "0.5", "pool:fabric": "0.1"}),
        (time_line(state="unavailable", tenant=UNAVAILABLE), {"compute": "0.5", "pool:fabric": "0.1"}),
        (time_line(state="stranded", tenant=STRANDED), {"compute": "0.5", "pool:fabric": "0.1"}),
        (time_line(device_us=QUARTER // 3),
         {"compute": "0.166666666667", "pool:fabric": "0.033333333333", "pool:licences": "0.016666666667",
          "billed": "0.25"}),
        (time_line(gpu_model="A100", sku="a100"),
         {"compute": "no_price", "pool:fabric": "0.1", "pool:licences": "0.05", "billed": "no_price"}),
        # 0.1 kWh × 0.30 × 1.25; × 0.05 (a pool has no PUE)
        (energy_line(), {"energy": "0.0375", "pool:cooling": "0.005"}),
        (energy_line(state="idle", tenant=IDLE), {"energy": "0.0375", "pool:cooling": "0.005"}),
        # 1 µJ: 0.375 / 3.6e12 = 1.04e-13, rounded once to 12 decimals
        (energy_line(energy_uj=1), {"energy": "0", "pool:cooling": "0"}),
        (energy_line(energy_uj=None, reason="no_counter"), {"energy": "no_counter", "pool:cooling": "no_counter"}),
        (energy_line(site="fra2"), {"energy": "no_price", "pool:cooling": "0.005"}),
    ],
)  # fmt: skip
def test_a_lines_components_and_costs(line: Line, expected: dict[str, str]) -> None:
    assert priced(line) == expected


@pytest.mark.parametrize("plan", ["internal", "trial"])
def test_internal_and_trial_plans_are_billed_only_where_a_rate_says_so(plan: str) -> None:
    line = time_line(plan=plan, gpu_model="A100", sku="")
    assert "billed" not in priced(line)
    assert priced(line, price("rate", "0.80", offset=9, plan=plan))["billed"] == "0.2"


def test_reserved_time_not_used_is_billed_only_by_a_rate_for_the_reserved_plan() -> None:
    rows = pricer(price("rate", "3.00", offset=0, gpu_model="H100"), tick(100_000)).price(
        [time_line(state="reserved_unused", plan="reserved", sku="")]
    )
    assert [row.component for row in rows] == ["compute"]


def test_a_tie_is_rounded_half_even() -> None:
    # 3600 s × 0.0000000000005 would be 5e-13 and 1.5e-12: both ties of the 12th decimal
    halves = pricer(price("compute", "0.000000000002", offset=0), tick(100_000))
    quarter_h = QUARTER
    rows = halves.price([time_line(device_us=quarter_h), time_line(device_us=3 * quarter_h)])
    assert [row.cost for row in rows if row.component == "compute"] == [Decimal(0), Decimal("0.000000000002")]


def test_an_unmeasured_row_shows_no_quantity_and_no_price() -> None:
    row = pricer(*BOOK).price([energy_line(energy_uj=None, reason="no_counter")])[0]
    assert (row.status, row.quantity, row.cost, row.rate, row.price_id) == ("unmeasured", None, None, None, "")
    assert row.marginal


def test_every_column_of_a_row_comes_from_the_column_of_the_same_name() -> None:
    line = time_line(line_id="line-1", reason="why", start_us=7, end_us=9, entry="correction", cause_id="late-3")
    row = next(row for row in pricer(*BOOK).price([line]) if row.component == "compute")
    shared = [name for name in CostRow._fields if name in Line._fields and name != "reason"]
    assert len(shared) == 23
    assert {name: getattr(row, name) for name in shared} == {name: getattr(line, name) for name in shared}
    assert (row.quantity, row.unit, row.rate, row.pue, row.currency) == (QUARTER, "us", Decimal("2.00"), None, "EUR")
    assert (row.price_id, row.marginal, row.status, row.reason) == ("p0", False, "priced", "")
    assert row.price_revision_id == digest("price-revision", "p0", 0, 0, 0)


def test_marginal_is_energy_and_the_pools_that_say_so() -> None:
    rows = pricer(*BOOK).price([time_line(), energy_line()])
    assert {row.component for row in rows if row.marginal} == {"energy", "pool:licences", "pool:cooling"}


def test_row_ids_are_made_of_the_line_and_the_component() -> None:
    rows = pricer(*BOOK).price([time_line(line_id="line-1"), energy_line(line_id="zürich")])
    assert [row.row_id for row in rows] == [digest("cost", row.line_id, row.component) for row in rows]
    assert len({row.row_id for row in rows}) == len(rows) == 6


def test_a_reversal_lines_rows_are_the_exact_negation_of_the_originals() -> None:
    line = time_line(device_us=QUARTER // 3)
    original, reversal = (pricer(*BOOK).price([found]) for found in (line, reversed_line(line)))
    assert [(row.component, -(row.cost or 0), -(row.quantity or 0)) for row in original] == [
        (row.component, row.cost, row.quantity) for row in reversal
    ]
    assert {(row.sign, row.entry, row.cause_id) for row in reversal} == {(-1, "reversal", "late-1")}
    assert [row.of_row_id for row in reversal] == [row.row_id for row in original]


def test_a_reversal_that_rounds_to_nothing_has_no_negative_zero() -> None:
    row = pricer(*BOOK).price([reversed_line(energy_line(energy_uj=1))])[0]
    assert str(row.cost) == "0E-12"


def test_rows_of_a_corrected_line_say_what_corrected_it() -> None:
    rows = pricer(*BOOK).price([corrected_line(time_line(), "late-9")])
    assert {(row.sign, row.entry, row.cause_id, row.of_row_id) for row in rows} == {(1, "correction", "late-9", "")}
