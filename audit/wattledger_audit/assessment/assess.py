"""The whole assessment: records in, held time, costs, revenue, bridge and verdicts out. Owns the order of the steps."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

from wattledger_core.price import Price
from wattledger_core.revision import Origin
from wattledger_core.span_lines import SpanLedger
from wattledger_core.units import QUARTER_US, quarter_floor_us

from wattledger_audit.assessment.billable import Billable, bill
from wattledger_audit.assessment.bridge import GroupBridge, build_bridge
from wattledger_audit.assessment.cost_book import CostBook
from wattledger_audit.assessment.cost_file import fleet_file_of, read_cost_file
from wattledger_audit.assessment.costing import Costed, cost, price_edges
from wattledger_audit.assessment.energy_lines import MeasuredEnergy
from wattledger_audit.assessment.fleet_book import FleetBook
from wattledger_audit.assessment.holding import Swept, hold
from wattledger_audit.assessment.judging import Judged, judge_uses
from wattledger_audit.assessment.measuring import NO_BATCHES, NodeBatches, measure, measured_nodes
from wattledger_audit.assessment.names import ModelNames, TenantNames, model_family
from wattledger_audit.assessment.node_price import node_words
from wattledger_audit.assessment.period import Period, default_period
from wattledger_audit.assessment.plausible import beyond_capacity, other_models
from wattledger_audit.assessment.rates import RateBook
from wattledger_audit.assessment.revenue import BillingRules, RevenueBook, billed_edges, book_revenue
from wattledger_audit.assessment.run_book import RunBook
from wattledger_audit.assessment.terms import SkuBook, Terms
from wattledger_audit.assessment.waiting import Waiting, match_waiting
from wattledger_audit.gathering import Gathered
from wattledger_audit.intake.record import BillingLine, FleetNode
from wattledger_audit.intake.refusal import Rejections

LEAKAGE, FIRST_MARGIN, FULL = "leakage", "first_margin", "full"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the person asked for: costs, one rate per GPU-hour in their place, the period's text, job-wise lines."""

    zone: ZoneInfo
    period: Period | None = None
    per_gpu_hour: Decimal | None = None
    by_job: bool = False


@dataclass(slots=True)
class Assessment:
    """Everything that a report says, as exact values."""

    stage: str
    period: Period
    book: CostBook
    gathered: Gathered
    fleet: FleetBook
    terms: Terms
    swept: Swept
    measured: MeasuredEnergy
    costed: Costed
    revenue: RevenueBook
    billable: Billable
    rates: RateBook
    bridge: list[GroupBridge]
    judged: Judged
    waiting: Waiting
    assumptions: list[str] = field(default_factory=list)
    found: list[tuple[str, str, int, str]] = field(default_factory=list)
    """Contradictions: kind, where, count, example."""

    @property
    def runs(self) -> RunBook:
        return self.gathered.runs

    def model_of(self, number: int) -> str:
        """The GPU model that a run was on: its (first) node's, else what the log says."""
        who, shape = self.runs.whos[self.runs.who[number]], self.runs.shapes[self.runs.shape[number]]
        node = self.fleet.nodes.get(self.fleet.name_of(who.cluster, shape.nodes[0])) if shape.nodes else None
        return node.gpu_model if node is not None and node.gpu_model else self.terms.models.resolve(who.gpu_model)

    @property
    def has_billing(self) -> bool:
        return bool(self.gathered.billing)


