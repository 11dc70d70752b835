"""What the topics hold once a day is played, as it stands: allocations, node facts, prices, batches, billed rows.

Each topic is also named by a hash, so that a report can say what it was made from.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from wattledger_core.batch import Batch
from wattledger_core.cost import CostRow
from wattledger_core.price_log import PriceLog
from wattledger_core.pricing import BILLED
from wattledger_core.revision import AllocationRecord, AllocationRevision, Mark, NodeRevision
from wattledger_schemas import BadRecord, Codec
from wattledger_streams.log_reader import LogReader, LogRecord
from wattledger_streams.mapping import from_wire_allocation_record, from_wire_batch, from_wire_price_record

ALLOCATIONS, SAMPLES, PRICES, COSTS, LETTERS = (
    "allocations", "gpu-samples", "price-book", "tenant-cost", "dead-letters",
)  # fmt: skip
_GROUP = "wattledger-report"
R = TypeVar("R", AllocationRevision, NodeRevision)


class TopicUsed(NamedTuple):
    """One topic that was read: its distinct records, their bytes, and the hash of them all, whatever their order."""

    name: str
    records: int
    size_bytes: int
    sha256: str


class PutAside(NamedTuple):
    """A record that a processor could not use, by where it stood."""

    topic: str
    partition: int
    offset: int
    reason_code: str
    detail: str


@dataclass(slots=True)
class DayRecords:
    """The day as it stands at its end. `settled_us`: every source has reported all up to here."""

    allocations: list[AllocationRevision]
    facts: list[NodeRevision]
    prices: PriceLog
    batches: dict[str, list[Batch]]
    billed: list[CostRow]
    settled_us: int
    put_aside: list[PutAside] = field(default_factory=list)
    topics: list[TopicUsed] = field(default_factory=list)


class TopicHash:
    """SHA-256 over the sorted SHA-256 of a topic's distinct records: a record that came twice counts once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._sizes: dict[bytes, int] = {}

    def add(self, value: bytes) -> None:
        """Take one record."""
        self._sizes[hashlib.sha256(value).digest()] = len(value)

    def used(self) -> TopicUsed:
        """What was read so far."""
        whole = hashlib.sha256(b"".join(sorted(self._sizes))).hexdigest()
        return TopicUsed(self._name, len(self._sizes), sum(self._sizes.values()), whole)


def standing(records: Iterable[AllocationRecord]) -> tuple[list[AllocationRevision], list[NodeRevision], int]:
    """The last revision of each allocation and fact in the order of its source, void ones left out; and the newest
    time that every source has marked."""
    allocations: dict[str, AllocationRevision] = {}
    facts: dict[str, NodeRevision] = {}
    marks: dict[int, int] = {}
    for record in records:
        if isinstance(record, Mark):
            marks[record.origin.partition] = max(marks.get(record.origin.partition, 0), record.at_us)
        elif isinstance(record, AllocationRevision):
            _keep(allocations, record.allocation_id, record)
        else:
            _keep(facts, record.fact_id, record)
    return (
        sorted((a for a in allocations.values() if not a.void), key=lambda a: (a.start_us, a.node, a.allocation_id)),
        sorted((f for f in facts.values() if not f.void), key=lambda f: (f.node, f.kind, f.start_us, f.fact_id)),
        min(marks.values(), default=0),
    )


def _keep(found: dict[str, R], name: str, record: R) -> None:
    before = found.get(name)
    if before is None or before.origin < record.origin:
        found[name] = record


def by_node(batches: Iterable[Batch]) -> dict[str, list[Batch]]:
    """Batches by node in order of time, each start of a node once: what came again says the same."""
    found: dict[str, dict[int, Batch]] = {}
    for batch in batches:
        found.setdefault(batch.node, {}).setdefault(batch.start_us, batch)
    return {node: [own[at_us] for at_us in sorted(own)] for node, own in sorted(found.items())}


def billed_rows(rows: Iterable[CostRow]) -> list[CostRow]:
    """Rows of what the rate card bills, in order of their ids."""
    return sorted((row for row in rows if row.component == BILLED), key=lambda row: row.row_id)


def hash_of_rows(rows: Iterable[CostRow]) -> TopicUsed:
    """The topic of cost rows by its billed rows, as text: how rows are packed into records differs from run to run."""
    digest = TopicHash(COSTS)
    for row in rows:
        digest.add("\x1f".join(map(str, row)).encode())
    return digest.used()


def read_day(
    kafka: Mapping[str, str], prefix: str, counts: Mapping[str, int], reliable: bool, rows: Mapping[str, CostRow]
) -> DayRecords:
    """Read the topics to their ends now. `rows`: the folded cost topic; `reliable`: the broker's end offsets are right
    (on one whose are not, the topics must be at rest)."""
    codec = Codec()
    hashes = {name: TopicHash(name) for name in (ALLOCATIONS, SAMPLES, PRICES)}

    def topic(name: str) -> Iterator[LogRecord]:
        for partition in range(counts[name]):
            for record in _read(kafka, prefix + name, partition, reliable):
                if name in hashes:
                    hashes[name].add(record.value)
                yield record

    put_aside = list(_put_aside(codec, topic(LETTERS)))
    dead = {(letter.topic, letter.partition, letter.offset) for letter in put_aside}
    allocations, facts, settled_us = standing(_allocation_records(codec, topic(ALLOCATIONS)))
    prices = PriceLog()
    for record in topic(PRICES):
        try:
            decoded = codec.decode(record.value)
            prices.add(from_wire_price_record(decoded.subject, decoded.record, record.partition, record.offset))
        except BadRecord:
            continue
    batches = by_node(_batches(codec, topic(SAMPLES), dead))
    billed = billed_rows(rows.values())
    used = [*(found.used() for found in hashes.values()), hash_of_rows(billed)]
    return DayRecords(allocations, facts, prices, batches, billed, settled_us, put_aside, used)


def _read(kafka: Mapping[str, str], topic: str, partition: int, reliable: bool) -> Iterator[LogRecord]:
    reader = LogReader(kafka, topic, partition, _GROUP)
    try:
        yield from reader.read_until(reader.end_offset()) if reliable else reader.read_until_quiet()
    finally:
        reader.close()


def _allocation_records(codec: Codec, records: Iterable[LogRecord]) -> Iterator[AllocationRecord]:
    for record in records:
        try:
            decoded = codec.decode(record.value)
            yield from_wire_allocation_record(decoded.subject, decoded.record)
        except BadRecord:
            continue


def _batches(codec: Codec, records: Iterable[LogRecord], dead: set[tuple[str, int, int]]) -> Iterator[Batch]:
    for record in records:
        if (SAMPLES, record.partition, record.offset) in dead:
            continue
        try:
            yield from_wire_batch(codec.decode(record.value).record)
        except BadRecord:
            continue


def _put_aside(codec: Codec, records: Iterable[LogRecord]) -> Iterator[PutAside]:
    """Bad records are these, and nothing else says so: a reader that meets one leaves it."""
    for record in records:
        decoded = codec.decode(record.value)
        if decoded.subject == "dead_letter":
            found = decoded.record
            yield PutAside(
                found["source_topic"], found["source_partition"], found["source_offset"], found["reason_code"],
                found["detail"],
            )  # fmt: skip
