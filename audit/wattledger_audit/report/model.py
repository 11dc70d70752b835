"""The shape of `report.json`, which every page, table and sheet is written from. Values only; nothing is computed here.

Money, hours and energy are decimal text (never floats); None is unknown, and a reason stands beside it.
"""

from pydantic import BaseModel, ConfigDict

IDLE_CHOICES = ("apart", "weighted", "even", "normal")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileUsed(_Part):
    """What one input file was taken for. `money` by currency; `refused_money` is in lines that were not used."""

    name: str
    role: str
    format: str
    why: str
    records: int
    rejected: int
    gpu_hours: str | None
    money: dict[str, str]
    refused_money: dict[str, str]
    sha256: str


class Step(_Part):
    """One step of the leakage bridge. `kind`: total or change; amounts of changes are signed and lead from the total
    before to the total after. `invoices` are `file:line invoice` texts, `jobs` job ids; `more` counts what is left out.
    """

    step: str
    label: str
    kind: str
    amount: str | None
    hours: str | None
    tenants: list[tuple[str, str]]
    invoices: list[str]
    jobs: list[str]
    more: int
    note: str


class Figures(_Part):
    """Figures under one idle policy, for a tenant or a tenant × SKU × plan."""

    idle_share: str | None
    cost_total: str | None
    margin: str | None
    margin_ratio: str | None
    verdict: str
    reason: str
    below_cost: bool
    break_even_per_gpu_hour: str | None
    break_even_reason: str
    suggested_price_per_gpu_hour: str | None
    suggested_price_reason: str
    action: str


class Row(_Part):
    """A tenant (`sku` empty) or a tenant × SKU × plan. The figures at the top are those of the chosen idle policy;
    `by_policy` has all four. `cost_energy` is the energy-only cost, `cost_own` everything but idle."""

    tenant: str
    sku: str
    plan: str
    gpu_hours: str
    billable_gpu_hours: str
    billed_gpu_hours: str | None
    provider_paid_gpu_hours: str
    energy_kwh: str | None
    energy_depth: str
    cost_energy: str | None
    cost_compute: str | None
    cost_pools: str | None
    cost_own: str | None
    marginal_floor: str | None
    idle_share: str | None
    cost_total: str | None
    billed: str | None
    effective_rate_per_gpu_hour: str | None
    contract_price_per_gpu_hour: str | None
    margin: str | None
    margin_ratio: str | None
    break_even_per_gpu_hour: str | None
    break_even_reason: str
    suggested_price_per_gpu_hour: str | None
    suggested_price_reason: str
    verdict: str
    reason: str
    below_cost: bool
    action: str
    measured_ratio: str
    unpriced_rows: int
    unmeasured_rows: int
    by_policy: dict[str, Figures]


class Walk(_Part):
    """One tenant from watts to price: each step a label, a value with its unit, the formula in words, a depth badge."""

    tenant: str
    steps: list[tuple[str, str, str, str]]


class CapacityState(_Part):
    """One line of the waterfall, from installed to billed. `kind`: total or part (parts are subtracted)."""

    step: str
    label: str
    kind: str
    gpu_hours: str
    cost: str | None
    reasons: list[tuple[str, str, str | None]]


class WaitingRun(_Part):
    """A run that waited while this machine was free: matched idle GPU-hours, each matched once."""

    job: str
    tenant: str
    gpus: int
    waited_hours: str
    matched_gpu_hours: str
    capacity_cost: str | None
    revenue_lost: str | None


class IdleNode(_Part):
    """Idle burn of one machine; the runs that could have been there, largest first."""

    node: str
    site: str
    gpu_model: str
    gpus: int
    idle_gpu_hours: str
    idle_ratio: str
    cost: str | None
    energy_kwh: str | None
    waiting: list[WaitingRun]
    waiting_more: int


class TokenRow(_Part):
    """Joules per token of one tenant and model, where tokens are known; only over runs that have both."""

    tenant: str
    model: str
    runs: int
    tokens: int
    energy_joules: str | None
    joules_per_token: str | None
    cost_per_million_tokens: str | None
    depth: str


class TieOut(_Part):
    """Two figures of the same thing, made apart. `residual` 0, or `named` says what it is."""

    name: str
    left_label: str
    left: str | None
    right_label: str
    right: str | None
    residual: str | None
    unit: str
    named: str


class Coverage(_Part):
    """What could be seen and priced: shares of time, energy, money (0 to 1, text), and counts of what could not."""

    measured_ratio: str
    modelled_ratio: str
    unknown_energy_ratio: str
    known_gpus_ratio: str
    priced_ratio: str
    billed_matched_ratio: str | None
    unpriced_rows: int
    unmeasured_rows: int
    rejected_rows: int
    runs_without_gpu_count: int
    cpu_only_runs: int


class Found(_Part):
    """Contradictions of one kind: resolved by `rule`."""

    kind: str
    count: int
    nodes: str
    example: str
    rule: str


class Report(_Part):
    """All of it. Where there is no cost file (`stage` leakage), costs, floors and margins are None.

    `depth` has the badges there are: invoice, scheduler, counter. `fleet` is {state: GPU-hours}.

    `stage`: `leakage` (no costs), `first_margin` (one rate per GPU-hour) or `full`."""

    product: str
    version: str
    title: str
    stage: str
    period_start: str
    period_end: str
    timezone: str
    hours: str
    currency: str
    idle_policy: str
    normal_utilisation: str
    target_margin: str
    price_step: str
    depth: list[str]
    headline: str
    verdict_lines: list[str]
    next_answer: str
    below_cost_tenants: int
    below_cost_by: str
    unbilled: str | None
    billed_over_installed: str | None
    files: list[FileUsed]
    bridge: list[Step]
    tenants: list[Row]
    skus: list[Row]
    repricing: list[Row]
    walk: list[Walk]
    fleet: dict[str, str]
    waterfall: list[CapacityState]
    idle: list[IdleNode]
    waiting_note: str
    tokens: list[TokenRow]
    tie_out: list[TieOut]
    coverage: Coverage
    rejected: list[tuple[str, str, int, str]]
    discrepancies: list[Found]
    method: list[str]
    assumptions: list[str]
