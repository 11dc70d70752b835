"""The shape of a statement: what one tenant used, as decimal text. Values only, and none of them is money."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunUsed:
    """One run inside the period. `gpu_hours` is its part in the period; None: the number of GPUs is not known.

    `energy_kwh` is what counters say; where they cover a part, `energy_ratio` says which. `charged`: it counts as the
    tenant's usage; else `note` says why not."""

    project: str
    cluster: str
    job: str
    sku: str
    plan: str
    gpu_model: str
    gpus: int | None
    share: str
    start: str
    end: str | None
    gpu_hours: str | None
    energy_kwh: str | None
    energy_ratio: str | None
    state: str
    charged: bool
    note: str


@dataclass(frozen=True, slots=True)
class SkuUsed:
    """One SKU on one plan and GPU model. `billable` is held and reserved time by the agreed increments and minimums;
    `billed` is the quantity of the invoice lines in GPU-hours (None: no billing was given, or no quantity said)."""

    sku: str
    plan: str
    gpu_model: str
    gpu_hours: str
    not_charged_gpu_hours: str
    reserved_unused_gpu_hours: str
    kept_exclusively_gpu_hours: str
    billable_gpu_hours: str
    billed_gpu_hours: str | None
    energy_kwh: str | None


@dataclass(frozen=True, slots=True)
class DayUsed:
    """One local day of one SKU and GPU model: time held, and energy where counters say it."""

    day: str
    sku: str
    gpu_model: str
    gpu_hours: str
    not_charged_gpu_hours: str
    energy_kwh: str | None


@dataclass(frozen=True, slots=True)
class ProjectUsed:
    """One project over all its runs."""

    project: str
    runs: int
    gpu_hours: str
    not_charged_gpu_hours: str
    energy_kwh: str | None


@dataclass(frozen=True, slots=True)
class LineBilled:
    """One invoice line of the tenant, its quantity as written and as GPU-hours inside the period."""

    invoice_id: str
    sku: str
    category: str
    start: str
    end: str
    quantity: str | None
    unit: str
    gpu_hours: str | None
    prorated: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """All of it. `depth` says how each kind of figure is known: scheduler, counter, invoice."""

    tenant: str
    period_start: str
    period_end: str
    timezone: str
    gpu_hours: str
    not_charged_gpu_hours: str
    energy_kwh: str | None
    depth: dict[str, str]
    projects: tuple[ProjectUsed, ...]
    skus: tuple[SkuUsed, ...]
    days: tuple[DayUsed, ...]
    runs: tuple[RunUsed, ...]
    billed: tuple[LineBilled, ...] | None
