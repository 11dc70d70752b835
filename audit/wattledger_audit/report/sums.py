"""Sums over an assessment's lines and rows that several parts of a report show; each is made once."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from wattledger_core.capacity import HELD_STATE
from wattledger_core.line import RESERVED_TENANTS
from wattledger_core.pricing import COMPUTE, ENERGY
from wattledger_core.units import MONEY_CONTEXT
from wattledger_core.verdict import NOT_REPRICED_PLANS

from wattledger_audit.assessment.assess import Assessment
from wattledger_audit.assessment.energy_lines import MODELLED
from wattledger_audit.assessment.terms import FAILED_RUN

ZERO = Decimal(0)
RowKey = tuple[str, str, str]
"""Tenant, SKU, plan; a tenant's own key has no SKU, and its plan only where it is not sold."""


@dataclass(slots=True)
class Sums:
    """What one tenant, or one tenant × SKU × plan, comes to. Energy None: nothing is known of it."""

    energy_uj: int | None = None
    measured_parts: int = 0
    modelled_parts: int = 0
    unmeasured_rows: int = 0
    unpriced_rows: int = 0
    cost_energy: Decimal = ZERO
    cost_compute: Decimal = ZERO
    cost_pools: Decimal = ZERO
    provider_paid_parts: int = 0
    billed_hours: Fraction = Fraction(0)
    unsaid_quantities: int = 0

    @property
    def depth(self) -> str:
        """How energy is known: counter, modelled, both, or unknown."""
        known = [name for name, parts in (("counter", self.measured_parts), ("modelled", self.modelled_parts)) if parts]
        return " and ".join(known) or "unknown"


@dataclass(slots=True)
class StateSum:
    """Parts and cost of one capacity state, and by reason."""

    parts: int = 0
    cost: Decimal = ZERO
    reasons: dict[str, tuple[int, Decimal]] = field(default_factory=dict)


def tenant_key(tenant: str, plan: str) -> RowKey:
    """The key of a tenant's row: internal and trial use stand apart from what is sold."""
    return (tenant, "", plan if plan in NOT_REPRICED_PLANS else "")


def by_row(assessment: Assessment) -> dict[RowKey, Sums]:
    """Sums by both kinds of keys."""
    found: dict[RowKey, Sums] = {}
    for line in assessment.costed.lines:
        if line.kind == "energy" and line.tenant not in RESERVED_TENANTS:
            for sums in _both(found, line.tenant, line.sku, line.plan):
                # shares of held time: what a tenant reserved or stranded is no part of them
                parts = line.span_us if line.state == HELD_STATE else 0
                _add_energy(sums, line.energy_uj, parts, line.method)
    for row in assessment.costed.rows:
        if row.tenant in RESERVED_TENANTS:
            continue
        for sums in _both(found, row.tenant, row.sku, row.plan):
            if row.status == "unpriced":
                sums.unpriced_rows += 1
            elif row.status == "unmeasured":
                sums.unmeasured_rows += 1
            _add_cost(sums, row.component, row.cost or ZERO)
    _add_uses(assessment, found)
    return found


def _add_uses(assessment: Assessment, found: dict[RowKey, Sums]) -> None:
    """What failed runs the provider pays for, and what quantities were billed."""
    for key, parts in assessment.swept.ledger.parts.items():
        if key.holder.reason.startswith(FAILED_RUN):
            for sums in _both(found, key.holder.project, key.holder.sku, key.holder.plan):
                sums.provider_paid_parts += parts
    billed = assessment.judged.billed
    for sold, hours in billed.hours.items():
        for sums in _both(found, sold.tenant, sold.sku, sold.plan):
            sums.billed_hours += hours
    for sold in billed.unsaid:
        for sums in _both(found, sold.tenant, sold.sku, sold.plan):
            sums.unsaid_quantities += 1


def _both(found: dict[RowKey, Sums], tenant: str, sku: str, plan: str) -> Iterable[Sums]:
    yield found.setdefault(tenant_key(tenant, plan), Sums())
    yield found.setdefault((tenant, sku, plan), Sums())


def _add_energy(sums: Sums, energy_uj: int | None, parts: int, method: str) -> None:
    if energy_uj is None:
        return
    sums.energy_uj = (sums.energy_uj or 0) + energy_uj
    if method == MODELLED:
        sums.modelled_parts += parts
    else:
        sums.measured_parts += parts


def _add_cost(sums: Sums, component: str, cost: Decimal) -> None:
    if component == ENERGY:
        sums.cost_energy = MONEY_CONTEXT.add(sums.cost_energy, cost)
    elif component == COMPUTE:
        sums.cost_compute = MONEY_CONTEXT.add(sums.cost_compute, cost)
    else:
        sums.cost_pools = MONEY_CONTEXT.add(sums.cost_pools, cost)


def by_state(assessment: Assessment) -> dict[str, StateSum]:
    """Parts and cost by capacity state and reason. Energy without a holder is `unattributed`."""
    found: dict[str, StateSum] = {}
    for key, parts in assessment.swept.ledger.parts.items():
        state = found.setdefault(key.holder.state, StateSum())
        state.parts += parts
        before = state.reasons.get(key.holder.reason, (0, ZERO))
        state.reasons[key.holder.reason] = (before[0] + parts, before[1])
    for row in assessment.costed.rows:
        if row.cost is None:
            continue
        state = found.setdefault(row.state, StateSum())
        state.cost = MONEY_CONTEXT.add(state.cost, row.cost)
    reasons = {line.line_id: line.reason for line in assessment.costed.lines}
    for row in assessment.costed.rows:
        if row.cost is not None:
            state = found[row.state]
            reason = reasons.get(row.line_id, "")
            before = state.reasons.get(reason, (0, ZERO))
            state.reasons[reason] = (before[0], MONEY_CONTEXT.add(before[1], row.cost))
    return found


def total(amounts: Iterable[Decimal | None]) -> Decimal:
    """Σ of the known amounts, exactly."""
    found = ZERO
    for amount in amounts:
        if amount is not None:
            found = MONEY_CONTEXT.add(found, amount)
    return found
