"""What watchers and importers report: job events, node events, ticks. Values only; sessions give them meaning."""

from dataclasses import dataclass, field

JOB_EVENT_KINDS = ("start", "end", "requeue", "suspend", "resume", "resize", "stop_requested", "released")
NODE_EVENT_KINDS = (
    "inventory", "in_service", "out_of_service", "node_state", "reservation", "reservation_cancelled",
)  # fmt: skip
NODE_STATES = ("active", "draining", "maintenance", "failed", "spare", "burn_in")
SHARINGS = ("exclusive", "mig", "time_sliced", "mps")
PLANS = ("reserved", "on_demand", "spot", "internal", "trial")


@dataclass(frozen=True, slots=True)
class Claim:
    """One device, or one slice of it, that a job holds. `share_num/share_den` is its part of the whole device:
    1/1 exclusive, slices/7 for MIG, 1/replicas for time-slicing. cpus, memory and storage are this claim's part of
    what the job took on the node; None is unknown."""

    node: str
    device: str
    gpu_instance: str = ""
    share_num: int = 1
    share_den: int = 1
    delivered_profile: str = "full"
    cpus: int | None = None
    memory_bytes: int | None = None
    storage_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One thing that happened to a job at `at_us`. `claims` is the full set held from then on for `start` and
    `resize`, and empty otherwise. `attempt` counts requeues from 0. `event_id` is the source's own identity of the
    event: the same id again is a duplicate.

    `node` names the one node of which the event speaks, as an agent sees it: its claims are all that the job holds
    there, and its end is the end there. Empty: the event speaks of the whole job, wherever it runs."""

    event_id: str
    kind: str
    at_us: int
    cluster: str
    job: str
    attempt: int
    claims: tuple[Claim, ...] = ()
    tenant: str = ""
    project: str = ""
    user: str = ""
    model_tag: str = ""
    plan: str = "on_demand"
    sku: str = ""
    requested_profile: str = "full"
    exclusive: bool = False
    outcome: str = ""
    source: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class InventoryDevice:
    """One installed device. `slices` is what MIG divides it by (7 for A100 and H100); `idle_floor_mw` is its power
    with no compute process, None while nobody has measured it."""

    device: str
    index: int
    gpu_model: str
    slices: int = 7
    sharing: str = "exclusive"
    idle_floor_mw: int | None = None


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """One thing that happened to a node at `at_us`. `inventory` carries devices, cpus, memory and site;
    `node_state` a state and reason; `reservation` an id, holder, devices (empty: the whole node) and interval."""

    event_id: str
    kind: str
    at_us: int
    node: str
    cluster: str = ""
    site: str = ""
    devices: tuple[InventoryDevice, ...] = ()
    cpus: int | None = None
    memory_bytes: int | None = None
    state: str = ""
    reason: str = ""
    reservation_id: str = ""
    tenant: str = ""
    reserved_devices: tuple[str, ...] = ()
    start_us: int | None = None
    end_us: int | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time as a record: every source that is not listed as stale has reported all up to `at_us`."""

    at_us: int
    stale_sources: tuple[str, ...] = field(default=())


JobTopicEvent = JobEvent | NodeEvent | Tick
