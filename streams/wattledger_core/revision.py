"""What the `allocations` topic carries: allocation revisions, node facts, marks; and where each came from."""

from dataclasses import dataclass

from wattledger_core.event import InventoryDevice
from wattledger_core.interval import FOREVER_US

UNKNOWN_TICK_US = 0
"""`known_us` of what came before the first tick of its partition."""


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """Place in `job-events` (or `price-book`) of the event that made a record; `seq` numbers the records of one."""

    partition: int
    offset: int
    seq: int = 0


@dataclass(frozen=True, slots=True)
class AllocationRevision:
    """The whole truth about one allocation (one attempt's unbroken hold of one device or slice) as known after the
    event at `origin`. `known_us` is the last tick above that event in its partition.

    `end_us` is *released*, or None while it runs. `stop_requested_us` is set when the tenant asked to stop: from
    there to `end_us` the provider holds the device. `void` says that the allocation never was (start == end).
    `announced` marks a daily repeat of what still runs, for readers that start late."""

    revision_id: str
    allocation_id: str
    origin: Origin
    known_us: int
    cluster: str
    job: str
    attempt: int
    segment: int
    node: str
    device: str
    gpu_instance: str
    share_num: int
    share_den: int
    tenant: str
    project: str
    user: str
    model_tag: str
    plan: str
    sku: str
    requested_profile: str
    delivered_profile: str
    exclusive: bool
    cpus: int | None
    memory_bytes: int | None
    storage_bytes: int | None
    start_us: int
    end_us: int | None
    stop_requested_us: int | None = None
    outcome: str = ""
    marks: tuple[str, ...] = ()
    void: bool = False
    announced: bool = False

    @property
    def until_us(self) -> int:
        """End of the hold, `FOREVER_US` while it runs."""
        return FOREVER_US if self.end_us is None else self.end_us

    @property
    def paid_until_us(self) -> int:
        """End of what the tenant holds: the stop request, or the release where none was recorded."""
        return self.until_us if self.stop_requested_us is None else min(self.stop_requested_us, self.until_us)


@dataclass(frozen=True, slots=True)
class NodeRevision:
    """One fact about a node over `[start_us, end_us)`, as known after the event at `origin`.

    kind `inventory`: devices, cpus, memory_bytes, site · `service`: in service · `state`: state, reason ·
    `reservation`: reservation_id, tenant, reserved_devices (empty: every device). A fact that turned out never to
    have been is `void`."""

    revision_id: str
    fact_id: str
    origin: Origin
    known_us: int
    node: str
    cluster: str
    kind: str
    start_us: int
    end_us: int | None
    site: str = ""
    devices: tuple[InventoryDevice, ...] = ()
    cpus: int | None = None
    memory_bytes: int | None = None
    state: str = ""
    reason: str = ""
    reservation_id: str = ""
    tenant: str = ""
    reserved_devices: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    void: bool = False
    announced: bool = False

    @property
    def until_us(self) -> int:
        """End of the fact, `FOREVER_US` while it holds."""
        return FOREVER_US if self.end_us is None else self.end_us


@dataclass(frozen=True, slots=True)
class Mark:
    """Sessions' answer to a tick: every revision of `origin.partition` from events above it is written."""

    origin: Origin
    at_us: int
    stale_sources: tuple[str, ...] = ()


Revision = AllocationRevision | NodeRevision
AllocationRecord = AllocationRevision | NodeRevision | Mark
