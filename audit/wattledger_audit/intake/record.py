"""What importers yield, whatever the file: usage runs, billing lines, fleet facts, traces. Values only.

Times are µs since the epoch UTC, intervals half-open. Names are text as the source wrote them: aliases, SKUs and
plans are given a meaning in `wattledger_audit.assessment`. None is unknown, never zero.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from wattledger_core.batch import BoolArray, Int64Array

USAGE, BILLING, FLEET, EVENTS, COSTS, TELEMETRY = "usage", "billing", "fleet", "events", "costs", "telemetry"
ROLES = (USAGE, BILLING, FLEET, EVENTS, COSTS, TELEMETRY)

CATEGORIES = (
    "usage", "commitment", "shortfall", "credit_promo", "credit_sla", "refund", "tax", "adjustment", "non_gpu",
)  # fmt: skip
"""Revenue categories (ACCOUNTING.md, "Revenue")."""


class UsageRun(NamedTuple):
    """One run of a job as a usage log says it: one attempt's hold, over all its nodes or of one device.

    `run_key` tells this run from every other of the same `(cluster, job)`; the same key again is a redelivery of the
    same run. `gpus` counts devices over all `nodes` (None: unknown). `share_num/share_den` is the part of each device
    (1/1 whole). `device` is one device's name (UUID or index) or empty. `start_us` None: it never started;
    `end_us` None: it still runs. `suspended_us` lies inside start..end and is not held. `cpus` and `memory_bytes` are
    the job's total over its nodes. `limit_us` is the time limit. `marks` are quality marks such as
    `elapsed_disagrees`. `waits_for` is why a pending job could not start (dependency, hold, limit), empty if nothing.
    """

    line: int
    cluster: str
    job: str
    run_key: str
    attempt: int
    tenant: str
    project: str
    user: str
    model_tag: str
    plan: str
    partition: str
    sku: str
    nodes: tuple[str, ...]
    device: str
    gpu_model: str
    gpus: int | None
    share_num: int
    share_den: int
    submit_us: int | None
    eligible_us: int | None
    start_us: int | None
    end_us: int | None
    suspended_us: int
    state: str
    tokens: int | None
    exclusive: bool
    cpus: int | None
    memory_bytes: int | None
    limit_us: int | None
    waits_for: str
    marks: tuple[str, ...]


class BillingLine(NamedTuple):
    """One line of what was billed, net of tax. `amount` is negative for credits and refunds.

    `[start_us, end_us)` is the service period (not the invoice date). `quantity` and `unit` as written (None:
    not said). `category` is one of CATEGORIES. `delivery` names what a later delivery replaces as a whole (an
    invoice id, or account and month); `delivery_rank` is higher for a final one than for a draft of the same.
    `gpu` says whether it is for GPUs at all: None where only the SKU's words can tell.
    """

    line: int
    invoice_id: str
    tenant: str
    sku: str
    description: str
    plan: str
    start_us: int
    end_us: int
    quantity: Decimal | None
    unit: str
    amount: Decimal
    currency: str
    category: str
    delivery: str
    delivery_rank: int
    gpu: bool | None


class FleetNode(NamedTuple):
    """One machine over the time it is in service. `slices` is what MIG divides a device by (7 for A100, H100).

    `status` is `active`, `spare` or `repair`. `devices` are device names in index order, empty when not said.
    `start_us` or `end_us` None: before or after all that is looked at."""

    line: int
    node: str
    cluster: str
    site: str
    gpu_model: str
    gpus: int
    slices: int
    start_us: int | None
    end_us: int | None
    status: str
    cpus: int | None
    memory_bytes: int | None
    partitions: tuple[str, ...]
    devices: tuple[str, ...]


class NodeState(NamedTuple):
    """A node was in `state` (one of the core's NODE_STATES) over an interval; `end_us` None: it still is."""

    line: int
    cluster: str
    node: str
    state: str
    reason: str
    start_us: int
    end_us: int | None


class Reservation(NamedTuple):
    """A tenant held the right to `nodes` (or `gpus` of them, None: all their devices), used or not. `devices` are named
    where the right is to certain ones of its only node."""

    line: int
    cluster: str
    reservation_id: str
    tenant: str
    nodes: tuple[str, ...]
    gpus: int | None
    start_us: int
    end_us: int | None
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceTrace:
    """The readings of one physical device, strictly rising ticks. Energy counter in µJ (its zero is arbitrary).

    `index` is the NVML index (-1: not said); `slices` 7 where MIG is on, else 1."""

    node: str
    device: str
    index: int
    gpu_model: str
    driver: str
    ticks_us: Int64Array
    power_mw: Int64Array
    power_valid: BoolArray
    counter_uj: Int64Array
    counter_valid: BoolArray
    busy_ppm: Int64Array
    busy_valid: BoolArray


Record = UsageRun | BillingLine | FleetNode | NodeState | Reservation | DeviceTrace
