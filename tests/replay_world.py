"""A world run through `replay`, and what it makes laid into tables and topics as the processors would: no broker."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clickhouse_connect.driver.client import Client
from wattledger_core.batch import Batch
from wattledger_core.cost import CostRow
from wattledger_core.event import JobTopicEvent, Tick
from wattledger_core.policy import Policy
from wattledger_core.price import Price
from wattledger_core.replay import Logs, Replayed, replay
from wattledger_core.revision import AllocationRevision
from wattledger_core.session import SessionFold
from wattledger_schemas import BadRecord, Codec
from wattledger_sql import insert
from wattledger_sql.fact import DeadLetter
from wattledger_sql.migrate import migrate
from wattledger_streams.mapping import from_wire_batch, from_wire_price_record, to_wire_tenant_cost
from wattledger_streams.sessions import job_topic_event

from tests.fault_harness.record_bytes import places
from tests.fault_harness.topic_reading import SINGLE, Record
from tests.fault_harness.world import World
from tests.unit.sql_engine import fresh_database

POLICY = Policy()
FILLED = ("usage_lines", "device_totals", "cost_rows", "allocation_revisions", "dead_letters")


@dataclass(slots=True)
class Run:
    """What a world left: records by topic, rows."""

    records: dict[str, list[Record]] = field(default_factory=dict)
    rows: Replayed = field(default_factory=Replayed)
    letters: list[DeadLetter] = field(default_factory=list)

    def topics(self, topic: str) -> Iterator[Record]:
        """As the checker reads them."""
        return iter(self.records.get(topic, ()))


def run(world: World, partitions: int = 2) -> Run:
    """The whole pipeline in memory, with partitions and offsets as a broker would give them."""
    codec, found = Codec(), Run()
    _publish(world, partitions, found)
    job_events = _events(codec, found, partitions)
    prices = [(r.offset, item) for r, item in _readable(codec, found, "price-book", _price)]
    samples: dict[int, list[tuple[int, Batch]]] = {p: [] for p in range(partitions)}
    for record, batch in _readable(codec, found, "gpu-samples", _batch):
        if batch.end_us > world.plan.last_tick_us + POLICY.future_limit_us:
            _put_aside(found, "gpu-samples", record, BadRecord("too_far_ahead", "above the newest mark"))
        else:
            samples[record.partition].append((record.offset, batch))
    placed = {node: places(node, partitions)[0] for node in world.nodes}
    found.rows = replay(Logs(job_events, samples, prices), POLICY, partitions, placed)
    found.records["tenant-cost"] = costs_topic(codec, found.rows.cost_rows)
    found.records["dead-letters"] = [_letter(codec, n, letter) for n, letter in enumerate(found.letters)]
    return found


@contextmanager
def emptied_ledger(path: Path) -> Iterator[Callable[[], Client]]:
    """One migrated database; each call empties its tables and gives its client (migrating takes a second)."""
    with fresh_database(path) as client:
        migrate(client)

        def empty() -> Client:
            for table in FILLED:
                client.command(f"TRUNCATE TABLE {table}")
            return client

        yield empty


def fill(client: Client, found: Run) -> None:
    """The rows into the tables, by the sink's own inserts."""
    rows = found.rows
    insert.insert_usage_lines(client, rows.lines)
    insert.insert_device_totals(client, rows.totals)
    insert.insert_cost_rows(client, rows.cost_rows)
    records = [record for kept in rows.allocations.values() for record in kept]
    insert.insert_allocation_revisions(client, [r for r in records if isinstance(r, AllocationRevision)])
    if found.letters:
        insert.insert_dead_letters(client, found.letters)


def costs_topic(codec: Codec, rows: Sequence[CostRow]) -> list[Record]:
    """Rows as records of `tenant-cost`, one for each tenant and group."""
    groups: dict[tuple[str, int, int], list[CostRow]] = {}
    for row in rows:
        groups.setdefault((row.tenant, row.group_start_us, row.group_end_us), []).append(row)
    return [
        Record(0, n, key[0].encode(), codec.encode("tenant_cost", to_wire_tenant_cost(*key, kept)))
        for n, (key, kept) in enumerate(groups.items())
    ]


def _publish(world: World, partitions: int, found: Run) -> None:
    ends: dict[tuple[str, int], int] = {}
    for sent in world.emissions():
        for partition in places(sent.partition_key, 1 if sent.topic in SINGLE else partitions):
            offset = ends.get((sent.topic, partition), 0)
            ends[(sent.topic, partition)] = offset + 1
            found.records.setdefault(sent.topic, []).append(Record(partition, offset, sent.key, sent.value))


def _events(codec: Codec, found: Run, partitions: int) -> Mapping[int, list[tuple[int, JobTopicEvent]]]:
    folds = {p: SessionFold(p) for p in range(partitions)}
    logs: dict[int, list[tuple[int, JobTopicEvent]]] = {p: [] for p in range(partitions)}
    for record, event in _readable(codec, found, "job-events", _event):
        logs[record.partition].append((record.offset, event))
        folds[record.partition].fold(record.offset, event)
        for rejected in folds[record.partition].take_rejected():
            _put_aside(found, "job-events", record, BadRecord(rejected.reason, rejected.detail))
    return logs


def _event(codec: Codec, record: Record) -> JobTopicEvent:
    return job_topic_event(codec.decode(record.value))


def _price(codec: Codec, record: Record) -> Price | Tick:
    decoded = codec.decode(record.value)
    return from_wire_price_record(decoded.subject, decoded.record, 0, record.offset)


def _batch(codec: Codec, record: Record) -> Batch:
    decoded = codec.decode(record.value)
    if decoded.subject != "sample_batch":
        raise BadRecord("wrong_subject", decoded.subject)
    return from_wire_batch(decoded.record)


def _readable(
    codec: Codec, found: Run, topic: str, value: Callable[[Codec, Record], Any]
) -> Iterator[tuple[Record, Any]]:
    for record in found.records[topic]:
        try:
            item = value(codec, record)
        except BadRecord as error:
            _put_aside(found, topic, record, error)
            continue
        yield record, item


def _put_aside(found: Run, topic: str, record: Record, error: BadRecord) -> None:
    letter = DeadLetter(
        topic, record.partition, record.offset, error.reason_code, error.detail, "test", record.key, record.value
    )
    found.letters.append(letter)


def _letter(codec: Codec, offset: int, letter: DeadLetter) -> Record:
    content = {
        "source_topic": letter.topic, "source_partition": letter.partition, "source_offset": letter.offset,
        "reason_code": letter.reason_code, "detail": letter.detail, "processor": letter.processor, "key": letter.key,
        "raw": letter.value,
    }  # fmt: skip
    return Record(0, offset, letter.topic.encode(), codec.encode("dead_letter", content))
