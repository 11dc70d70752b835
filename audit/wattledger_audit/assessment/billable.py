"""What a tenant's contract bills of what it held: by SKU, plan and place, in each window of constant rates."""

from fractions import Fraction
from typing import NamedTuple

from wattledger_core.capacity import HELD_STATE, RESERVED_STATE
from wattledger_core.line import RESERVED_TENANTS
from wattledger_core.sweep import PARTS_PER_US
from wattledger_core.units import US_PER_HOUR

from wattledger_audit.assessment.cost_book import TenantTerms
from wattledger_audit.assessment.fleet_book import NO_NODE, FleetBook
from wattledger_audit.assessment.holding import Swept
from wattledger_audit.assessment.run_book import NONE_US, RunBook
from wattledger_audit.assessment.terms import Terms

PARTS_PER_HOUR = PARTS_PER_US * US_PER_HOUR
UNSOLD_PLANS = ("internal", "trial")


class Sold(NamedTuple):
    """One tenant × SKU × plan in one pool of devices."""

    tenant: str
    sku: str
    plan: str
    site: str
    gpu_model: str


class Billable:
    """Billable parts by what is sold and window; a failed run that the provider pays for is not in them."""

    def __init__(self) -> None:
        self.parts: dict[Sold, dict[int, int]] = {}

    def add(self, sold: Sold, window: int, parts: int) -> None:
        """Take parts (also negative ones, from a rule that bills less)."""
        windows = self.parts.setdefault(sold, {})
        windows[window] = windows.get(window, 0) + parts

    def total(self, sold: Sold) -> int:
        """Billable parts over all windows."""
        return sum(self.parts.get(sold, {}).values())

    def hours(self, sold: Sold) -> Fraction:
        """Billable GPU-hours."""
        return Fraction(self.total(sold), PARTS_PER_HOUR)


def bill(swept: Swept, runs: RunBook, terms: Terms, fleet: FleetBook) -> Billable:
    """Held time, and reserved time whether used or not; then each tenant's increment, minimum and cut-off rule."""
    billable = Billable()
    for key, parts in swept.ledger.parts.items():
        holder = key.holder
        if holder.tenant not in RESERVED_TENANTS and holder.state in (HELD_STATE, RESERVED_STATE):
            sold = Sold(holder.tenant, holder.sku, holder.plan, key.site, key.gpu_model)
            billable.add(sold, key.window, parts)
    special = {
        name: rule for name, rule in terms.tenants.items()
        if rule.increment_us or rule.minimum_us or rule.billed_by == "end"
    }  # fmt: skip
    if special:
        for number, holder in swept.run_holder.items():
            rule = special.get(holder.tenant)
            if rule is not None:
                site, gpu_model = _place(runs, number, fleet)
                sold = Sold(holder.tenant, holder.sku, holder.plan, site, gpu_model)
                _adjust(billable, sold, swept, runs, number, rule)
    return billable


def _place(runs: RunBook, number: int, fleet: FleetBook) -> tuple[str, str]:
    """Site and model of a run's first node that is in the fleet, as its time lines have them."""
    who, shape = runs.whos[runs.who[number]], runs.shapes[runs.shape[number]]
    texts = shape.nodes or (f"{NO_NODE} {who.gpu_model}".rstrip(),)
    nodes = [fleet.nodes.get(fleet.name_of(who.cluster, text)) for text in texts]
    node = next((node for node in nodes if node is not None), None)
    return ("", "") if node is None else (node.site, node.gpu_model)


def _adjust(billable: Billable, sold: Sold, swept: Swept, runs: RunBook, number: int, rule: TenantTerms) -> None:
    """What the rule bills of one run beside what it held inside the period, in the window in which it ends."""
    edges, parts = swept.ledger.edges, swept.run_parts[number]
    start_us, ended_us = runs.start_us[number], runs.end_us[number]
    until_us = runs.held_until_us(number, edges[-1])
    inside_us = min(until_us, edges[-1]) - max(start_us, edges[0])
    whole_us = until_us - start_us
    if inside_us <= 0 or whole_us <= 0:
        return
    ends_inside = ended_us != NONE_US and edges[0] < ended_us <= edges[-1]
    billed_us = max(whole_us, rule.minimum_us) if ends_inside else whole_us
    if rule.increment_us and ends_inside:
        billed_us = -(-billed_us // rule.increment_us) * rule.increment_us
    if rule.billed_by == "end":
        wanted_us = billed_us if ends_inside else 0
    else:
        wanted_us = inside_us + billed_us - whole_us
    extra = parts * (wanted_us - inside_us) // inside_us
    if extra:
        last_us = min(until_us, edges[-1]) - 1
        window = next(n for n in range(len(edges) - 1) if edges[n] <= last_us < edges[n + 1])
        billable.add(sold, window, extra)
