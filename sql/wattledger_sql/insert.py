"""Inserts of the core's values, one function a fact table. Same rows again: the same content, so nothing changes.

Every function returns the number of rows given, after the server has stored them; `sources` says where each row was
read from, and is as long as the rows.
"""

from collections.abc import Sequence

from clickhouse_connect.driver.client import Client
from wattledger_core.cost import CostRow
from wattledger_core.interval import FOREVER_US
from wattledger_core.line import DeviceTotal, Discrepancy, Line
from wattledger_core.price import Price
from wattledger_core.revision import AllocationRevision, Mark, NodeRevision
from wattledger_core.units import round_money

from wattledger_sql import fact
from wattledger_sql.block import insert_rows
from wattledger_sql.fact import DeadLetter, Gap, Source, ThresholdRow

Sources = Sequence[Source] | None


def insert_usage_lines(client: Client, lines: Sequence[Line], sources: Sources = None) -> int:
    """Lines into `usage_lines`."""
    return insert_rows(client, fact.USAGE_LINES, lines, sources)


def insert_device_totals(client: Client, totals: Sequence[DeviceTotal], sources: Sources = None) -> int:
    """Totals into `device_totals`."""
    return insert_rows(client, fact.DEVICE_TOTALS, totals, sources)


def insert_discrepancies(client: Client, found: Sequence[Discrepancy], sources: Sources = None) -> int:
    """Discrepancies into `discrepancies`; an end of `FOREVER_US` is stored as NULL."""
    rows = [(*d[:5], None if d.end_us >= FOREVER_US else d.end_us, *d[6:]) for d in found]
    return insert_rows(client, fact.DISCREPANCIES, rows, sources)


def insert_cost_rows(client: Client, rows: Sequence[CostRow], sources: Sources = None) -> int:
    """Cost rows into `cost_rows`. Raises `RowRefused` when rate, pue or cost has more than 12 decimals."""
    return insert_rows(client, fact.COST_ROWS, rows, sources)


def insert_allocation_revisions(
    client: Client, revisions: Sequence[AllocationRevision], sources: Sources = None
) -> int:
    """Allocation revisions into `allocation_revisions`; source: the record in `allocations`."""
    rows = [
        (
            r.revision_id, r.allocation_id, r.origin.partition, r.origin.offset, r.origin.seq, r.known_us, r.cluster,
            r.job, r.attempt, r.segment, r.node, r.device, r.gpu_instance, r.share_num, r.share_den, r.tenant,
            r.project, r.user, r.model_tag, r.plan, r.sku, r.requested_profile, r.delivered_profile, r.exclusive,
            r.cpus, r.memory_bytes, r.storage_bytes, r.start_us, r.end_us, r.stop_requested_us, r.outcome,
            list(r.marks), r.void, r.announced,
        )
        for r in revisions
    ]  # fmt: skip
    return insert_rows(client, fact.ALLOCATION_REVISIONS, rows, sources)


def insert_node_revisions(client: Client, revisions: Sequence[NodeRevision], sources: Sources = None) -> int:
    """Node facts into `node_revisions`; source: the record in `allocations`."""
    rows = [
        (
            r.revision_id, r.fact_id, r.origin.partition, r.origin.offset, r.origin.seq, r.known_us, r.node, r.cluster,
            r.kind, r.start_us, r.end_us, r.site,
            [(d.device, d.index, d.gpu_model, d.slices, d.sharing, d.idle_floor_mw) for d in r.devices],
            r.cpus, r.memory_bytes, r.state, r.reason, r.reservation_id, r.tenant, list(r.reserved_devices),
            list(r.marks), r.void, r.announced,
        )
        for r in revisions
    ]  # fmt: skip
    return insert_rows(client, fact.NODE_REVISIONS, rows, sources)


def insert_marks(client: Client, marks: Sequence[Mark], sources: Sequence[Source]) -> int:
    """Marks into `marks`; `sources` says in which partition of `allocations` each was read, so it is required.

    Insert a record's revisions before a later mark: a mark says that what came above it is there.
    """
    rows = [
        (source.partition, mark.origin.partition, mark.origin.offset, mark.at_us, list(mark.stale_sources))
        for mark, source in zip(marks, sources, strict=True)
    ]
    return insert_rows(client, fact.MARKS, rows, sources)


def insert_prices(client: Client, prices: Sequence[Price], sources: Sources = None) -> int:
    """Price revisions into `prices`. Raises `RowRefused` when a rate or PUE has more than 12 decimals."""
    rows = [
        (
            p.price_id, p.revision_id, p.origin.partition, p.origin.offset, p.origin.seq, p.known_us, p.kind,
            p.start_us, p.end_us, p.rate, p.currency, p.site, p.gpu_model, p.tenant, p.plan, p.sku, p.pue,
            p.pool_name, p.driver, p.marginal, p.author, p.reason,
        )
        for p in prices
    ]  # fmt: skip
    return insert_rows(client, fact.PRICES, rows, sources)


def insert_threshold_events(client: Client, events: Sequence[ThresholdRow], sources: Sources = None) -> int:
    """Threshold events into `threshold_events`; value and threshold are rounded to 12 decimals."""
    rows = [
        (
            *event[:8],
            None if event.value is None else round_money(event.value),
            None if event.threshold is None else round_money(event.threshold),
            *event[10:],
        )
        for event in events
    ]
    return insert_rows(client, fact.THRESHOLD_EVENTS, rows, sources)


def insert_dead_letters(client: Client, letters: Sequence[DeadLetter], sources: Sources = None) -> int:
    """Dead letters into `dead_letters`; source: the record in `dead-letters` itself."""
    return insert_rows(client, fact.DEAD_LETTERS, letters, sources)


def insert_gaps(client: Client, gaps: Sequence[Gap], sources: Sources = None) -> int:
    """What agents dropped into `gaps`; source: the record in `dead-letters`."""
    return insert_rows(client, fact.GAPS, gaps, sources)
