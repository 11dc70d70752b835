"""A tenant's share of idle: each pool's idle cost and what it is made of, and the policy's weights filled in."""

from collections.abc import Sequence
from fractions import Fraction

from wattledger_core.line import IDLE
from wattledger_core.units import MONEY_CONTEXT, PPM, US_PER_HOUR
from wattledger_core.verdict import Key, by_tenant
from wattledger_core.verdict_idle import APART, EVEN, NORMAL, IdlePool, Use, share_idle

from wattledger_audit.assessment.assess import Assessment
from wattledger_audit.explain_value import IdleShare
from wattledger_audit.explaining_priced import PriceBook, priced_groups
from wattledger_audit.explaining_quantity import exact_text, quantity_text
from wattledger_audit.explaining_spread import SpreadBook, spread_groups
from wattledger_audit.report.amount_text import money_text
from wattledger_audit.report.sums import total


def idle_shares(assessment: Assessment, key: Key, prices: PriceBook, spreads: SpreadBook) -> tuple[IdleShare, ...]:
    """The shares of one tenant's row (its key as verdicts have it); Σ is the row's share of idle, exactly."""
    uses = sorted(assessment.judged.uses, key=lambda use: (use.tenant, use.sku, use.plan, use.site, use.gpu_model))
    found = []
    for pool in assessment.judged.pools:
        members = [use for use in uses if (use.site, use.gpu_model) == (pool.site, pool.gpu_model)]
        if any(by_tenant(use) == key for use in members):
            found.append(_share(assessment, key, pool, members, prices, spreads))
    return tuple(found)


def _share(
    assessment: Assessment, key: Key, pool: IdlePool, members: Sequence[Use], prices: PriceBook, spreads: SpreadBook
) -> IdleShare:
    book = assessment.book
    shared = share_idle(pool, members, book.idle_policy, book.normal_utilisation_ppm)
    own = [number for number, use in enumerate(members) if by_tenant(use) == key]
    share = total(shared.shares[number] for number in own)
    amount = MONEY_CONTEXT.subtract(pool.cost, shared.apart)
    held_us = sum(members[number].held_us for number in own)
    whole_us = sum(use.held_us for use in members)
    rows = [
        row
        for row in assessment.costed.rows
        if row.tenant == IDLE and (row.site, row.gpu_model) == (pool.site, pool.gpu_model)
    ]
    return IdleShare(
        site=pool.site,
        gpu_model=pool.gpu_model,
        policy=book.idle_policy,
        idle_gpu_hours=_hours_text(pool.idle_us),
        idle_cost=pool.cost,
        shared=amount,
        held_gpu_hours=_hours_text(held_us),
        pool_held_gpu_hours=_hours_text(whole_us),
        formula=_formula(assessment, key[0], pool, members, held_us, money_text(amount), money_text(share)),
        share=share,
        priced=priced_groups(rows, prices),
        spread=spread_groups(rows, spreads),
    )


def _formula(
    assessment: Assessment, tenant: str, pool: IdlePool, members: Sequence[Use], held_us: int, amount: str, share: str
) -> str:
    policy, currency = assessment.book.idle_policy, assessment.book.currency
    whole_us = sum(use.held_us for use in members)
    if policy == APART:
        return f"apart: nobody bears the {money_text(pool.cost)} {currency}"
    if not whole_us:
        return "nobody held anything of this pool: its idle cost stays apart"
    if policy == EVEN:
        own_us = sum(use.held_us for use in members if use.tenant == tenant)
        count = len({use.tenant for use in members if use.held_us})
        part = "" if own_us == held_us else f" × {_hours(held_us)} ÷ {_hours(own_us)} GPU-hours"
        return f"{amount} ÷ {count} tenants{part} = {share} {currency}"
    split = f"{amount} × {_hours(held_us)} ÷ {_hours(whole_us)} GPU-hours held = {share} {currency}"
    if policy != NORMAL:
        return split
    utilisation = exact_text(Fraction(assessment.book.normal_utilisation_ppm * 100, PPM))
    return f"idle up to 100 − {utilisation} % of the time is normal: {split}"


def _hours(us: int) -> str:
    return exact_text(Fraction(us, US_PER_HOUR))


def _hours_text(us: int) -> str:
    return quantity_text(Fraction(us, US_PER_HOUR))
