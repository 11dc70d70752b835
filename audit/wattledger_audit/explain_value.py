"""The shape of an explanation: groups of cost rows with their price and formula, and figures with theirs. Values only.

Money is `Decimal` in the audit's currency; quantities are GPU-hours, kWh or node-hours as decimal text, with the
exact number beside them where six decimals are not all of it.
"""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class PricePeriod:
    """One price version: its id, when it holds (`where` it is written), and what was priced by it."""

    price_id: str
    start: str
    end: str
    quantity: str
    cost: Decimal | None


@dataclass(frozen=True, slots=True)
class PricedGroup:
    """Cost rows of one component, SKU, plan, place, state and rate. `cost` is Σ of their costs, each rounded once to
    12 decimals; `rounding` is what that differs by from the whole quantity at once. Cost None: `reason` says why."""

    component: str
    start: str
    end: str
    sku: str
    plan: str
    site: str
    gpu_model: str
    state: str
    method: str
    quantity: str | None
    quantity_exact: str | None
    unit: str
    rate: Decimal | None
    pue: Decimal | None
    where: str
    formula: str
    cost: Decimal | None
    rows: int
    rounding: Decimal | None
    marginal: bool
    status: str
    reason: str
    prices: tuple[PricePeriod, ...]


@dataclass(frozen=True, slots=True)
class SpreadGroup:
    """A part of one amount that its driver spreads: `inside` is what it comes to in the period, `weight` of
    `whole_weight` is this part's share of the driver, `cost` the part, to 12 decimals."""

    component: str
    start: str
    end: str
    amount: Decimal
    per_device: bool
    site: str
    gpu_model: str
    inside: Decimal
    driver: str
    weight: str
    whole_weight: str
    unit: str
    share: str
    formula: str
    cost: Decimal
    rows: int
    marginal: bool


@dataclass(frozen=True, slots=True)
class IdleShare:
    """A tenant's share of one pool's idle cost under the chosen policy; what the pool's idle cost is made of."""

    site: str
    gpu_model: str
    policy: str
    idle_gpu_hours: str
    idle_cost: Decimal
    shared: Decimal
    held_gpu_hours: str
    pool_held_gpu_hours: str
    formula: str
    share: Decimal
    priced: tuple[PricedGroup, ...]
    spread: tuple[SpreadGroup, ...]


@dataclass(frozen=True, slots=True)
class BilledLine:
    """One invoice line: where it stands, its amount as written, and what of it counts in this row (None: it does not,
    and `note` says why)."""

    where: str
    invoice_id: str
    sku: str
    category: str
    start: str
    end: str
    amount: Decimal
    currency: str
    counted: Decimal | None
    note: str


@dataclass(frozen=True, slots=True)
class RunHeld:
    """One run: where the log says it, where it ran, how it ended, who pays and why, and its part in the period."""

    where: str
    cluster: str
    job: str
    project: str
    nodes: str
    device: str
    gpus: int | None
    share: str
    start: str
    end: str | None
    state: str
    gpu_hours: str | None
    energy_kwh: str | None
    payer: str
    why: str


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a row by its name in `report.json`; the formula with its numbers filled in."""

    name: str
    value: str | None
    unit: str
    formula: str


@dataclass(frozen=True, slots=True)
class RowExplained:
    """One row of a tenant: sold use, or internal or trial use apart. `figures` end in those of the report."""

    tenant: str
    plan: str
    verdict: str
    reason: str
    action: str
    figures: tuple[Figure, ...]
    priced: tuple[PricedGroup, ...]
    spread: tuple[SpreadGroup, ...]
    idle: tuple[IdleShare, ...]
    billed: tuple[BilledLine, ...]
    runs: tuple[RunHeld, ...]
    more_runs: int


@dataclass(frozen=True, slots=True)
class TenantExplained:
    """All rows of a tenant, and the invoice lines that count in none."""

    kind: str
    tenant: str
    period_start: str
    period_end: str
    timezone: str
    currency: str
    stage: str
    rows: tuple[RowExplained, ...]
    not_counted: tuple[BilledLine, ...]


@dataclass(frozen=True, slots=True)
class Worth:
    """What a run's time in one window should be billed at, and where the rate is from."""

    start: str
    end: str
    sku: str
    plan: str
    gpu_hours: str
    rate: Decimal | None
    basis: str
    amount: Decimal | None


@dataclass(frozen=True, slots=True)
class JobExplained:
    """One job: its runs, its cost rows by window and component, and what its time should be billed at."""

    kind: str
    cluster: str
    job: str
    tenants: tuple[str, ...]
    period_start: str
    period_end: str
    timezone: str
    currency: str
    stage: str
    runs: tuple[RunHeld, ...]
    gpu_hours: str
    priced: tuple[PricedGroup, ...]
    spread: tuple[SpreadGroup, ...]
    costs: tuple[Figure, ...]
    worth: tuple[Worth, ...]
