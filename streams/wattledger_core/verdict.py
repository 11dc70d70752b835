"""Verdicts: the two floors beside what was billed, for each tenant × SKU × plan; break-even and suggested prices."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from wattledger_core.units import MONEY_CONTEXT, PPM, US_PER_HOUR, round_money
from wattledger_core.verdict_idle import IDLE_POLICIES, WEIGHTED, IdlePool, Use, share_idle

LOSES_CASH = "loses cash"
COVERS_CASH = "covers cash, not capital"
HEALTHY = "healthy"
DEPENDS = "depends on the idle policy"
INSUFFICIENT = "insufficient data"
VERDICTS = (LOSES_CASH, COVERS_CASH, DEPENDS, HEALTHY, INSUFFICIENT)
"""Worst first; the last says that there is no saying."""

NOT_REPRICED_PLANS = ("internal", "trial")
NO_QUANTITY = "no billable quantity"
NOT_REPRICED = "internal and trial plans are not repriced"


@dataclass(frozen=True, slots=True)
class VerdictPolicy:
    """`idle_policy` chooses the share of idle in the full floor; `normal_utilisation_ppm` is u of normal(u).

    Below `min_measured_ppm` of held time with known energy there is no verdict. `price_step` is in the book's
    currency per GPU-hour.
    """

    idle_policy: str = WEIGHTED
    normal_utilisation_ppm: int = 800_000
    target_margin_ppm: int = 200_000
    price_step: Decimal = Decimal("0.01")
    min_measured_ppm: int = 900_000

    def __post_init__(self) -> None:
        if self.idle_policy not in IDLE_POLICIES:
            raise ValueError(f"idle_policy {self.idle_policy!r} is unknown: use one of {IDLE_POLICIES}")
        if not 0 <= self.target_margin_ppm < PPM:
            raise ValueError(f"target_margin_ppm {self.target_margin_ppm}: a margin lies from 0 to below {PPM}")
        if not 0 <= self.normal_utilisation_ppm <= PPM:
            raise ValueError(f"normal_utilisation_ppm {self.normal_utilisation_ppm}: it lies from 0 to {PPM}")
        if self.price_step <= 0:
            raise ValueError(f"price_step {self.price_step}: a price step is above 0")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Figures and verdict of one tenant × SKU × plan, or of one tenant. Times are device-time, money exact.

    `full_floor` is `own_cost` plus the chosen share of idle; `margin` is billed less the full floor. Where data is
    insufficient, floors are lower bounds, `below_cost` is False and `reason` says what is missing; where a price per
    GPU-hour is None, its own reason says why.
    """

    tenant: str
    sku: str
    plan: str
    held_us: int
    billable_us: int
    measured_us: int
    unpriced_rows: int
    billed: Decimal
    marginal_floor: Decimal
    own_cost: Decimal
    idle_share: Decimal
    full_floor: Decimal
    margin: Decimal
    verdict: str
    reason: str
    below_cost: bool
    effective_rate_per_gpu_hour: Decimal | None
    break_even_per_gpu_hour: Decimal | None
    break_even_reason: str
    suggested_price_per_gpu_hour: Decimal | None
    suggested_price_reason: str


Key = tuple[str, str, str]


def by_sku_and_plan(use: Use) -> Key:
    """One verdict for each tenant × SKU × plan."""
    return (use.tenant, use.sku, use.plan)


def by_tenant(use: Use) -> Key:
    """One verdict for each tenant, internal and trial use left apart from what is sold."""
    return (use.tenant, "", use.plan if use.plan in NOT_REPRICED_PLANS else "")


def judge(
    uses: Iterable[Use],
    pools: Iterable[IdlePool],
    policy: VerdictPolicy,
    key: Callable[[Use], Key] = by_sku_and_plan,
) -> list[Verdict]:
    """A verdict for each key, in order of keys.

    *healthy*: billed covers the full floor under every idle policy. *depends*: it covers the own cost, but not the
    floor of every policy. Idle is shared use by use first, so every grouping sums to the same shares.
    """
    ordered = sorted(uses, key=lambda use: (use.tenant, use.sku, use.plan, use.site, use.gpu_model))
    shares, unpriced_idle = _idle_shares(ordered, list(pools), policy)
    grouped: dict[Key, list[int]] = {}
    for number, use in enumerate(ordered):
        grouped.setdefault(key(use), []).append(number)
    return [
        _judge_group(
            name,
            [ordered[n] for n in numbers],
            {idle: _sum(shares[idle][n] for n in numbers) for idle in IDLE_POLICIES},
            sum(unpriced_idle[n] for n in numbers),
            policy,
        )
        for name, numbers in sorted(grouped.items())
    ]


