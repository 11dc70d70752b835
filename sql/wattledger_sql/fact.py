"""The fact tables as values: columns in the order of the rows that the insert functions take. Owns no SQL."""

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple


class Source(NamedTuple):
    """Where a row was read from in Kafka. Kept beside the row, never part of its content."""

    partition: int
    offset: int


NO_SOURCE = Source(-1, -1)


class ThresholdRow(NamedTuple):
    """A rule over the views that was raised or cleared: the content of a `threshold-events` record."""

    event_id: str
    rule: str
    scope: str
    transition: str
    at_us: int
    tenant: str
    node: str
    severity: str
    value: Decimal | None
    threshold: Decimal | None
    unit: str
    detail: str


class DeadLetter(NamedTuple):
    """A record that could not be used, whole: the content of a `dead-letters` record."""

    topic: str
    partition: int
    offset: int
    reason_code: str
    detail: str
    processor: str
    key: bytes
    value: bytes


class Gap(NamedTuple):
    """Records that an agent had to drop, as the `gap` record in `dead-letters` says."""

    node: str
    agent: str
    topic: str
    from_seq: int
    to_seq: int
    records: int
    from_us: int | None
    to_us: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact table. `month_column` is the time (µs) whose month partitions it, None: not partitioned;
    `decimals` are the columns of money and rates; `content_id` is the column of the row's identity."""

    table: str
    columns: tuple[str, ...]
    content_id: str
    month_column: str | None
    decimals: tuple[str, ...] = ()


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


USAGE_LINES = Fact(
    "usage_lines",
    _names(
        "line_id kind group_start_at group_end_at node device gpu_instance site gpu_model state reason tenant_id"
        " project user_name model_tag cluster job attempt allocation_id plan sku start_at end_at span_us device_us"
        " energy_uj idle_energy_uj busy_us method marks sign entry of_line_id cause_id"
    ),
    "line_id",
    "start_at",
)
DEVICE_TOTALS = Fact(
    "device_totals",
    _names(
        "total_id kind group_start_at group_end_at node device in_service_us energy_uj measured_us unknown_us"
        " batch_partition batch_offset sign entry of_total_id cause_id"
    ),
    "total_id",
    "group_start_at",
)
DISCREPANCIES = Fact(
    "discrepancies",
    _names("discrepancy_id kind node device start_at end_at tenant_id allocation_ids detail"),
    "discrepancy_id",
    "start_at",
)
COST_ROWS = Fact(
    "cost_rows",
    _names(
        "row_id line_id component group_start_at group_end_at node device gpu_instance site gpu_model state tenant_id"
        " project model_tag cluster job attempt allocation_id plan sku start_at end_at quantity unit price_id"
        " price_revision_id rate pue marginal cost currency status reason sign entry of_row_id cause_id"
    ),
    "row_id",
    "start_at",
    ("rate", "pue", "cost"),
)
ALLOCATION_REVISIONS = Fact(
    "allocation_revisions",
    _names(
        "revision_id allocation_id origin_partition origin_offset origin_seq known_at cluster job attempt segment node"
        " device gpu_instance share_num share_den tenant_id project user_name model_tag plan sku requested_profile"
        " delivered_profile exclusive cpus memory_bytes storage_bytes start_at end_at stop_requested_at outcome marks"
        " void announced"
    ),
    "revision_id",
    "start_at",
)
NODE_REVISIONS = Fact(
    "node_revisions",
    _names(
        "revision_id fact_id origin_partition origin_offset origin_seq known_at node cluster kind start_at end_at site"
        " devices cpus memory_bytes state reason reservation_id tenant_id reserved_devices marks void announced"
    ),
    "revision_id",
    "start_at",
)
PRICES = Fact(
    "prices",
    _names(
        "price_id revision_id origin_partition origin_offset origin_seq known_at kind start_at end_at rate currency"
        " site gpu_model tenant_id plan sku pue pool_name driver marginal author reason"
    ),
    "revision_id",
    "start_at",
    ("rate", "pue"),
)
MARKS = Fact(
    "marks",
    _names("allocations_partition origin_partition origin_offset marked_at stale_sources"),
    "allocations_partition",
    None,
)
THRESHOLD_EVENTS = Fact(
    "threshold_events",
    _names("event_id rule scope transition observed_at tenant_id node severity value threshold unit detail"),
    "event_id",
    "observed_at",
    ("value", "threshold"),
)
DEAD_LETTERS = Fact(
    "dead_letters",
    _names("topic topic_partition topic_offset reason_code detail processor record_key record_value"),
    "topic_offset",
    None,
)
GAPS = Fact(
    "gaps",
    _names("node agent topic from_seq to_seq record_count from_at to_at reason"),
    "from_seq",
    None,
)
FACTS = (
    USAGE_LINES,
    DEVICE_TOTALS,
    DISCREPANCIES,
    COST_ROWS,
    ALLOCATION_REVISIONS,
    NODE_REVISIONS,
    MARKS,
    PRICES,
    THRESHOLD_EVENTS,
    DEAD_LETTERS,
    GAPS,
)