def assess(
    gathered: Gathered, asked: Asked, rejections: Rejections, fleet_rows: Sequence[FleetNode], say: Say,
    costs: CostBook | None = None, batches: NodeBatches = NO_BATCHES,
) -> Assessment:  # fmt: skip
    """Run every step. `costs` stand in the place of a cost file, `batches` beside traces. Raises `InputRefused` and
    `CostFileRefused`."""
    gathered.runs.order_by([gathered.files[number].name for number in range(len(gathered.files))])
    billing = [line for _, lines in gathered.billing for line in lines]
    period = asked.period or default_period(gathered.runs, billing, asked.zone)
    stage, book = (FULL, costs) if costs else _book(
        gathered.costs, asked, period, billing[0].currency if billing else "USD"
    )  # fmt: skip
    assumptions = list(book.assumptions)
    if stage == FULL and asked.per_gpu_hour is not None:
        assumptions.append("--per-gpu-hour is not used: the cost file says what a GPU-hour costs.")
    listed = [*gathered.fleet, *fleet_rows, *book.fleet]
    models = ModelNames(
        [
            *(price.gpu_model for price in book.prices), *(spread.gpu_model for spread in book.spreads), *book.power,
            *(price.gpu_model for price in book.node_prices), *(row.gpu_model for row in listed),
        ]
    )  # fmt: skip
    names = TenantNames(_aliases(book), _tenant_spellings(book, billing, gathered))
    fleet = FleetBook(period.start_us, period.end_us, (who.cluster for who in gathered.runs.whos))
    fleet.add_inventory(row._replace(gpu_model=models.resolve(row.gpu_model)) for row in listed)
    rules = BillingRules(
        period.start_us, period.end_us, book.currency if stage == FULL else None, book.fx,
        {rule.sku: rule for rule in book.skus}, _gpus_per_node(fleet),
    )  # fmt: skip
    revenue = book_revenue(gathered.billing, rules, names, rejections)
    if stage != FULL:
        book = _in_currency(book, revenue.currency)
    elif not (book.prices or book.spreads or book.node_prices):
        stage = LEAKAGE
        assumptions.append("The cost file prices nothing yet: fill in compute (and energy) for margins and verdicts.")
    skus = SkuBook(rules.skus)
    for line in revenue.lines:
        if line.gpu and line.category in ("usage", "commitment", "shortfall"):
            skus.add(line.tenant, line.sku, line.line.description, line.line.quantity)
    terms = Terms(book.tenants, names, models, skus, asked.by_job)
    edges = price_edges(book, period.start_us, period.end_us, terms.contract_edges() | billed_edges(revenue.lines))
    say("sweeping the fleet")
    fleet.expect(gathered.runs.node_names())
    found = _strangers("events_of_unknown_node", (span.node for span in fleet.add_states(gathered.states)))
    holders = {reservation.tenant: names.resolve("usage", reservation.tenant) for reservation in gathered.reservations}
    strange = fleet.add_reservations(gathered.reservations, holders)
    found += _strangers("reservation_of_unknown_node", (reservation.reservation_id for reservation in strange))
    measurable = measured_nodes(gathered.traces, fleet, batches)
    swept = hold(gathered.runs, fleet, SpanLedger(edges), terms, measurable, book.node_prices)
    assumptions += node_words(book.node_prices, swept.ledger, swept.unsaid)
    floors = {name: model.idle_mw for name, model in book.power.items()}
    measured = measure(gathered.traces, fleet, swept, gathered.runs, terms, floors, batches)
    say("pricing")
    costed = cost(swept.ledger, measured, book)
    billable = bill(swept, gathered.runs, terms, fleet)
    rates = RateBook(terms)
    rates.observe(revenue.lines)
    bridge = build_bridge(billable, swept, gathered.runs, rates, revenue.lines) if gathered.billing else []
    judged = judge_uses(costed, billable, revenue.lines, terms, book)
    found += beyond_capacity(revenue.lines, fleet)
    found += other_models(gathered.runs, sorted(swept.run_holder), fleet)
    say("matching waiting runs")
    waiting = match_waiting(swept, gathered.runs, fleet, models)
    return Assessment(
        stage, period, book, gathered, fleet, terms, swept, measured, costed, revenue, billable, rates, bridge, judged,
        waiting, assumptions, found,
    )  # fmt: skip


def _tenant_spellings(book: CostBook, billing: Sequence[BillingLine], gathered: Gathered) -> tuple[str, ...]:
    """Names that tenants go by, the first of those that differ in spelling only counts: the cost file's, then those of
    invoices, usage and reservations, each in order, so that no order of files matters."""
    used = {who.tenant for who in gathered.runs.whos} | {found.tenant for found in gathered.reservations}
    return (*(terms.name for terms in book.tenants), *sorted({line.tenant for line in billing}), *sorted(used))


def _strangers(kind: str, names: Iterable[str]) -> list[tuple[str, str, int, str]]:
    """One contradiction for all that name what the fleet does not have."""
    listed = sorted(set(names))
    return [(kind, "", len(listed), ", ".join(listed[:3]))] if listed else []


def _book(costs: Path | None, asked: Asked, period: Period, currency: str) -> tuple[str, CostBook]:
    if costs is not None:
        return FULL, read_cost_file(costs, period.start_us, period.end_us)
    book = CostBook(currency, asked.zone)
    if asked.per_gpu_hour is None:
        return LEAKAGE, book
    price = Price(
        "per-gpu-hour", "", Origin(0, 0), 0, "compute", quarter_floor_us(period.start_us),
        -(-period.end_us // QUARTER_US) * QUARTER_US, asked.per_gpu_hour, currency,
    )  # fmt: skip
    said = f"One cost per GPU-hour for every GPU, all in: {asked.per_gpu_hour} {currency} (--per-gpu-hour)."
    return FIRST_MARGIN, replace(book, prices=(price,), assumptions=(said,))


def _in_currency(book: CostBook, currency: str) -> CostBook:
    prices = tuple(replace(price, currency=currency) for price in book.prices)
    return replace(book, currency=currency, prices=prices)


def _aliases(book: CostBook) -> dict[str, dict[str, str]]:
    """{source: {alias: tenant}}."""
    found: dict[str, dict[str, str]] = {}
    for terms in book.tenants:
        for source, names in terms.aliases.items():
            found.setdefault(source, {}).update(dict.fromkeys(names, terms.name))
    return found


def _gpus_per_node(fleet: FleetBook) -> dict[str, int]:
    """GPUs of a node by model family, where every node of it has the same."""
    sizes: dict[str, set[int]] = {}
    for node in fleet.nodes.values():
        sizes.setdefault(model_family(node.gpu_model), set()).add(node.gpus)
    return {family: min(found) for family, found in sizes.items() if len(found) == 1}


def fleet_file(costs: Path | None) -> Path | None:
    """The inventory that a cost file names, to be read like any other."""
    return None if costs is None else fleet_file_of(costs)
