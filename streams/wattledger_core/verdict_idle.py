"""Idle cost shared within its pool (site × gpu_model) by a chosen policy; what nobody is charged stays apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from wattledger_core.units import MONEY_CONTEXT, PPM, round_money

APART = "apart"
WEIGHTED = "weighted"
EVEN = "even"
NORMAL = "normal"
IDLE_POLICIES = (APART, WEIGHTED, EVEN, NORMAL)


@dataclass(frozen=True, slots=True)
class Use:
    """What one tenant × SKU × plan used of one pool over the period, and what it was billed.

    `own_cost` holds everything but idle: compute, energy × PUE, pools, its own stranded and reserved-unused time.
    `marginal_cost` is the part of it paid in cash per use. `measured_us` is held device-time whose energy is known.
    """

    tenant: str
    sku: str
    plan: str
    site: str
    gpu_model: str
    held_us: int
    billable_us: int
    measured_us: int
    marginal_cost: Decimal
    own_cost: Decimal
    billed: Decimal
    unpriced_rows: int = 0


@dataclass(frozen=True, slots=True)
class IdlePool:
    """The free time of one pool and what it cost; unavailable, reserved and stranded time are no part of it."""

    site: str
    gpu_model: str
    idle_us: int
    cost: Decimal
    unpriced_rows: int = 0


class IdleShares(NamedTuple):
    """Shares in the order of the uses given; Σ shares + apart = the pool's idle cost, exactly."""

    shares: list[Decimal]
    apart: Decimal


def split_money(whole: Decimal, weights: Sequence[int | Fraction]) -> list[Decimal]:
    """Parts of `whole` by weight, as differences of one rounded cumulative in the order given, so they sum to it.

    Raises `ValueError` when the weights sum to 0.
    """
    total = sum(weights, Fraction(0))
    if total <= 0:
        raise ValueError(f"the weights of a split sum to {total}: somebody must take part in it")
    parts: list[Decimal] = []
    given, upto = Decimal(0), Fraction(0)
    for weight in weights:
        upto += weight
        cumulative = whole if upto == total else _portion(whole, Fraction(upto, total))
        parts.append(MONEY_CONTEXT.subtract(cumulative, given))
        given = cumulative
    return parts


def share_idle(pool: IdlePool, uses: Sequence[Use], idle_policy: str, normal_utilisation_ppm: int) -> IdleShares:
    """Who bears a pool's idle cost. `uses` are that pool's, in the order in which the shares are rounded.

    *weighted*: by held time. *even*: each tenant that held anything alike (within a tenant, by held time).
    *normal(u)*: idle up to (1 − u) of held + idle time, shared by held time; the rest stays apart. A pool without
    holders stays apart. Source: ACCOUNTING.md, "Two floors, five verdicts". Raises `ValueError` for another policy.
    """
    if idle_policy not in IDLE_POLICIES:
        raise ValueError(f"idle policy {idle_policy!r} is unknown: use one of {IDLE_POLICIES}")
    held_us = sum(use.held_us for use in uses)
    if idle_policy == APART or held_us <= 0:
        return IdleShares([Decimal(0)] * len(uses), pool.cost)
    shared = pool.cost
    if idle_policy == NORMAL:
        shared = _portion(pool.cost, _normal_part(pool.idle_us, held_us, normal_utilisation_ppm))
    weights = _even_weights(uses) if idle_policy == EVEN else [use.held_us for use in uses]
    return IdleShares(split_money(shared, weights), MONEY_CONTEXT.subtract(pool.cost, shared))


def _normal_part(idle_us: int, held_us: int, normal_utilisation_ppm: int) -> Fraction:
    """The part of the idle time that a normal utilisation explains, 0 to 1."""
    if idle_us <= 0:
        return Fraction(1)
    normal_us = Fraction((idle_us + held_us) * (PPM - normal_utilisation_ppm), PPM)
    return min(Fraction(1), Fraction(normal_us, idle_us))


def _even_weights(uses: Sequence[Use]) -> list[Fraction]:
    held_us: dict[str, int] = {}
    for use in uses:
        held_us[use.tenant] = held_us.get(use.tenant, 0) + use.held_us
    return [Fraction(use.held_us, held_us[use.tenant] or 1) for use in uses]


def _portion(whole: Decimal, part: Fraction) -> Decimal:
    """`whole × part`, rounded once."""
    product = MONEY_CONTEXT.multiply(whole, Decimal(part.numerator))
    return round_money(MONEY_CONTEXT.divide(product, Decimal(part.denominator)))
