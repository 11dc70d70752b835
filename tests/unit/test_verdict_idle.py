"""Idle shares by hand, and that they always sum to the idle cost exactly."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattledger_core.units import US_PER_HOUR
from wattledger_core.verdict_idle import IDLE_POLICIES, IdlePool, Use, share_idle, split_money

H = US_PER_HOUR
ZERO = Decimal(0)
POOL = IdlePool("fra1", "H100", 50 * H, Decimal(90))


def use(tenant: str, hours: int, sku: str = "h100") -> Use:
    return Use(tenant, sku, "on_demand", "fra1", "H100", hours * H, 0, 0, ZERO, ZERO, ZERO)


def test_parts_are_differences_of_one_rounded_cumulative() -> None:
    assert split_money(Decimal(10), [1, 1, 1]) == [
        Decimal("3.333333333333"), Decimal("3.333333333334"), Decimal("3.333333333333"),
    ]  # fmt: skip


def test_a_split_among_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="sum to 0"):
        split_money(Decimal(10), [0, 0])


@pytest.mark.parametrize(
    ("idle_policy", "shares", "apart"),
    [
        ("apart", ["0", "0", "0"], "90"),
        ("weighted", ["40", "20", "30"], "0"),
        # two tenants, 45 each; acme's by 60:30 hours
        ("even", ["30", "15", "45"], "0"),
        # 135 held + 50 idle = 185 h, a fifth may be idle: 37 of 50 h, 66.6 of 90
        ("normal", ["29.6", "14.8", "22.2"], "23.4"),
    ],
)
def test_shares_by_hand(idle_policy: str, shares: list[str], apart: str) -> None:
    uses = [use("acme", 60), use("acme", 30, "h100-spot"), use("bolt", 45)]
    found = share_idle(POOL, uses, idle_policy, 800_000)
    assert (found.shares, found.apart) == ([Decimal(share) for share in shares], Decimal(apart))


@pytest.mark.parametrize("idle_policy", IDLE_POLICIES)
def test_a_pool_without_holders_stays_apart(idle_policy: str) -> None:
    assert share_idle(POOL, [], idle_policy, 800_000).apart == 90
    assert share_idle(POOL, [use("acme", 0)], idle_policy, 800_000) == ([ZERO], Decimal(90))


def test_a_pool_as_busy_as_normal_belongs_to_the_rate_whole() -> None:
    found = share_idle(replace(POOL, idle_us=10 * H), [use("acme", 90)], "normal", 800_000)
    assert found == ([Decimal(90)], ZERO)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="'random' is unknown"):
        share_idle(POOL, [], "random", 800_000)


@given(
    st.sampled_from(IDLE_POLICIES),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 10**13)), max_size=6),
    st.decimals(min_value=0, max_value=10**9, places=12),
    st.integers(0, 10**13),
    st.integers(0, 1_000_000),
)
def test_shares_and_what_stays_apart_sum_to_the_idle_cost(
    idle_policy: str, held: list[tuple[str, int]], cost: Decimal, idle_us: int, utilisation_ppm: int
) -> None:
    uses = [replace(use(tenant, 0), held_us=held_us) for tenant, held_us in held]
    found = share_idle(replace(POOL, cost=cost, idle_us=idle_us), uses, idle_policy, utilisation_ppm)
    assert sum(found.shares, found.apart) == cost
    assert all(share >= 0 for share in [*found.shares, found.apart])
    assert all(share == 0 for share, taker in zip(found.shares, uses, strict=True) if taker.held_us == 0)
