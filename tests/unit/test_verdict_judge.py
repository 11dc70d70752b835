"""Verdicts by hand: acme held 100 GPU-hours and bolt 50 of one pool, with 50 free GPU-hours that cost 90.

acme's own cost is 200, 50 of it in cash. Its share of idle: apart 0, weighted 60 (100/150), even 45 (1/2), and
normal(0.8) 48: of 200 hours 40 may be idle, so 72 of the 90 belong to the rate, two thirds of them to acme.
"""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from wattledger_core.units import US_PER_HOUR
from wattledger_core.verdict import (
    COVERS_CASH,
    DEPENDS,
    HEALTHY,
    INSUFFICIENT,
    LOSES_CASH,
    NO_QUANTITY,
    NOT_REPRICED,
    Verdict,
    VerdictPolicy,
    by_tenant,
    judge,
    repricing_list,
)
from wattledger_core.verdict_idle import IdlePool, Use

H = US_PER_HOUR
ACME = Use("acme", "h100", "on_demand", "fra1", "H100", 100 * H, 100 * H, 100 * H, Decimal(50), Decimal(200),
           Decimal(250))  # fmt: skip
BOLT = Use("bolt", "h100", "reserved", "fra1", "H100", 50 * H, 60 * H, 50 * H, Decimal(20), Decimal(120), Decimal(500))
POOL = IdlePool("fra1", "H100", 50 * H, Decimal(90))


def acme(policy: VerdictPolicy | None = None, **changes: Any) -> Verdict:
    found = judge([BOLT, replace(ACME, **changes)], [POOL], policy or VerdictPolicy())
    return next(verdict for verdict in found if verdict.tenant == "acme")


@pytest.mark.parametrize(
    ("billed", "verdict", "below_cost"),
    [
        ("49.99", LOSES_CASH, True),
        ("50", COVERS_CASH, True),
        ("199.99", COVERS_CASH, True),
        ("200", DEPENDS, True),
        ("259.99", DEPENDS, True),
        ("260", HEALTHY, False),
        ("0", LOSES_CASH, True),
    ],
)
def test_the_verdict_follows_the_two_floors(billed: str, verdict: str, below_cost: bool) -> None:
    found = acme(billed=Decimal(billed))
    assert (found.verdict, found.below_cost) == (verdict, below_cost)


@pytest.mark.parametrize(
    ("idle_policy", "share", "below_cost"),
    [("apart", "0", False), ("weighted", "60", True), ("even", "45", False), ("normal", "48", False)],
)
def test_the_full_floor_takes_the_chosen_share_of_idle(idle_policy: str, share: str, below_cost: bool) -> None:
    found = acme(VerdictPolicy(idle_policy=idle_policy))
    assert (found.idle_share, found.full_floor) == (Decimal(share), 200 + Decimal(share))
    assert (found.margin, found.below_cost) == (50 - Decimal(share), below_cost)
    assert found.verdict == DEPENDS


@pytest.mark.parametrize(("step", "suggested"), [("0.01", "3.25"), ("0.1", "3.3"), ("0.5", "3.5"), ("3.25", "3.25")])
def test_a_suggested_price_is_the_break_even_at_the_margin_rounded_up_to_the_step(step: str, suggested: str) -> None:
    found = acme(VerdictPolicy(price_step=Decimal(step)))
    assert found.break_even_per_gpu_hour == Decimal("2.60")
    assert found.suggested_price_per_gpu_hour == Decimal(suggested)
    assert found.effective_rate_per_gpu_hour == Decimal("2.50")


def test_a_break_even_that_does_not_end_is_rounded_but_suggests_from_the_exact_one() -> None:
    # 260 ÷ 30 h = 8.666…; ÷ 0.8 = 10.8333… → 10.84
    found = acme(billable_us=30 * H)
    assert found.break_even_per_gpu_hour == Decimal("8.666666666667")
    assert found.suggested_price_per_gpu_hour == Decimal("10.84")


