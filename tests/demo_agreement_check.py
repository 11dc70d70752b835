"""The report's tenants held against the live summary's, figure by figure."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from wattledger_audit.report.model import Report

EXACT = {"gpu_hours": Decimal("0.000001"), "energy_kwh": Decimal("0.000001")}
"""Six decimals are shown: the last may be rounded from another side of whole microseconds and microjoules."""
MONEY = ("cost_energy", "cost_total", "billed", "margin", "break_even_per_gpu_hour", "suggested_price_per_gpu_hour")
ROUNDING = Decimal("0.000001")
"""Far below the cent that is allowed: what thousands of rows, each rounded to 12 decimals, can sum to."""


def assert_tenants_agree(report: Report, live: Sequence[Mapping[str, Any]]) -> None:
    """Every tenant is in both, with the same figures and the same verdict."""
    here = {(row.tenant, row.plan): row for row in report.tenants}
    assert sorted(here) == sorted((row["tenant"], row["plan"]) for row in live)
    for row in live:
        own = here[row["tenant"], row["plan"]]
        assert (own.verdict, own.below_cost) == (row["verdict"], row["below_cost"]), row["tenant"]
        for name in (*EXACT, *MONEY):
            mine, theirs = getattr(own, name), row[name]
            assert (mine is None) == (theirs is None), (row["tenant"], name)
            if mine is not None:
                off = abs(Decimal(mine) - Decimal(theirs))
                assert off <= EXACT.get(name, ROUNDING), (row["tenant"], name, mine, theirs)
