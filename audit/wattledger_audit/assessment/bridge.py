"""The leakage bridge: from contract × measured to billed, in steps that add up exactly, each with its evidence."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from wattledger_core.interval import Interval, merge
from wattledger_core.units import MONEY_CONTEXT, round_money

from wattledger_audit.assessment.billable import PARTS_PER_HOUR, UNSOLD_PLANS, Billable, Sold
from wattledger_audit.assessment.holding import Swept
from wattledger_audit.assessment.rates import NO_RATE, RateBook
from wattledger_audit.assessment.revenue import CREDITS, Revenue, gpu_sales
from wattledger_audit.assessment.run_book import RunBook

EXPECTED, UNBILLED, QUANTITY, RATE, CREDIT, WITHOUT_USAGE, BILLED = (
    "contract_x_measured", "unbilled_usage", "wrong_quantity", "wrong_rate", "credits", "billed_without_usage",
    "billed",
)  # fmt: skip
STEPS = (EXPECTED, UNBILLED, QUANTITY, RATE, CREDIT, WITHOUT_USAGE, BILLED)
ZERO = Decimal(0)
Group = tuple[str, str]
"""Tenant and SKU."""


@dataclass(slots=True)
class GroupBridge:
    """One tenant × SKU: the steps' amounts, the hours behind them, and the lines and runs to open."""

    tenant: str
    sku: str
    amounts: dict[str, Decimal] = field(default_factory=dict)
    measured_hours: Fraction = Fraction(0)
    unbilled_hours: Fraction = Fraction(0)
    billed_hours: Fraction | None = None
    unrated_hours: Fraction = Fraction(0)
    basis: str = ""
    lines: list[Revenue] = field(default_factory=list)
    credits: list[Revenue] = field(default_factory=list)
    unbilled_runs: list[int] = field(default_factory=list)
    """Run numbers with unbilled time, most first."""


@dataclass(slots=True)
class _Measured:
    """What a group held: billable parts with their worth, inside and outside of what its invoices cover."""

    covered: Fraction = Fraction(0)
    covered_worth: Fraction = Fraction(0)
    outside: Fraction = Fraction(0)
    outside_worth: Fraction = Fraction(0)
    unrated: Fraction = Fraction(0)
    bases: set[str] = field(default_factory=set)


def build_bridge(
    billable: Billable, swept: Swept, runs: RunBook, rates: RateBook, revenue: Sequence[Revenue]
) -> list[GroupBridge]:
    """A bridge for each tenant × SKU that was used (on a plan that is sold) or billed, in order of names."""
    groups: dict[Group, GroupBridge] = {}
    sales: dict[Group, list[Revenue]] = {}
    for line in gpu_sales(revenue):
        sales.setdefault((line.tenant, line.sku), []).append(line)
    covered = {group: merge((line.start_us, line.end_us) for line in lines) for group, lines in sales.items()}
    measured: dict[Group, _Measured] = {}
    unsold = _unsold_apart(billable)
    for sold, windows in sorted(billable.parts.items()):
        if sold.plan not in UNSOLD_PLANS or ((sold.tenant, sold.sku) in sales and sold not in unsold):
            shares = _outside_shares(covered.get((sold.tenant, sold.sku), []), swept.ledger.edges)
            into = measured.setdefault((sold.tenant, sold.sku), _Measured())
            _measure(into, sold, windows, shares, swept.ledger.edges, rates)
    open_runs = _uncovered(swept, runs, covered, measured, {(s.tenant, s.sku, s.plan) for s in unsold})
    for group in sorted({*measured, *sales}):
        groups[group] = _group(group, measured.get(group), sales.get(group, []))
        groups[group].unbilled_runs = open_runs.get(group, [])
    for line in revenue:
        if line.gpu and line.category in CREDITS:
            group = (line.tenant, line.sku)
            into_group = groups.setdefault(group, GroupBridge(*group, dict.fromkeys(STEPS, ZERO)))
            into_group.credits.append(line)
            for step in (CREDIT, BILLED):
                into_group.amounts[step] = MONEY_CONTEXT.add(into_group.amounts[step], line.amount)
    return [groups[group] for group in sorted(groups)]


def _unsold_apart(billable: Billable) -> set[Sold]:
    """Internal and trial use beside use of the same tenant and SKU that is sold: invoices are not about it."""
    sold_groups = {(sold.tenant, sold.sku) for sold in billable.parts if sold.plan not in UNSOLD_PLANS}
    return {s for s in billable.parts if s.plan in UNSOLD_PLANS and (s.tenant, s.sku) in sold_groups}


def _outside_shares(covered: Sequence[Interval], edges: Sequence[int]) -> list[Fraction]:
    """For each window, the share of it that no invoice line covers."""
    shares = []
    for start_us, end_us in pairwise(edges):
        inside = sum(max(min(b, end_us) - max(a, start_us), 0) for a, b in covered)
        shares.append(1 - Fraction(inside, end_us - start_us))
    return shares


def _measure(
    into: _Measured, sold: Sold, windows: dict[int, int], outside: Sequence[Fraction], edges: Sequence[int],
    rates: RateBook,
) -> None:  # fmt: skip
    for window, parts in sorted(windows.items()):
        hours = Fraction(parts, PARTS_PER_HOUR)
        rate = rates.rate(sold, edges[window])
        into.bases.add(rate.basis)
        away = hours * outside[window]
        into.outside += away
        into.covered += hours - away
        if rate.per_gpu_hour is None:
            into.unrated += hours
            continue
        into.outside_worth += away * rate.per_gpu_hour
        into.covered_worth += (hours - away) * rate.per_gpu_hour


