"""The shape of a cost file: what may stand in the YAML, field by field. What it means is in cost_*.py."""

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from wattledger_core.price import POOL_DRIVERS
from wattledger_core.verdict_idle import WEIGHTED
from wattledger_streams.tariff_file_model import Currency, Name, Part, PeriodEntry, PlanName

from wattledger_audit.assessment.cost_file_word import (
    aliases_of,
    bearers_of,
    contract_of,
    duration_us,
    idle_of,
    listed,
    memory_bytes,
    milliwatts,
    ratio,
    ratio_ppm,
)

MOST = Decimal(10) ** 15
"""More than any amount: a number beyond it is a slip, and would only be slow to calculate with."""
DEFAULT_WEIGHTS = {"gpu": Decimal(9), "cpu": Decimal("0.9"), "memory_gb": Decimal("0.1")}
"""What clouds split an accelerated node by: GPU to CPU and memory 9 to 1, CPU to memory 9 to 1."""
DEFAULT_IDLE = (WEIGHTED, 800_000)

Money = Annotated[Decimal, Field(ge=0, le=MOST, decimal_places=12)]
Rate = Annotated[Decimal, Field(gt=0, le=MOST, decimal_places=12)]
Ratio = Annotated[Decimal, BeforeValidator(ratio), Field(ge=0, lt=1, decimal_places=12)]
Texts = Annotated[tuple[Name, ...], BeforeValidator(listed)]
Duration = Annotated[int, BeforeValidator(duration_us), Field(ge=0)]
Power = Annotated[int, BeforeValidator(milliwatts), Field(ge=0)]


class Dated(Part):
    """`from` and `to` are dates or date-times, half-open; left out: before, or after, all that is looked at."""

    start: str | None = Field(default=None, alias="from")
    end: str | None = Field(default=None, alias="to")


class FleetEntry(Dated):
    """Machines alike, by name or host list."""

    node: Texts
    cluster: str = ""
    site: str = ""
    gpu_model: str = ""
    gpus: int = Field(ge=0, le=1024)
    slices: int = Field(default=7, ge=1, le=64)
    status: Literal["active", "spare", "repair"] = "active"
    cpus: int | None = Field(default=None, ge=0)
    mem: Annotated[int | None, BeforeValidator(memory_bytes)] = None
    partitions: Texts = ()


class PurchaseEntry(Part):
    """Bought machines. `price` and `residual` are for `gpus` GPUs; `hosting` and `staff` a month and GPU."""

    price: Money
    gpus: int = Field(default=1, ge=1)
    months: int = Field(ge=1, le=1200)
    residual: Money | None = None
    interest_rate: Ratio | None = None
    in_service: str | None = None
    hosting: Money = Decimal(0)
    staff: Money = Decimal(0)

    @model_validator(mode="after")
    def _residual_fits(self) -> Self:
        if self.residual is not None and self.residual > self.price:
            raise ValueError(f"residual {self.residual} is more than the price {self.price}: both are for all its GPUs")
        return self


class WeightsEntry(Part):
    """What one GPU, one CPU and one GB (2^30 bytes) of a node weigh beside each other."""

    gpu: Money = Decimal(0)
    cpu: Money = Decimal(0)
    memory_gb: Money = Decimal(0)

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        if not (self.gpu or self.cpu or self.memory_gb):
            raise ValueError("all weights are 0: give at least one of gpu, cpu, memory_gb")
        return self


class ComputeEntry(Dated):
    """Cost of a device in service: a rate per device-hour, what was paid for it, or a rate per node-hour to split."""

    site: str = ""
    gpu_model: str = ""
    per_gpu_hour: Money | None = None
    purchase: PurchaseEntry | None = None
    per_node_hour: Money | None = None
    weights: WeightsEntry | None = None

    @model_validator(mode="after")
    def _one_of_all(self) -> Self:
        given = [value for value in (self.per_gpu_hour, self.purchase, self.per_node_hour) if value is not None]
        if len(given) != 1:
            raise ValueError("it needs either per_gpu_hour, purchase or per_node_hour: give one of them")
        if self.weights is not None and self.per_node_hour is None:
            raise ValueError("weights split a per_node_hour: give that, or leave them out")
        return self


class EnergyEntry(Dated):
    """A site's energy tariff. `pue_included`: its meter counts the overhead already, so the price's PUE is 1."""

    site: str = ""
    timezone: Name | None = None
    pue: Annotated[Decimal, Field(ge=1, le=100)] | None = None
    pue_included: bool = False
    default_per_kwh: Decimal | None = None
    periods: tuple[PeriodEntry, ...] = ()


