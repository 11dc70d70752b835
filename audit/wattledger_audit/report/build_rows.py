"""Rows of tenants and of tenant × SKU × plan: the verdicts' figures under every idle policy, and one action each."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from wattledger_core.sweep import PARTS_PER_US
from wattledger_core.verdict import (
    COVERS_CASH,
    DEPENDS,
    INSUFFICIENT,
    LOSES_CASH,
    NOT_REPRICED_PLANS,
    Verdict,
)
from wattledger_core.verdict_idle import IDLE_POLICIES

from wattledger_audit.assessment.assess import LEAKAGE, Assessment
from wattledger_audit.assessment.billable import Sold
from wattledger_audit.assessment.bridge import UNBILLED
from wattledger_audit.report.amount_text import (
    cents,
    fraction_hours,
    kwh,
    money,
    part_hours,
    ratio,
    ratio_or_none,
    us_hours,
)
from wattledger_audit.report.model import Figures, Row
from wattledger_audit.report.sums import ZERO, RowKey, Sums, by_row

NO_COSTS = "no costs: give --costs FILE or --per-gpu-hour X"
NO_BILLING = "no billing: give a billing export"
NO_USAGE = "no usage goes with what was billed"
_LACKING = {NO_COSTS: "give costs: --per-gpu-hour X", NO_BILLING: "give a billing export"}


def build_rows(assessment: Assessment) -> tuple[list[Row], list[Row]]:
    """Tenants and SKUs, worst margin first (unknown last), in order of names where alike."""
    sums = by_row(assessment)
    unbilled = _unbilled(assessment)
    tenants = _rows(assessment, assessment.judged.tenants, sums, unbilled)
    skus = _rows(assessment, assessment.judged.skus, sums, unbilled)
    return sorted(tenants, key=_worst_first), sorted(skus, key=_worst_first)


def _worst_first(row: Row) -> tuple[bool, Decimal, bool, Decimal, str, str, str]:
    """Lowest margin first; where no margin is known, most hours without a bill first."""
    margin = None if row.margin is None else Decimal(row.margin)
    billed = None if row.billed is None else Decimal(row.billed)
    return (
        margin is None, margin or ZERO, billed is not None and billed > 0, -Decimal(row.gpu_hours), row.tenant, row.sku,
        row.plan,
    )  # fmt: skip


def _rows(
    assessment: Assessment, verdicts: Mapping[str, Sequence[Verdict]], sums: Mapping[RowKey, Sums],
    unbilled: Mapping[tuple[str, str], Decimal],
) -> list[Row]:  # fmt: skip
    chosen = assessment.book.idle_policy
    rows = []
    for place, verdict in enumerate(verdicts[chosen]):
        key = (verdict.tenant, verdict.sku, verdict.plan)
        found = sums.get(key, Sums())
        missing = unbilled.get((verdict.tenant, verdict.sku), ZERO)
        figures = {p: _figures(assessment, verdicts[p][place], found, missing) for p in IDLE_POLICIES}
        rows.append(_row(assessment, verdict, found, figures, chosen))
    return rows


def _unbilled(assessment: Assessment) -> dict[tuple[str, str], Decimal]:
    """What was used and not billed, by tenant × SKU and by tenant, as positive amounts."""
    found: dict[tuple[str, str], Decimal] = {}
    for group in assessment.bridge:
        for key in ((group.tenant, group.sku), (group.tenant, "")):
            found[key] = found.get(key, ZERO) - group.amounts[UNBILLED]
    return found


def _row(assessment: Assessment, verdict: Verdict, sums: Sums, figures: Mapping[str, Figures], chosen: str) -> Row:
    costed = assessment.stage != LEAKAGE
    top = figures[chosen]
    own = verdict.own_cost if costed else None
    has_energy = assessment.book.has_energy
    billed = verdict.billed if assessment.has_billing else None
    effective = verdict.effective_rate_per_gpu_hour if assessment.has_billing else None
    return Row(
        tenant=verdict.tenant,
        sku=verdict.sku,
        plan=verdict.plan,
        gpu_hours=us_hours(verdict.held_us),
        billable_gpu_hours=us_hours(verdict.billable_us),
        billed_gpu_hours=_billed_hours(assessment, sums),
        provider_paid_gpu_hours=part_hours(sums.provider_paid_parts),
        energy_kwh=kwh(sums.energy_uj),
        energy_depth=sums.depth,
        cost_energy=money(sums.cost_energy) if costed and has_energy and sums.energy_uj is not None else None,
        cost_compute=money(own - sums.cost_energy - sums.cost_pools) if own is not None else None,
        cost_pools=money(sums.cost_pools) if costed else None,
        cost_own=money(own),
        marginal_floor=money(verdict.marginal_floor) if costed else None,
        idle_share=top.idle_share,
        cost_total=top.cost_total,
        billed=money(billed),
        effective_rate_per_gpu_hour=money(effective),
        contract_price_per_gpu_hour=money(_contract_price(assessment, verdict)),
        margin=top.margin,
        margin_ratio=top.margin_ratio,
        break_even_per_gpu_hour=top.break_even_per_gpu_hour,
        break_even_reason=top.break_even_reason,
        suggested_price_per_gpu_hour=top.suggested_price_per_gpu_hour,
        suggested_price_reason=top.suggested_price_reason,
        verdict=top.verdict,
        reason=top.reason,
        below_cost=top.below_cost,
        action=top.action,
        measured_ratio=ratio(min(sums.measured_parts // PARTS_PER_US, verdict.held_us), verdict.held_us),
        unpriced_rows=verdict.unpriced_rows,
        unmeasured_rows=sums.unmeasured_rows,
        by_policy=dict(figures),
    )


def _billed_hours(assessment: Assessment, sums: Sums) -> str | None:
    """Hours of the invoice lines; None without billing, or where no line says a quantity in GPU time."""
    unsaid = bool(sums.unsaid_quantities) and not sums.billed_hours
    return None if unsaid or not assessment.has_billing else fraction_hours(sums.billed_hours)


def _contract_price(assessment: Assessment, verdict: Verdict) -> Decimal | None:
    """The agreed price where all that the row holds has one and the same."""
    found = {
        assessment.rates.contract_price(sold, assessment.period.end_us - 1)
        for sold in assessment.billable.parts
        if sold.tenant == verdict.tenant and (not verdict.sku or (sold.sku, sold.plan) == (verdict.sku, verdict.plan))
    }
    if not found and verdict.sku:
        found = {assessment.rates.contract_price(Sold(verdict.tenant, verdict.sku, verdict.plan, "", ""), 0)}
    return found.pop() if len(found) == 1 else None


def _figures(assessment: Assessment, verdict: Verdict, sums: Sums, unbilled: Decimal) -> Figures:
    """One policy's figures; without costs or billing they are None, and the reason says what is missing."""
    lacks = NO_COSTS if assessment.stage == LEAKAGE else "" if assessment.has_billing else NO_BILLING
    unused = not (lacks or verdict.held_us or verdict.billable_us or verdict.own_cost)
    costed = assessment.stage != LEAKAGE
    word = INSUFFICIENT if lacks or unused else verdict.verdict
    reason = lacks or (NO_USAGE if unused else verdict.reason)
    margin = None if lacks else verdict.margin
    return Figures(
        idle_share=money(verdict.idle_share) if costed else None,
        cost_total=money(verdict.full_floor) if costed else None,
        margin=money(margin),
        margin_ratio=ratio_or_none(margin, verdict.billed),
        verdict=word,
        reason=reason,
        below_cost=verdict.below_cost and not lacks,
        break_even_per_gpu_hour=money(verdict.break_even_per_gpu_hour) if costed else None,
        break_even_reason=verdict.break_even_reason if costed else NO_COSTS,
        suggested_price_per_gpu_hour=money(verdict.suggested_price_per_gpu_hour) if costed else None,
        suggested_price_reason=verdict.suggested_price_reason if costed else NO_COSTS,
        action=_action(assessment, verdict, word, reason, sums, unbilled),
    )


