"""What the files given say that a cost file needs: machines, tenants by source, and who is billed without any usage."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from zoneinfo import ZoneInfo

from wattledger_core.units import MONEY_CONTEXT

from wattledger_audit.assessment.assess import Asked, Assessment, Say, assess
from wattledger_audit.assessment.cost_draft import DraftFacts
from wattledger_audit.assessment.period import Period, default_period, parse_period
from wattledger_audit.assessment.revenue import BillingRules, book_revenue
from wattledger_audit.gathering import Gathered
from wattledger_audit.intake.record import BillingLine
from wattledger_audit.intake.refusal import Rejections

UNKNOWN_ZONE = "UTC"


@dataclass(frozen=True, slots=True)
class Drafted:
    """The facts, and what was looked at: how many machines and GPUs, whether an inventory lists them."""

    facts: DraftFacts
    nodes: int
    gpus: int
    listed: bool


def draft_facts(gathered: Gathered, period: str | None, zone: ZoneInfo, rejections: Rejections, say: Say) -> Drafted:
    """Facts of the audited period. A cost file among the files is not looked at: this drafts one.

    Raises `InputRefused`, `PeriodRefused`."""
    lines = [line for _, found in gathered.billing for line in found]
    if not lines and not len(gathered.runs) and period is None:
        nodes = {row.node: (row.gpu_model, row.gpus) for row in gathered.fleet}
        return _drafted(DraftFacts(nodes, timezone=zone.key), bool(nodes))
    asked = parse_period(period, zone) if period else default_period(gathered.runs, lines, zone)
    currency = _main_currency(lines)
    main = replace(gathered, costs=None, billing=_only(gathered, currency))
    assessment = assess(main, Asked(zone, asked), rejections, [], say)
    used, billed = _tenants(assessment, gathered, rejections)
    unmapped = [(name, amount, code) for (name, code), amount in billed.items() if name not in used]
    facts = DraftFacts(
        usage_nodes={
            node.name: (node.gpu_model, node.gpus) for node in assessment.fleet.nodes.values() if not node.floating
        },
        tenants={"usage": sorted(used), "billing": sorted({name for name, _ in billed})},
        unmapped=unmapped,
        currency=currency,
        timezone=zone.key,
        period=asked.title,
    )
    return _drafted(facts, assessment.fleet.listed)


def _drafted(facts: DraftFacts, listed: bool) -> Drafted:
    return Drafted(facts, len(facts.usage_nodes), sum(gpus for _, gpus in facts.usage_nodes.values()), listed)


def _main_currency(lines: list[BillingLine]) -> str:
    """The one that most lines are in; empty without billing."""
    counts = Counter(line.currency for line in lines)
    return min(counts, key=lambda code: (-counts[code], code)) if counts else ""


def _only(gathered: Gathered, currency: str) -> list[tuple[str, list[BillingLine]]]:
    return [(name, [line for line in lines if line.currency == currency]) for name, lines in gathered.billing]


def _tenants(
    assessment: Assessment, gathered: Gathered, rejections: Rejections
) -> tuple[set[str], Mapping[tuple[str, str], Decimal]]:
    """Tenants of the usage, and what each tenant was billed in the period by (name, currency)."""
    names = assessment.terms.names
    used = {names.resolve("usage", who.tenant) for who in gathered.runs.whos if who.tenant}
    used |= {names.resolve("usage", each.tenant) for each in gathered.reservations if each.tenant}
    revenue = list(assessment.revenue.lines)
    main = assessment.revenue.currency
    for code in sorted({line.currency for _, lines in gathered.billing for line in lines} - {main}):
        period: Period = assessment.period
        rules = BillingRules(period.start_us, period.end_us, None, (), {}, {})
        revenue += book_revenue(_only(gathered, code), rules, names, rejections).lines
    billed: dict[tuple[str, str], Decimal] = {}
    for line in revenue:
        key = (line.tenant, line.line.currency)
        billed[key] = MONEY_CONTEXT.add(billed.get(key, Decimal(0)), line.amount)
    return used, billed
