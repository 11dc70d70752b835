"""Wire records to core values and back: the only place where the two meet. Checks what could hurt; no rules.

`from_wire_x` raises BadRecord with a reason code, the field and the value.
"""

import itertools
from collections.abc import Sequence
from dataclasses import fields
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from operator import itemgetter
from typing import Any

from wattledger_core.cost import CostRow
from wattledger_core.event import (
    JOB_EVENT_KINDS,
    NODE_EVENT_KINDS,
    Claim,
    InventoryDevice,
    JobEvent,
    NodeEvent,
    Tick,
)
from wattledger_core.ids import digest
from wattledger_core.line import DeviceTotal, Discrepancy, Line
from wattledger_core.meter import Group
from wattledger_core.price import PRICE_KINDS, Price
from wattledger_core.revision import AllocationRecord, AllocationRevision, Mark, NodeRevision, Origin
from wattledger_schemas import BadRecord

from wattledger_streams.mapping_batch import from_wire_batch, to_wire_batch

__all__ = [
    "from_wire_allocation_record", "from_wire_batch", "from_wire_job_event", "from_wire_node_event",
    "from_wire_price", "from_wire_price_record", "from_wire_tenant_cost", "from_wire_tick", "from_wire_usage_lines",
    "to_wire_allocation_revision", "to_wire_batch", "to_wire_job_event", "to_wire_mark", "to_wire_node_event",
    "to_wire_node_revision", "to_wire_price", "to_wire_tenant_cost", "to_wire_tick", "to_wire_usage_lines",
]  # fmt: skip

Wire = dict[str, Any]
_MIN_US, _MAX_US = 0, 1 << 53
_MIN_ATTEMPT, _MAX_ATTEMPT = -(1 << 31), (1 << 31) - 1
_DECIMAL_DIGITS = 25
"""Digits before the point of any amount: past them a table's Decimal(38, 12) and the core's rounding overflow."""
_line_values = itemgetter(*Line._fields)
_total_values = itemgetter(*DeviceTotal._fields)
_discrepancy_values = itemgetter(*Discrepancy._fields)
_row_values = itemgetter(*CostRow._fields)
_inventory_values = itemgetter(*(field.name for field in fields(InventoryDevice)))
_NODE_EVENT_FIELDS = tuple(field.name for field in fields(NodeEvent))
"""The record says more of a device and its agent than accounting needs: for people and tables."""


def _plain(value: Any, *skip: str) -> Wire:
    """A flat dataclass as a record, fields of the same names."""
    return {field.name: getattr(value, field.name) for field in fields(value) if field.name not in skip}


def _check_time(record: Wire, *names: str) -> None:
    for name in names:
        at_us = record[name]
        if at_us is not None and not _MIN_US <= at_us < _MAX_US:
            raise BadRecord("time_out_of_range", f"{name} is {at_us}: not µs since the epoch")


def _check_interval(record: Wire) -> None:
    _check_time(record, "start_us", "end_us")
    start_us, end_us = record["start_us"], record["end_us"]
    if start_us is not None and end_us is not None and end_us < start_us:
        raise BadRecord("negative_interval", f"end_us {end_us} is before start_us {start_us}")


def _check_share(record: Wire) -> None:
    num, den = record["share_num"], record["share_den"]
    if den <= 0 or not 0 < num <= den:
        raise BadRecord("bad_share", f"share {num}/{den} of device {record['device']!r}: must be in (0, 1]")