def repricing_list(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Who to charge another price, lowest margin first: billed below the full floor, on a plan that is sold."""
    below = [v for v in verdicts if v.below_cost and v.plan not in NOT_REPRICED_PLANS]
    return sorted(below, key=lambda v: (v.margin, v.tenant, v.sku, v.plan))


def _idle_shares(
    uses: Sequence[Use], pools: Sequence[IdlePool], policy: VerdictPolicy
) -> tuple[dict[str, list[Decimal]], list[int]]:
    """Each use's share under every policy, and how many idle rows of its pool have no price."""
    shares = {idle: [Decimal(0)] * len(uses) for idle in IDLE_POLICIES}
    unpriced = [0] * len(uses)
    for pool in pools:
        members = [n for n, use in enumerate(uses) if (use.site, use.gpu_model) == (pool.site, pool.gpu_model)]
        for idle in IDLE_POLICIES:
            found = share_idle(pool, [uses[n] for n in members], idle, policy.normal_utilisation_ppm)
            for n, share in zip(members, found.shares, strict=True):
                shares[idle][n] = MONEY_CONTEXT.add(shares[idle][n], share)
        for n in members:
            unpriced[n] += pool.unpriced_rows
    return shares, unpriced


def _judge_group(
    key: Key, uses: Sequence[Use], shares: dict[str, Decimal], unpriced_idle: int, policy: VerdictPolicy
) -> Verdict:
    billed = _sum(use.billed for use in uses)
    marginal = _sum(use.marginal_cost for use in uses)
    own = _sum(use.own_cost for use in uses)
    floors = [MONEY_CONTEXT.add(own, share) for share in shares.values()]
    full = MONEY_CONTEXT.add(own, shares[policy.idle_policy])
    held_us, billable_us = sum(use.held_us for use in uses), sum(use.billable_us for use in uses)
    measured_us, unpriced = sum(use.measured_us for use in uses), sum(use.unpriced_rows for use in uses)
    used = bool(held_us or billable_us or own or billed)
    reason = _missing(used, unpriced, unpriced_idle, measured_us, held_us, policy)
    break_even, break_even_reason = _per_hour(full, billable_us), reason
    if not reason and break_even is None:
        break_even_reason = NO_QUANTITY
    sold = key[2] not in NOT_REPRICED_PLANS
    if reason:
        break_even = None
    suggested = _suggested(break_even, policy) if sold else None
    effective = _per_hour(billed, billable_us)
    return Verdict(
        *key, held_us, billable_us, measured_us, unpriced, billed, marginal, own, shares[policy.idle_policy], full,
        MONEY_CONTEXT.subtract(billed, full),
        INSUFFICIENT if reason else _verdict(billed, marginal, own, floors),
        reason,
        not reason and billed < full,
        None if effective is None else _money(effective),
        None if break_even is None else _money(break_even),
        break_even_reason,
        suggested,
        break_even_reason if sold else NOT_REPRICED,
    )  # fmt: skip


def _missing(
    used: bool, unpriced: int, unpriced_idle: int, measured_us: int, held_us: int, policy: VerdictPolicy
) -> str:
    """Why there can be no verdict; empty when there can."""
    if not used:
        return "nothing was used or billed"
    if unpriced:
        return f"{unpriced} rows have no price"
    if unpriced_idle:
        return f"{unpriced_idle} idle rows of its pools have no price"
    if measured_us * PPM < policy.min_measured_ppm * held_us:
        return (
            f"energy is known for {measured_us * PPM // held_us} ppm of held time, "
            f"below the bound of {policy.min_measured_ppm}"
        )
    return ""


def _verdict(billed: Decimal, marginal: Decimal, own: Decimal, floors: Sequence[Decimal]) -> str:
    if billed < marginal:
        return LOSES_CASH
    if billed < own:
        return COVERS_CASH
    return HEALTHY if billed >= max(floors) else DEPENDS


def _per_hour(amount: Decimal, quantity_us: int) -> Fraction | None:
    return Fraction(Fraction(amount) * US_PER_HOUR, quantity_us) if quantity_us > 0 else None


def _suggested(break_even: Fraction | None, policy: VerdictPolicy) -> Decimal | None:
    """Break-even ÷ (1 − target margin), rounded up to the price step, from the exact break-even."""
    if break_even is None:
        return None
    wanted = Fraction(break_even * PPM, PPM - policy.target_margin_ppm)
    steps = -(-wanted // Fraction(policy.price_step))
    return MONEY_CONTEXT.multiply(policy.price_step, Decimal(int(steps)))


def _money(amount: Fraction) -> Decimal:
    return round_money(MONEY_CONTEXT.divide(Decimal(amount.numerator), Decimal(amount.denominator)))


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    total = Decimal(0)
    for amount in amounts:
        total = MONEY_CONTEXT.add(total, amount)
    return total