def _uncovered(
    swept: Swept, runs: RunBook, covered: dict[Group, list[Interval]], measured: dict[Group, _Measured],
    apart: set[tuple[str, str, str]],
) -> dict[Group, list[int]]:  # fmt: skip
    """Runs that lie outside of every invoice line of their tenant and SKU, wholly or in part, largest first.

    Where invoices cover only a part of a window, what lies outside is measured run by run.
    """
    start_us, end_us = swept.ledger.edges[0], swept.ledger.edges[-1]
    partial = {group for group in measured if not _covers(covered.get(group, []), start_us, end_us)}
    found: dict[Group, list[tuple[Fraction, int]]] = {}
    for number, holder in swept.run_holder.items():
        group = (holder.tenant, holder.sku)
        if group not in partial or holder.state != "held" or (*group, holder.plan) in apart:
            continue
        a_us, b_us = max(runs.start_us[number], start_us), min(runs.held_until_us(number, end_us), end_us)
        inside = sum(max(min(b, b_us) - max(a, a_us), 0) for a, b in covered.get(group, []))
        if b_us > a_us and inside < b_us - a_us:
            away = Fraction(swept.run_parts[number] * (b_us - a_us - inside), (b_us - a_us) * PARTS_PER_HOUR)
            found.setdefault(group, []).append((away, number))
    for group in partial & set(covered):
        if all(share in (0, 1) for share in _outside_shares(covered[group], swept.ledger.edges)):
            continue
        _move(measured[group], sum((away for away, _ in found.get(group, [])), Fraction(0)))
    return {group: [n for _, n in sorted(rows, key=lambda row: (-row[0], row[1]))] for group, rows in found.items()}


def _covers(covered: Sequence[Interval], start_us: int, end_us: int) -> bool:
    return any(a <= start_us and b >= end_us for a, b in covered)


def _move(into: _Measured, outside: Fraction) -> None:
    """Put exactly `outside` hours outside, at the group's average worth: runs say it better than windows do."""
    hours = into.covered + into.outside
    worth = into.covered_worth + into.outside_worth
    outside = min(outside, hours)
    into.outside, into.covered = outside, hours - outside
    into.outside_worth = worth * outside / hours if hours else Fraction(0)
    into.covered_worth = worth - into.outside_worth


def _group(group: Group, measured: _Measured | None, sales: Sequence[Revenue]) -> GroupBridge:
    bridge = GroupBridge(*group, dict.fromkeys(STEPS, ZERO))
    bridge.lines = list(sales)
    amount = sum((line.amount for line in sales), ZERO)
    quantities = [line.gpu_hours for line in sales if line.gpu_hours is not None]
    bridge.billed_hours = sum(quantities, Fraction(0)) if len(quantities) == len(sales) and sales else None
    bridge.amounts[BILLED] = amount
    if measured is None or measured.covered + measured.outside == 0:
        bridge.amounts[WITHOUT_USAGE] = amount
        return bridge
    bridge.measured_hours = measured.covered + measured.outside
    bridge.basis = "; ".join(sorted(measured.bases))
    bridge.unrated_hours = measured.unrated
    expected = _decimal(measured.covered_worth + measured.outside_worth)
    unbilled = _decimal(measured.outside_worth) if sales else expected
    bridge.unbilled_hours = measured.outside if sales else bridge.measured_hours
    bridge.amounts[EXPECTED] = expected
    bridge.amounts[UNBILLED] = MONEY_CONTEXT.minus(unbilled) if unbilled else ZERO
    covered = MONEY_CONTEXT.subtract(expected, unbilled)
    if not sales:
        return bridge
    if measured.covered == 0:
        bridge.amounts[WITHOUT_USAGE] = amount
        return bridge
    if NO_RATE in measured.bases and covered == 0:
        # nothing says what it should have cost: what was billed for it is taken as agreed
        bridge.amounts[EXPECTED] = MONEY_CONTEXT.add(bridge.amounts[EXPECTED], amount)
        bridge.unrated_hours = measured.outside
        return bridge
    off = MONEY_CONTEXT.subtract(amount, covered)
    quantity = ZERO
    if bridge.billed_hours is not None:
        rate = measured.covered_worth / measured.covered
        quantity = _decimal((bridge.billed_hours - measured.covered) * rate)
    bridge.amounts[QUANTITY] = quantity
    bridge.amounts[RATE] = MONEY_CONTEXT.subtract(off, quantity)
    return bridge


def _decimal(amount: Fraction) -> Decimal:
    return round_money(MONEY_CONTEXT.divide(Decimal(amount.numerator), Decimal(amount.denominator)))


def totals(groups: Sequence[GroupBridge]) -> dict[str, Decimal]:
    """Σ of each step; expected + unbilled + quantity + rate + credits + without usage = billed, exactly."""
    found = dict.fromkeys(STEPS, ZERO)
    for group in groups:
        for step in STEPS:
            found[step] = MONEY_CONTEXT.add(found[step], group.amounts[step])
    return found