def test_without_a_billable_quantity_there_is_no_break_even_and_a_reason() -> None:
    found = acme(billable_us=0, billed=Decimal(0))
    assert (found.break_even_per_gpu_hour, found.break_even_reason) == (None, NO_QUANTITY)
    assert (found.suggested_price_per_gpu_hour, found.suggested_price_reason) == (None, NO_QUANTITY)
    assert found.effective_rate_per_gpu_hour is None
    assert found.verdict == LOSES_CASH


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"unpriced_rows": 3}, "3 rows have no price"),
        ({"measured_us": 89 * H}, "energy is known for 890000 ppm of held time, below the bound of 900000"),
    ],
)
def test_what_is_not_priced_or_measured_gives_no_verdict(changes: dict[str, Any], reason: str) -> None:
    found = acme(billed=Decimal(1), **changes)
    assert (found.verdict, found.reason, found.below_cost) == (INSUFFICIENT, reason, False)
    assert (found.break_even_per_gpu_hour, found.break_even_reason) == (None, reason)
    assert found.suggested_price_per_gpu_hour is None


def test_the_bound_itself_is_enough() -> None:
    assert acme(measured_us=90 * H).verdict == DEPENDS


def test_idle_without_a_price_gives_its_pools_tenants_no_verdict() -> None:
    (found,) = judge([ACME], [replace(POOL, unpriced_rows=2)], VerdictPolicy())
    assert (found.verdict, found.reason) == (INSUFFICIENT, "2 idle rows of its pools have no price")


def test_idle_of_another_pool_loads_nobody_here() -> None:
    (found,) = judge([ACME], [replace(POOL, gpu_model="A100"), replace(POOL, site="fra2")], VerdictPolicy())
    assert (found.idle_share, found.verdict) == (Decimal(0), HEALTHY)


@pytest.mark.parametrize("plan", ["internal", "trial"])
def test_internal_and_trial_use_is_judged_but_never_repriced(plan: str) -> None:
    found = acme(plan=plan, billed=Decimal(10))
    assert (found.verdict, found.below_cost) == (LOSES_CASH, True)
    assert (found.suggested_price_per_gpu_hour, found.suggested_price_reason) == (None, NOT_REPRICED)
    assert repricing_list([found]) == []


def test_the_repricing_list_has_the_lowest_margin_first() -> None:
    spot = replace(ACME, plan="spot", billed=Decimal(20))
    found = judge([ACME, BOLT, spot], [POOL], VerdictPolicy())
    assert [(v.tenant, v.plan) for v in repricing_list(found)] == [("acme", "spot")]
    dearer = judge([ACME, BOLT, spot], [replace(POOL, cost=Decimal(900))], VerdictPolicy())
    assert [(v.tenant, v.plan) for v in repricing_list(dearer)] == [("acme", "spot"), ("acme", "on_demand")]


def test_a_tenant_is_judged_over_its_skus_and_pools_with_internal_use_apart() -> None:
    other_pool = replace(ACME, sku="a100", gpu_model="A100", held_us=10 * H, measured_us=10 * H, billable_us=10 * H,
                         own_cost=Decimal(15), marginal_cost=Decimal(5), billed=Decimal(40))  # fmt: skip
    trial = replace(ACME, plan="trial", held_us=0, measured_us=0, billable_us=0, billed=Decimal(0))
    found = judge([trial, other_pool, ACME, BOLT], [POOL], VerdictPolicy(), by_tenant)
    assert [(v.tenant, v.plan, v.billed, v.full_floor) for v in found] == [
        ("acme", "", Decimal(290), Decimal(275)),
        ("acme", "trial", Decimal(0), Decimal(200)),
        ("bolt", "", Decimal(500), Decimal(150)),
    ]
    assert found[0].break_even_per_gpu_hour == Decimal("2.5")


def test_a_use_of_nothing_has_no_verdict() -> None:
    found = acme(held_us=0, billable_us=0, measured_us=0, own_cost=Decimal(0), marginal_cost=Decimal(0),
                 billed=Decimal(0))  # fmt: skip
    assert (found.verdict, found.reason) == (INSUFFICIENT, "nothing was used or billed")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"idle_policy": "random"}, "idle_policy 'random' is unknown"),
        ({"target_margin_ppm": 1_000_000}, "target_margin_ppm 1000000"),
        ({"price_step": Decimal(0)}, "price_step 0"),
        ({"normal_utilisation_ppm": 1_000_001}, "normal_utilisation_ppm 1000001"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VerdictPolicy(**changes)