class ScopeEntry(Part):
    """What a pool is for; left out: everything."""

    site: str = ""
    gpu_model: str = ""


class PoolEntry(Part):
    """A cost of its own: an amount for a service interval, or a rate per unit of its driver."""

    name: Name
    amount: Money | None = None
    per_unit: Money | None = None
    currency: Currency | None = None
    service_from: str | None = None
    service_to: str | None = None
    driver: Literal["installed_gpu_h", "held_gpu_h", "node_h", "kwh", "committed_kw", "gb_month"]
    scope: ScopeEntry = ScopeEntry()
    marginal: bool = False

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.amount is None) == (self.per_unit is None):
            raise ValueError("it needs either amount or per_unit: give one of them")
        if self.per_unit is not None and self.driver not in POOL_DRIVERS:
            raise ValueError(
                f"per_unit goes with the drivers {', '.join(POOL_DRIVERS)}: for {self.driver}, give an amount"
            )
        if (self.service_from is None) != (self.service_to is None) and self.amount is not None:
            raise ValueError("an amount is for a service interval: give both service_from and service_to")
        return self


class FxEntry(Dated):
    """One unit of `currency` is `rate` units of the file's currency."""

    currency: Currency
    rate: Rate
    source: str = ""
    date: str = ""


class PowerEntry(Part):
    """Power of one device where there is no telemetry, in watts: while held, and while not."""

    gpu_model: str = ""
    busy_mw: Power = Field(alias="busy_w")
    idle_mw: Power = Field(alias="idle_w")

    @model_validator(mode="after")
    def _idle_is_less(self) -> Self:
        if self.idle_mw > self.busy_mw:
            raise ValueError("idle_w is more than busy_w: swap them")
        return self


class ContractEntry(Dated):
    """What a tenant has agreed to pay; what is left out matches all."""

    sku: str = ""
    gpu_model: str = ""
    plan: PlanName = ""
    per_gpu_hour: Money


class TenantEntry(Part):
    """One tenant: its names elsewhere, and its terms."""

    name: Name
    aliases: Annotated[dict[str, tuple[Name, ...]], BeforeValidator(aliases_of)] = Field(default={})
    plan: PlanName = ""
    contract: Annotated[tuple[ContractEntry, ...], BeforeValidator(contract_of)] = ()
    billing_timezone: Name | None = None
    increment_us: Duration = Field(default=0, alias="increment")
    minimum_us: Duration = Field(default=0, alias="minimum")
    billed_by: Literal["overlap", "end"] = "overlap"
    bearer: Annotated[dict[str, str], BeforeValidator(bearers_of)] = Field(default={})


class SkuEntry(Part):
    """What a billed SKU is."""

    sku: Name
    gpu_model: str = ""
    plan: PlanName = ""
    gpus_per_unit: int = Field(default=1, ge=1)
    gpu: bool = True


class MeterEntry(Part):
    """The power bill of a site."""

    site: str = ""
    start: str = Field(alias="from")
    end: str = Field(alias="to")
    kwh: Money
    committed_kw: Money | None = None
    peak_kw: Money | None = None
    amount: Money | None = None
    currency: Currency | None = None


class CostForm(Part):
    """A whole cost file."""

    currency: Currency
    timezone: Name | None = None
    fleet: tuple[FleetEntry, ...] = ()
    fleet_file: Name | None = None
    compute: tuple[ComputeEntry, ...] = ()
    energy: tuple[EnergyEntry, ...] = ()
    pools: tuple[PoolEntry, ...] = ()
    idle: Annotated[tuple[str, int], BeforeValidator(idle_of)] = DEFAULT_IDLE
    target_margin_ppm: Annotated[int, BeforeValidator(ratio_ppm)] = Field(default=200_000, alias="target_margin")
    price_step: Rate = Decimal("0.01")
    fx: tuple[FxEntry, ...] = ()
    power: tuple[PowerEntry, ...] = ()
    tenants: tuple[TenantEntry, ...] = ()
    skus: tuple[SkuEntry, ...] = ()
    meter: tuple[MeterEntry, ...] = ()

    @model_validator(mode="after")
    def _one_fleet(self) -> Self:
        if self.fleet and self.fleet_file:
            raise ValueError("fleet and fleet_file are both given: keep one of them")
        return self