@lru_cache(maxsize=4096)
def _decimal(name: str, text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise BadRecord("bad_decimal", f"{name} is {text!r}, which is no decimal number") from None
    if not value.is_finite():
        raise BadRecord("bad_decimal", f"{name} is {text!r}: must be finite")
    if value.adjusted() >= _DECIMAL_DIGITS:
        raise BadRecord("bad_decimal", f"{name} is {text!r}: more than {_DECIMAL_DIGITS} digits before the point")
    return value


def from_wire_job_event(record: Wire) -> JobEvent:
    if record["kind"] not in JOB_EVENT_KINDS:
        raise BadRecord("unknown_kind", f"job event kind {record['kind']!r}; known: {', '.join(JOB_EVENT_KINDS)}")
    _check_time(record, "at_us")
    if not record["job"] or not record["event_id"] or record["attempt"] < 0:
        raise BadRecord(
            "missing_identity", f"job {record['job']!r}, event {record['event_id']!r}, attempt {record['attempt']}"
        )
    for claim in record["claims"]:
        _check_share(claim)
        if not claim["node"] or not claim["device"]:
            raise BadRecord("missing_identity", f"a claim of job {record['job']!r} names no node or device")
    return JobEvent(**{**record, "claims": tuple(Claim(**claim) for claim in record["claims"])})


def to_wire_job_event(event: JobEvent) -> Wire:
    return {**_plain(event, "claims"), "claims": [_plain(claim) for claim in event.claims]}


def _inventory(devices: Sequence[Wire]) -> tuple[InventoryDevice, ...]:
    for device in devices:
        if not device["device"] or device["slices"] <= 0:
            raise BadRecord("bad_inventory", f"device {device['device']!r} with {device['slices']} slices")
    return tuple(InventoryDevice(*_inventory_values(device)) for device in devices)


def from_wire_node_event(record: Wire) -> NodeEvent:
    if record["kind"] not in NODE_EVENT_KINDS:
        raise BadRecord("unknown_kind", f"node event kind {record['kind']!r}; known: {', '.join(NODE_EVENT_KINDS)}")
    _check_time(record, "at_us")
    _check_interval(record)
    if not record["node"] or not record["event_id"]:
        raise BadRecord("missing_identity", f"node {record['node']!r}, event {record['event_id']!r}")
    changes = {"devices": _inventory(record["devices"]), "reserved_devices": tuple(record["reserved_devices"])}
    return NodeEvent(**{name: record[name] for name in _NODE_EVENT_FIELDS} | changes)


def to_wire_node_event(event: NodeEvent) -> Wire:
    changes = {
        "devices": [_plain(device) for device in event.devices],
        "reserved_devices": list(event.reserved_devices),
    }
    return {**_plain(event), **changes}


def from_wire_tick(record: Wire) -> Tick:
    _check_time(record, "at_us")
    return Tick(record["at_us"], tuple(record["stale_sources"]))


def to_wire_tick(tick: Tick) -> Wire:
    return {"at_us": tick.at_us, "stale_sources": list(tick.stale_sources)}


def _origin(record: Wire) -> Origin:
    return Origin(record["origin_partition"], record["origin_offset"], record["origin_seq"])


def _wire_origin(origin: Origin) -> Wire:
    return {"origin_partition": origin.partition, "origin_offset": origin.offset, "origin_seq": origin.seq}


def _without_origin(record: Wire) -> Wire:
    return {name: value for name, value in record.items() if not name.startswith("origin_")}


def from_wire_allocation_record(subject: str, record: Wire) -> AllocationRecord:
    """A record of the `allocations` topic."""
    if subject == "mark":
        _check_time(record, "at_us")
        return Mark(_origin(record), record["at_us"], tuple(record["stale_sources"]))
    if subject not in ("allocation_revision", "node_revision"):
        raise BadRecord("wrong_subject", f"{subject} does not belong in allocations")
    _check_interval(record)
    plain = {**_without_origin(record), "origin": _origin(record), "marks": tuple(record["marks"])}
    if subject == "allocation_revision":
        _check_share(record)
        return AllocationRevision(**plain)
    changes = {"devices": _inventory(record["devices"]), "reserved_devices": tuple(record["reserved_devices"])}
    return NodeRevision(**{**plain, **changes})


def to_wire_allocation_revision(revision: AllocationRevision) -> Wire:
    return {**_plain(revision, "origin"), **_wire_origin(revision.origin), "marks": list(revision.marks)}


def to_wire_node_revision(revision: NodeRevision) -> Wire:
    return {
        **_plain(revision, "origin"),
        **_wire_origin(revision.origin),
        "marks": list(revision.marks),
        "devices": [_plain(device) for device in revision.devices],
        "reserved_devices": list(revision.reserved_devices),
    }


def to_wire_mark(mark: Mark) -> Wire:
    return {**_wire_origin(mark.origin), "at_us": mark.at_us, "stale_sources": list(mark.stale_sources)}


def from_wire_price(record: Wire, partition: int, offset: int) -> Price:
    """`known_us` is 0: the price log stamps it with the last tick above."""
    if record["kind"] not in PRICE_KINDS:
        raise BadRecord("unknown_kind", f"price kind {record['kind']!r}; known: {', '.join(PRICE_KINDS)}")
    _check_interval(record)
    changes = {"rate": _decimal("rate", record["rate"]), "pue": _decimal("pue", record["pue"])}
    name = digest("price", record["price_id"], offset)
    return Price(**{**record, **changes}, revision_id=name, origin=Origin(partition, offset), known_us=0)


def from_wire_price_record(subject: str, record: Wire, partition: int, offset: int) -> Price | Tick:
    """A record of the `price-book` topic."""
    if subject == "tick":
        return from_wire_tick(record)
    if subject == "price":
        return from_wire_price(record, partition, offset)
    raise BadRecord("wrong_subject", f"{subject} does not belong in price-book")


def to_wire_price(price: Price) -> Wire:
    return {
        **_plain(price, "origin", "known_us", "revision_id"),
        "rate": format(price.rate, "f"),
        "pue": format(price.pue, "f"),
    }


def to_wire_usage_lines(group: Group) -> Wire:
    return {
        "kind": group.kind,
        "node": group.node,
        "start_us": group.start_us,
        "end_us": group.end_us,
        "partition": group.partition,
        "offset": group.offset,
        "cause_id": group.cause_id,
        "lines": [line._asdict() for line in group.lines],
        "totals": [total._asdict() for total in group.totals],
        "discrepancies": [found._asdict() for found in group.discrepancies],
    }


def _check_row(record: Wire) -> None:
    """What Avro lets through and no table can hold."""
    if not -128 <= record["sign"] <= 127:
        raise BadRecord("bad_sign", f"sign is {record['sign']}: must fit 8 bits")
    attempt = record.get("attempt", 0)
    if not _MIN_ATTEMPT <= attempt <= _MAX_ATTEMPT:
        raise BadRecord("bad_attempt", f"attempt is {attempt}: must fit 32 bits")


def from_wire_usage_lines(record: Wire) -> Group:
    """Raises BadRecord for a line or total that no table can hold."""
    for row in itertools.chain(record["lines"], record["totals"]):
        _check_row(row)
    return Group(
        record["kind"], record["node"], record["start_us"], record["end_us"], record["partition"], record["offset"],
        record["cause_id"],
        [Line._make(_line_values(line)) for line in record["lines"]],
        [DeviceTotal._make(_total_values(total)) for total in record["totals"]],
        [Discrepancy._make(_discrepancy_values(found)) for found in record["discrepancies"]],
    )  # fmt: skip


def to_wire_tenant_cost(tenant: str, start_us: int, end_us: int, rows: Sequence[CostRow]) -> Wire:
    return {
        "tenant": tenant,
        "group_start_us": start_us,
        "group_end_us": end_us,
        "rows": [_wire_row(row) for row in rows],
    }


def _wire_row(row: CostRow) -> Wire:
    record = row._asdict()
    for name in ("rate", "pue", "cost"):
        value = record[name]
        if value is not None:
            record[name] = format(value, "f")
    return record


def from_wire_tenant_cost(record: Wire) -> list[CostRow]:
    return [_row(row) for row in record["rows"]]


def _row(record: Wire) -> CostRow:
    _check_row(record)
    for name in ("rate", "pue", "cost"):
        text = record[name]
        if text is not None:
            record[name] = _decimal(name, text)
    return CostRow._make(_row_values(record))
