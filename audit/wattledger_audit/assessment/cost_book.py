"""What a cost file says, as values ready for the core: prices, amounts to spread, terms of tenants, policies.

Values only; the YAML is read in cost_file*.py, the money is spread in spread.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from zoneinfo import ZoneInfo

from wattledger_core.price import Price
from wattledger_core.verdict_idle import WEIGHTED

from wattledger_audit.intake.record import FleetNode

SPREAD_DRIVERS = ("installed_gpu_h", "held_gpu_h", "node_h", "kwh", "committed_kw", "gb_month")
PROVIDER, TENANT = "provider", "tenant"

DEFAULT_BEARERS: Mapping[str, str] = {
    "NODE_FAIL": PROVIDER, "BOOT_FAIL": PROVIDER, "PREEMPTED": PROVIDER, "REVOKED": PROVIDER,
}  # fmt: skip
"""Who pays for a run by its end state; every other state: the tenant (ACCOUNTING.md, "Cost")."""


@dataclass(frozen=True, slots=True)
class Spread:
    """An amount of money for `[start_us, end_us)` that its driver spreads, exactly, so that the parts sum to it.

    `component` is `compute` or `pool:<name>`. `per_device`: the amount is for one device in service over the whole
    interval (a device in service for half of it brings half); otherwise it is the whole pool's amount for the
    interval. `site`, `gpu_model` narrow it (empty: all). `marginal`: paid in cash per use, so in the marginal floor.
    `said_at` is where the cost file says so.
    """

    component: str
    amount: Decimal
    currency: str
    start_us: int
    end_us: int
    driver: str
    per_device: bool = False
    site: str = ""
    gpu_model: str = ""
    marginal: bool = False
    said_at: str = ""


@dataclass(frozen=True, slots=True)
class NodePrice:
    """What one node costs for each hour in service, split over its GPUs, CPUs and memory by what one of each weighs.

    A GB is 2^30 bytes. `said_at` is where the cost file says so. `site`, `gpu_model` narrow it (empty: all).
    """

    per_node_hour: Decimal
    currency: str
    start_us: int
    end_us: int
    gpu_weight: Decimal
    cpu_weight: Decimal
    memory_gb_weight: Decimal
    site: str = ""
    gpu_model: str = ""
    said_at: str = ""


@dataclass(frozen=True, slots=True)
class PowerModel:
    """Power of one device of a model where there is no telemetry: while held, and while not. In mW."""

    gpu_model: str
    busy_mw: int
    idle_mw: int


@dataclass(frozen=True, slots=True)
class ContractRate:
    """What a tenant has agreed to pay per GPU-hour over an interval; empty `sku`, `gpu_model`, `plan` match all."""

    per_gpu_hour: Decimal
    currency: str
    sku: str = ""
    gpu_model: str = ""
    plan: str = ""
    start_us: int | None = None
    end_us: int | None = None


@dataclass(frozen=True, slots=True)
class TenantTerms:
    """One tenant: its names in the sources (`usage`, `billing`, `telemetry`; `""` for any), and how it is billed.

    `increment_us`: each run's billed time is rounded up to it (0: none); `minimum_us`: no run is billed less.
    `billed_by`: `overlap` (the part inside the period) or `end` (the whole run in the period in which it ends).
    `bearers`: who pays for a run by its end state, where it differs from DEFAULT_BEARERS.
    """

    name: str
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plan: str = ""
    contract: tuple[ContractRate, ...] = ()
    billing_timezone: ZoneInfo | None = None
    increment_us: int = 0
    minimum_us: int = 0
    billed_by: str = "overlap"
    bearers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SkuRule:
    """What a billed SKU is: the GPU model and plan it sells, and how many GPUs one unit is (a node-hour: 8)."""

    sku: str
    gpu_model: str = ""
    plan: str = ""
    gpus_per_unit: int = 1
    gpu: bool = True


@dataclass(frozen=True, slots=True)
class FxRate:
    """One unit of `currency` is `rate` units of the cost file's currency over an interval of dates."""

    currency: str
    rate: Decimal
    start_us: int | None
    end_us: int | None
    source: str


@dataclass(frozen=True, slots=True)
class MeterReading:
    """The power bill of one site over an interval: what the grid meter says, beside modelled and measured energy."""

    site: str
    start_us: int
    end_us: int
    kwh: Decimal
    committed_kw: Decimal | None
    peak_kw: Decimal | None
    amount: Decimal | None
    currency: str


@dataclass(frozen=True, slots=True)
class CostBook:
    """Everything a cost file says. `prices` are kinds compute, energy and pool, with `known_us` 0, UTC, on the
    quarter-hour grid. `has_energy`: it prices energy at all (then unknown energy makes data insufficient)."""

    currency: str
    timezone: ZoneInfo
    prices: tuple[Price, ...] = ()
    spreads: tuple[Spread, ...] = ()
    node_prices: tuple[NodePrice, ...] = ()
    fleet: tuple[FleetNode, ...] = ()
    power: Mapping[str, PowerModel] = field(default_factory=dict)
    tenants: tuple[TenantTerms, ...] = ()
    skus: tuple[SkuRule, ...] = ()
    fx: tuple[FxRate, ...] = ()
    meters: tuple[MeterReading, ...] = ()
    idle_policy: str = WEIGHTED
    normal_utilisation_ppm: int = 800_000
    target_margin_ppm: int = 200_000
    price_step: Decimal = Decimal("0.01")
    has_energy: bool = False
    assumptions: tuple[str, ...] = ()
    """What was assumed in reading it, in sentences for the report."""