def _action(assessment: Assessment, verdict: Verdict, word: str, reason: str, sums: Sums, unbilled: Decimal) -> str:
    """The one thing to do, in words. What was not billed comes before any new price."""
    currency = assessment.book.currency
    if verdict.plan in NOT_REPRICED_PLANS:
        return "not sold: show its cost to whoever pays for it"
    if assessment.has_billing and verdict.billable_us and not verdict.billed:
        worth = f", {cents(unbilled)} {currency} by its rate" if unbilled > 0 else ""
        hours = f"{round(Decimal(us_hours(verdict.billable_us))):,}"
        return f"bill it: {hours} GPU-hours were used and not billed{worth}"
    if not verdict.billable_us and verdict.billed > 0:
        return "find out what was billed: no usage goes with it"
    if unbilled > 0 and verdict.billed and unbilled * 20 > verdict.billed:
        return f"bill what is missing first: {cents(unbilled)} {currency} were used and not billed"
    if word == INSUFFICIENT:
        return _LACKING.get(reason) or f"give what is missing: {reason}"
    suggested = verdict.suggested_price_per_gpu_hour
    if word in (LOSES_CASH, COVERS_CASH) and suggested is not None:
        urgency = "now: it does not cover its cash cost" if word == LOSES_CASH else "at the next renewal"
        return f"raise the price to {suggested} {currency} per GPU-hour {urgency}"
    if word == DEPENDS:
        price = f" ({suggested} {currency} per GPU-hour would)" if suggested is not None and verdict.below_cost else ""
        return f"decide who pays for idle: its price covers its own cost, not every share of idle{price}"
    return "keep the price" if not sums.unpriced_rows else "price what has no price"
