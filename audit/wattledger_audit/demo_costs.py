"""The price book as the audit's cost book, and what the rate card billed as invoice lines. Nothing is priced here."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from zoneinfo import ZoneInfo

from wattledger_core.cost import PRICED, CostRow
from wattledger_core.line import RESERVED_TENANTS
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_core.pricing import RESERVED_PLAN
from wattledger_core.pricing_match import Scope, Wanted, choose
from wattledger_core.revision import AllocationRevision
from wattledger_core.units import MONEY_CONTEXT
from wattledger_core.verdict import VerdictPolicy

from wattledger_audit.assessment.cost_book import PROVIDER, TENANT, ContractRate, CostBook, TenantTerms
from wattledger_audit.assessment.period import Period
from wattledger_audit.demo_holds import STOP_PENDING_STATE
from wattledger_audit.intake.record import BillingLine, FleetNode, Reservation

COST_KINDS = ("compute", "energy", "pool")
BEARERS = {
    "NODE_FAIL": TENANT, "BOOT_FAIL": TENANT, "PREEMPTED": TENANT, "REVOKED": TENANT, STOP_PENDING_STATE: PROVIDER,
}  # fmt: skip
"""The rate card bills what is held, however it ends; only a device that is told to stop and not released is not."""
_SAID = (
    "Prices are those of the price book as they stand at the end: one that was published late holds from its start.",
    "The rate card bills held and reserved time however an attempt ends, so preempted attempts are their tenants'; "
    "between a stop request and the release the provider pays.",
    "Contract prices are the rate card's: the one that is narrowest for each tenant, SKU, plan and model.",
)  # fmt: skip


def standing_prices(log: PriceLog) -> list[Price]:
    """The last revision of every price, in order of kinds and of first occurrence; those that never hold left out."""
    count = len(log.entries)
    kept = [history.standing(count) for kind in (*COST_KINDS, "rate") for history in log.histories(kind)]
    return [price for price in kept if price is not None and price.start_us < price.until_us]


def cost_book(
    log: PriceLog, policy: VerdictPolicy, period: Period, allocations: Iterable[AllocationRevision],
    nodes: Sequence[FleetNode], reservations: Iterable[Reservation],
) -> CostBook:  # fmt: skip
    """The price book's costs, its rate card as contracts, and the policy of the verdicts."""
    prices = standing_prices(log)
    costs = tuple(price for price in prices if price.kind in COST_KINDS)
    scopes = _scopes(allocations, nodes, reservations)
    return CostBook(
        currency=prices[0].currency if prices else "EUR",
        timezone=period.zone,
        prices=costs,
        tenants=tuple(_terms(log, prices, tenant, found, period) for tenant, found in sorted(scopes.items())),
        idle_policy=policy.idle_policy,
        normal_utilisation_ppm=policy.normal_utilisation_ppm,
        target_margin_ppm=policy.target_margin_ppm,
        price_step=policy.price_step,
        has_energy=any(price.kind == "energy" for price in costs),
        assumptions=_SAID,
    )


def _scopes(
    allocations: Iterable[AllocationRevision], nodes: Sequence[FleetNode], reservations: Iterable[Reservation]
) -> dict[str, set[Scope]]:
    """What each tenant held, or had reserved, as rates are narrowed to it."""
    fleet = {node.node: node for node in nodes}
    found: dict[str, set[Scope]] = {}
    for a in allocations:
        if a.node in fleet:
            node = fleet[a.node]
            found.setdefault(a.tenant, set()).add(Scope(node.site, node.gpu_model, a.tenant, a.plan, a.sku))
    for reservation in reservations:
        for node in (fleet[name] for name in reservation.nodes if name in fleet):
            scope = Scope(node.site, node.gpu_model, reservation.tenant, RESERVED_PLAN, "")
            found.setdefault(reservation.tenant, set()).add(scope)
    return found


def _terms(
    log: PriceLog, prices: Sequence[Price], tenant: str, scopes: Iterable[Scope], period: Period
) -> TenantTerms:  # fmt: skip
    edges = {period.start_us, period.end_us}
    edges |= {at for price in prices if price.kind == "rate" for at in (price.start_us, price.until_us)}
    inside = [at for at in sorted(edges) if period.start_us <= at <= period.end_us]
    contract = [rate for scope in sorted(scopes) for rate in _contract(log, scope, inside)]
    plans = {scope.plan for scope in scopes}
    return TenantTerms(
        tenant, plan=plans.pop() if len(plans) == 1 else "", contract=tuple(contract), bearers=BEARERS
    )  # fmt: skip


def _contract(log: PriceLog, scope: Scope, edges: Sequence[int]) -> Iterator[ContractRate]:
    """The rates of one scope between the moments at which any rate changes."""
    wanted = Wanted("rate", False, plan="" if scope.sku else RESERVED_PLAN)
    for start_us, end_us in pairwise(edges):
        choice = choose(log, wanted, scope, start_us, len(log.entries))
        if choice is not None and choice.status == PRICED and choice.rate is not None:
            yield ContractRate(
                choice.rate, choice.currency, scope.sku, scope.gpu_model, scope.plan, start_us, end_us
            )  # fmt: skip


def billing_lines(rows: Iterable[CostRow], period: Period) -> list[BillingLine]:
    """What was billed for the day: a line for each tenant × SKU × plan × rate, over the whole of it.

    `rows` with what takes them back among them; Σ amount is Σ cost of them, exactly.
    """
    groups: dict[tuple[str, str, str, Decimal, str], tuple[int, Decimal]] = {}
    listed = [row for row in rows if row.cost is not None and row.rate is not None and _customer(row)]
    sold = _reserved_skus(listed)
    for row in listed:
        sku = row.sku or sold.get((row.tenant, row.plan, row.gpu_model), row.gpu_model)
        key = (row.tenant, sku, row.plan, row.rate or Decimal(0), row.currency)
        held_us, amount = groups.get(key, (0, Decimal(0)))
        groups[key] = (held_us + (row.quantity or 0), MONEY_CONTEXT.add(amount, row.cost or Decimal(0)))
    day = f"{period.local(period.start_us):%Y-%m-%d}"
    return [
        BillingLine(
            line, f"{tenant}-{day}", tenant, sku, f"GPU time at {rate} {currency} per GPU-hour", plan,
            period.start_us, period.end_us, Decimal(held_us).scaleb(-6), "GPU-seconds", amount, currency, "usage", "",
            0, True,
        )
        for line, ((tenant, sku, plan, rate, currency), (held_us, amount)) in enumerate(sorted(groups.items()), start=1)
        if held_us or amount
    ]  # fmt: skip


def _customer(row: CostRow) -> bool:
    return bool(row.tenant) and row.tenant not in RESERVED_TENANTS


def _reserved_skus(rows: Iterable[CostRow]) -> dict[tuple[str, str, str], str]:
    """Reserved time that was not used names no SKU: it is the one that its tenant held on that plan and model."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for row in rows:
        if row.sku:
            found.setdefault((row.tenant, row.plan, row.gpu_model), set()).add(row.sku)
    return {key: min(skus) for key, skus in found.items()}


def utc_period(start_us: int, end_us: int, why: str) -> Period:
    """A period in UTC."""
    return Period(start_us, end_us, ZoneInfo("UTC"), why)
