"""Which price applies: the rank order, and exactly one winner or none."""

from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from wattledger_core.pricing_match import rank

from tests.pricing_builders import QUARTER, energy_line, price, pricer, tick, time_line

RATE_SCOPES: list[dict[str, str]] = [
    {},
    {"site": "fra1"},
    {"gpu_model": "H100"},
    {"gpu_model": "H100", "site": "fra1"},
    {"plan": "on_demand"},
    {"plan": "on_demand", "gpu_model": "H100"},
    {"sku": "h100"},
    {"sku": "h100", "plan": "on_demand"},
    {"tenant": "acme"},
    {"tenant": "acme", "gpu_model": "H100"},
    {"tenant": "acme", "sku": "h100", "plan": "on_demand", "gpu_model": "H100", "site": "fra1"},
]
"""From the least to the most specific; all match the test's line."""


def billed(*scoped: tuple[str, dict[str, Any]]) -> list[tuple[Decimal | None, str]]:
    prices = [price("rate", rate, offset=n, **scope) for n, (rate, scope) in enumerate(scoped)]
    rows = pricer(*prices, tick(10_000)).price([time_line()])
    return [(row.rate, row.reason) for row in rows if row.component == "billed"]


def test_ranks_follow_the_order_from_everywhere_to_a_tenants_contract() -> None:
    ranks = [rank(price("rate", "1", offset=0, **scope)) for scope in RATE_SCOPES]
    assert all(lower < higher for lower, higher in pairwise(ranks))


@pytest.mark.parametrize("place", range(1, len(RATE_SCOPES)))
def test_the_more_specific_price_wins_whichever_came_first(place: int) -> None:
    loose, tight = ("1", RATE_SCOPES[place - 1]), ("2", RATE_SCOPES[place])
    assert billed(loose, tight) == billed(tight, loose) == [(Decimal(2), "")]


@pytest.mark.parametrize(
    "scope",
    [{"tenant": "other"}, {"sku": "a100"}, {"plan": "spot"}, {"gpu_model": "A100"}, {"site": "fra2"}],
)
def test_a_price_of_another_scope_never_applies(scope: dict[str, str]) -> None:
    assert billed(("1", {}), ("2", scope)) == [(Decimal(1), "")]
    assert billed(("2", scope)) == [(None, "no_price")]


def test_two_prices_of_one_rank_leave_the_row_unpriced_even_at_the_same_rate() -> None:
    assert billed(("1", {"sku": "h100"}), ("1", {"sku": "h100"})) == [(None, "ambiguous_price")]
    assert billed(("1", {"sku": "h100"}), ("1", {"sku": "h100"}), ("3", {"tenant": "acme"})) == [(Decimal(3), "")]


def test_a_price_holds_from_its_start_to_before_its_end() -> None:
    found = pricer(price("compute", "1", offset=0, start_us=QUARTER, end_us=2 * QUARTER), tick(10_000))
    rows = found.price([time_line(quarter) for quarter in (0, 1, 2)])
    assert [row.reason for row in rows if row.component == "compute"] == ["no_price", "", "no_price"]


def test_an_energy_price_of_another_site_never_applies() -> None:
    (row,) = pricer(price("energy", "0.3", offset=0, site="fra2"), tick(10_000)).price([energy_line()])
    assert (row.status, row.reason, row.cost) == ("unpriced", "no_price", None)


def test_a_contract_binds_its_tenant_only_whoever_is_priced_first() -> None:
    found = pricer(price("rate", "4", offset=0), price("rate", "2", offset=1, tenant="acme"), tick(10_000))
    for order in (("acme", "bolt"), ("bolt", "acme")):
        rows = found.price([time_line(line_id=tenant, tenant=tenant) for tenant in order])
        rates = {row.tenant: row.rate for row in rows if row.component == "billed"}
        assert rates == {"acme": Decimal(2), "bolt": Decimal(4)}
        found = pricer(price("rate", "4", offset=0), price("rate", "2", offset=1, tenant="acme"), tick(10_000))
