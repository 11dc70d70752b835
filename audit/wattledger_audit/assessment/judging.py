"""Uses beside what was billed, judged by the core under every idle policy. Owns how invoices meet uses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction

from wattledger_core.sweep import PARTS_PER_US
from wattledger_core.units import MONEY_CONTEXT
from wattledger_core.verdict import Key, Verdict, VerdictPolicy, by_sku_and_plan, by_tenant, judge
from wattledger_core.verdict_figures import figures
from wattledger_core.verdict_idle import IDLE_POLICIES, IdlePool, Use, split_money

from wattledger_audit.assessment.billable import UNSOLD_PLANS, Billable, Sold
from wattledger_audit.assessment.cost_book import CostBook
from wattledger_audit.assessment.costing import Costed
from wattledger_audit.assessment.revenue import SALES, Revenue
from wattledger_audit.assessment.terms import ON_DEMAND, Terms

ZERO = Decimal(0)
ENOUGH_ENERGY_PPM = 900_000


@dataclass(frozen=True, slots=True)
class Judged:
    """Verdicts by idle policy, for tenants and for tenant × SKU × plan; the uses and pools that they are made of."""

    uses: list[Use]
    pools: list[IdlePool]
    tenants: dict[str, list[Verdict]]
    skus: dict[str, list[Verdict]]
    billed: "BilledHours"


@dataclass(slots=True)
class BilledHours:
    """GPU-hours of invoice lines by the use that they are about. `unsaid`: uses with lines that say no GPU time."""

    hours: dict[Sold, Fraction] = field(default_factory=dict)
    unsaid: set[Sold] = field(default_factory=set)

    def add(self, line: Revenue, met: Sequence[Sold], weights: Sequence[int]) -> None:
        """Take one line's quantity, split by weight."""
        if line.category not in SALES:
            return
        if line.gpu_hours is None:
            self.unsaid |= set(met)
            return
        for key, weight in zip(met, weights, strict=True):
            self.hours[key] = self.hours.get(key, Fraction(0)) + line.gpu_hours * weight / sum(weights)


def judge_uses(costed: Costed, billable: Billable, revenue: Sequence[Revenue], terms: Terms, book: CostBook) -> Judged:
    """Verdicts of the period. Times of the uses are in µs again."""
    found = figures(costed.lines, costed.rows)
    uses = {Sold(u.tenant, u.sku, u.plan, u.site, u.gpu_model): _in_us(u) for u in found.uses}
    for sold in billable.parts:
        use = uses.get(sold)
        billed_us = billable.total(sold) // PARTS_PER_US
        uses[sold] = replace(use, billable_us=billed_us) if use else _empty(sold, billed_us)
    billed = _put_revenue(uses, revenue, terms)
    pools = [replace(pool, idle_us=pool.idle_us // PARTS_PER_US) for pool in found.pools]
    listed = [uses[key] for key in sorted(uses)]
    tenants, skus = (_all(listed, pools, book, key) for key in (by_tenant, by_sku_and_plan))
    return Judged(listed, pools, tenants, skus, billed)


def _in_us(use: Use) -> Use:
    return replace(use, held_us=use.held_us // PARTS_PER_US, billable_us=0, measured_us=use.measured_us // PARTS_PER_US)


def _empty(sold: Sold, billable_us: int = 0) -> Use:
    return Use(sold.tenant, sold.sku, sold.plan, sold.site, sold.gpu_model, 0, billable_us, 0, ZERO, ZERO, ZERO)


def _put_revenue(uses: dict[Sold, Use], revenue: Sequence[Revenue], terms: Terms) -> BilledHours:
    """Give every GPU line to the uses that it is about: of its tenant, SKU and plan, by billable time.

    Internal and trial use takes part only where nothing that is sold does. A credit that names no SKU is the tenant's
    as a whole; a line that meets no use is a use of its own.
    """
    billed = BilledHours()
    for line in sorted(revenue, key=_sales_first):
        if not line.gpu:
            continue
        own = [key for key in sorted(uses) if key.tenant == line.tenant]
        met = [key for key in own if key.sku == line.sku and line.plan in ("", key.plan)]
        met = met or [key for key in own if key.sku == line.sku]
        if not met and (not line.sku or line.category not in SALES):
            met = own
        met = [key for key in met if key.plan not in UNSOLD_PLANS] or met
        if not met:
            plan = line.plan or terms.terms_of(line.tenant).plan or ON_DEMAND
            met = [Sold(line.tenant, line.sku, plan, "", "")]
            uses.setdefault(met[0], _empty(met[0]))
        weights = [uses[key].billable_us for key in met]
        weights = weights if any(weights) else [1] * len(met)
        billed.add(line, met, weights)
        for key, part in zip(met, split_money(line.amount, weights), strict=True):
            uses[key] = replace(uses[key], billed=MONEY_CONTEXT.add(uses[key].billed, part))
    return billed


def _sales_first(line: Revenue) -> tuple[bool, bool, str]:
    """Lines that may be a use of their own come first, those that name a plan before others: no order of files or
    lines matters."""
    return line.category not in SALES, not line.plan, line.plan


def _all(
    uses: Sequence[Use], pools: Sequence[IdlePool], book: CostBook, key: Callable[[Use], Key]
) -> dict[str, list[Verdict]]:
    return {policy: judge(uses, pools, verdict_policy(book, policy), key) for policy in IDLE_POLICIES}


def verdict_policy(book: CostBook, idle_policy: str) -> VerdictPolicy:
    """The core's policy of a cost file. Without an energy tariff, energy is part of the rate and need not be known."""
    return VerdictPolicy(
        idle_policy,
        book.normal_utilisation_ppm,
        book.target_margin_ppm,
        book.price_step,
        ENOUGH_ENERGY_PPM if book.has_energy else 0,
    )
