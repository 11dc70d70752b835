"""Usage lines and device totals: what the two meters write. Immutable; a change is a reversal and a correction."""

from typing import NamedTuple

IDLE = "__idle__"
RESERVED = "__reserved__"
UNAVAILABLE = "__unavailable__"
STRANDED = "__stranded__"
UNATTRIBUTED = "__unattributed__"
RESERVED_TENANTS = (IDLE, RESERVED, UNAVAILABLE, STRANDED, UNATTRIBUTED)
"""Names that stand where no customer does."""

ORIGINAL = "original"
REVERSAL = "reversal"
CORRECTION = "correction"


class Line(NamedTuple):
    """One holder's (or state's) part of one device over one batch or quarter-hour.

    A NamedTuple, not a dataclass: the hot path makes one for each device of a batch (see streams/README.md).

    kind `time`: `device_us` is device-time, Σ over a device and quarter-hour = in-service time. `state` is one of
    held, free, reserved_unused, stranded, unavailable. kind `energy`: `energy_uj` is measured energy (None:
    unknown, then `reason` says why), `span_us` the time it speaks for; `state` is held, idle or unattributed.
    `[start_us, end_us)` is the hull. In a reversal, `sign` is -1 and every quantity is negated.
    """

    line_id: str
    kind: str
    group_start_us: int
    group_end_us: int
    node: str
    device: str
    gpu_instance: str
    site: str
    gpu_model: str
    state: str
    reason: str
    tenant: str
    project: str
    user: str
    model_tag: str
    cluster: str
    job: str
    attempt: int
    allocation_id: str
    plan: str
    sku: str
    start_us: int
    end_us: int
    span_us: int
    device_us: int
    energy_uj: int | None
    idle_energy_uj: int
    busy_us: int
    method: str
    marks: str
    """Quality marks, sorted, joined by commas."""
    sign: int = 1
    entry: str = ORIGINAL
    of_line_id: str = ""
    cause_id: str = ""


class DeviceTotal(NamedTuple):
    """What the lines of one device and group must sum to, computed apart from them: the batch's C in µJ, or the
    in-service time of a quarter-hour. `partition` and `offset` say which sample record it is about (-1: none)."""

    total_id: str
    kind: str
    group_start_us: int
    group_end_us: int
    node: str
    device: str
    in_service_us: int
    energy_uj: int
    measured_us: int
    unknown_us: int
    partition: int
    offset: int
    sign: int = 1
    entry: str = ORIGINAL
    of_total_id: str = ""
    cause_id: str = ""


class Discrepancy(NamedTuple):
    """A contradiction in the data, resolved by a stated rule and recorded: overlap, shares over 1, a hold on a
    failed node, usage without a holder, a counter that reset or disagrees, a frozen sensor."""

    discrepancy_id: str
    kind: str
    node: str
    device: str
    start_us: int
    end_us: int
    tenant: str
    allocation_ids: str
    detail: str
