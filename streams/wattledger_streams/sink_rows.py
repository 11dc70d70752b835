"""Output records sorted into the tables that they belong to; inserting them in the right order."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from clickhouse_connect.driver.client import Client
from wattledger_core.event import Tick
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_core.revision import AllocationRevision, Mark, NodeRevision
from wattledger_schemas import BadRecord, Decoded, load_contracts
from wattledger_sql import insert
from wattledger_sql.avro_insert import Record, insert_records
from wattledger_sql.fact import DeadLetter, Gap, Source

from wattledger_streams.mapping import (
    from_wire_allocation_record,
    from_wire_price_record,
    from_wire_tenant_cost,
    from_wire_usage_lines,
)
from wattledger_streams.mapping_threshold import from_wire_threshold_event, to_threshold_row

TABLES = (
    "usage_lines", "device_totals", "discrepancies", "cost_rows", "allocation_revisions", "node_revisions", "prices",
    "threshold_events", "dead_letters", "gaps", "marks",
)  # fmt: skip
"""In the order of insertion: a mark says that what came above it is there, so marks are last."""

AVRO_SUBJECTS = {"usage-lines": "usage_lines", "tenant-cost": "tenant_cost"}
"""Topics whose records can be inserted as the Avro that they came as, with the subject that they must have then."""

FEWEST_AVRO_BYTES = 300_000
"""Bytes of a topic's records in one take from which that costs less than to decode them here: some 120 records of eight
lines, or a few of 200 cost rows (measured: sql/README.md)."""

_AVRO_FROM = {"usage_lines": "usage-lines", "cost_rows": "tenant-cost"}
"""The first table that a topic's records have rows of: all of theirs go in where it has its turn."""

_INSERTS: dict[str, Callable[[Client, Sequence[Any], Sequence[Source]], int]] = {
    "usage_lines": insert.insert_usage_lines,
    "device_totals": insert.insert_device_totals,
    "discrepancies": insert.insert_discrepancies,
    "cost_rows": insert.insert_cost_rows,
    "allocation_revisions": insert.insert_allocation_revisions,
    "node_revisions": insert.insert_node_revisions,
    "prices": insert.insert_prices,
    "threshold_events": insert.insert_threshold_events,
    "dead_letters": insert.insert_dead_letters,
    "gaps": insert.insert_gaps,
    "marks": insert.insert_marks,
}


class Whole(NamedTuple):
    """A record that is not decoded here: `body` is the Avro in `value`."""

    source: Source
    key: bytes
    value: bytes
    body: memoryview


@dataclass(slots=True)
class Rows:
    """Rows of one take, by table, each with the place in Kafka that it came from; and records left whole, by topic."""

    by_table: dict[str, tuple[list[Any], list[Source]]] = field(default_factory=dict)
    newest_mark_us: dict[tuple[int, int], int] = field(default_factory=dict)
    whole: dict[str, list[Whole]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not self.by_table and not self.whole

    def keep_whole(self, topic: str, record: Whole) -> None:
        self.whole.setdefault(topic, []).append(record)

    def give_back(self, fewest_bytes: int | None = None) -> dict[str, list[Whole]]:
        """Take out the records left whole of topics with fewer bytes than that; of all topics without it."""
        few = [
            topic
            for topic, records in self.whole.items()
            if fewest_bytes is None or sum(len(record.body) for record in records) < fewest_bytes
        ]
        return {topic: self.whole.pop(topic) for topic in few}

    def add(self, table: str, rows: Sequence[Any], source: Source) -> None:
        if rows:
            kept, sources = self.by_table.setdefault(table, ([], []))
            kept.extend(rows)
            sources.extend([source] * len(rows))

    def insert(self, client: Client) -> dict[str, int]:
        """Insert table by table; how many of each. Safe to do again: the same row is the same row.

        Raises `RecordsRefused` when ClickHouse does not take the records left whole; each must be decoded then.
        """
        done: Counter[str] = Counter()
        for table in TABLES:
            topic = _AVRO_FROM.get(table)
            if topic in self.whole:
                records = [Record(record.source, record.body) for record in self.whole[topic]]
                done.update(insert_records(client, AVRO_SUBJECTS[topic], records))
            if table in self.by_table:
                rows, sources = self.by_table[table]
                done[table] += _INSERTS[table](client, rows, sources)
        return done


def sort_record(rows: Rows, topic: str, decoded: Decoded, source: Source, prices: PriceLog) -> None:
    """Put one record's rows where they belong; raises BadRecord for a subject that no table takes."""
    record = decoded.record
    if decoded.subject not in load_contracts()[topic].subjects:
        raise BadRecord("wrong_subject", f"{decoded.subject} does not belong in {topic}")
    if topic == "usage-lines":
        group = from_wire_usage_lines(record)
        rows.add("usage_lines", group.lines, source)
        rows.add("device_totals", group.totals, source)
        rows.add("discrepancies", group.discrepancies, source)
    elif topic == "tenant-cost":
        rows.add("cost_rows", from_wire_tenant_cost(record), source)
    elif topic == "allocations":
        _sort_allocation(rows, from_wire_allocation_record(decoded.subject, record), source)
    elif topic == "price-book":
        item = from_wire_price_record(decoded.subject, record, source.partition, source.offset)
        kept = prices.add(item)
        if not isinstance(item, Tick) and isinstance(kept, Price):
            rows.add("prices", [kept], source)
    elif topic == "threshold-events":
        rows.add("threshold_events", [to_threshold_row(from_wire_threshold_event(record))], source)
    elif topic == "dead-letters" and decoded.subject == "dead_letter":
        rows.add("dead_letters", [_dead_letter(record)], source)
    elif topic == "dead-letters" and decoded.subject == "gap":
        rows.add("gaps", [_gap(record)], source)
    else:
        raise BadRecord("wrong_subject", f"{decoded.subject} in {topic} has no table")


def _sort_allocation(rows: Rows, record: AllocationRevision | NodeRevision | Mark, source: Source) -> None:
    if isinstance(record, Mark):
        rows.add("marks", [record], source)
        place = (source.partition, record.origin.partition)
        rows.newest_mark_us[place] = max(record.at_us, rows.newest_mark_us.get(place, 0))
    elif isinstance(record, AllocationRevision):
        rows.add("allocation_revisions", [record], source)
    else:
        rows.add("node_revisions", [record], source)


def _dead_letter(record: dict[str, Any]) -> DeadLetter:
    return DeadLetter(
        record["source_topic"], record["source_partition"], record["source_offset"], record["reason_code"],
        record["detail"], record["processor"], record["key"], record["raw"],
    )  # fmt: skip


def _gap(record: dict[str, Any]) -> Gap:
    return Gap(
        record["node"], record["agent"], record["topic"], record["from_seq"], record["to_seq"], record["count"],
        record["from_us"], record["to_us"], record["reason"],
    )  # fmt: skip
