"""The topics' contents as replay's input: what an auditor recomputes a bill from."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from wattledger_core.batch import Batch
from wattledger_core.event import JobTopicEvent, NodeEvent, Tick
from wattledger_core.price import Price
from wattledger_core.replay import Logs
from wattledger_core.revision import AllocationRecord
from wattledger_schemas import BadRecord, Codec, Decoded, partition_for
from wattledger_streams.log_reader import LogReader
from wattledger_streams.mapping import from_wire_allocation_record, from_wire_batch, from_wire_price_record
from wattledger_streams.sessions import job_topic_event

T = TypeVar("T")


def _read(
    kafka: Mapping[str, str], topic: str, partition: int, codec: Codec, value: Callable[[Decoded, int], T]
) -> list[tuple[int, T]]:
    """Every readable record of a partition, to its end now; bad ones are in `dead-letters`."""
    found: list[tuple[int, T]] = []
    reader = LogReader(kafka, topic, partition, "wattledger-replay")
    try:
        for record in reader.read_until(reader.end_offset()):
            try:
                found.append((record.offset, value(codec.decode(record.value), record.offset)))
            except BadRecord:
                continue
    finally:
        reader.close()
    return found


def read_logs(kafka: Mapping[str, str], prefix: str, counts: Mapping[str, int]) -> tuple[Logs, dict[str, int]]:
    """Logs for `replay`, and the partition of every node in them."""
    codec = Codec()

    def batch(decoded: Decoded, _: int) -> Batch:
        if decoded.subject != "sample_batch":
            raise BadRecord("wrong_subject", decoded.subject)
        return from_wire_batch(decoded.record)

    def event(decoded: Decoded, _: int) -> JobTopicEvent:
        return job_topic_event(decoded)

    def allocation(decoded: Decoded, _: int) -> AllocationRecord:
        return from_wire_allocation_record(decoded.subject, decoded.record)

    def price(decoded: Decoded, offset: int) -> Price | Tick:
        return from_wire_price_record(decoded.subject, decoded.record, 0, offset)

    def letter(decoded: Decoded, _: int) -> tuple[str, int, int]:
        record = decoded.record
        if decoded.subject != "dead_letter":
            raise BadRecord("wrong_subject", decoded.subject)
        return record["source_topic"], record["source_partition"], record["source_offset"]

    job_events = {p: _read(kafka, prefix + "job-events", p, codec, event) for p in range(counts["job-events"])}
    samples = {p: _read(kafka, prefix + "gpu-samples", p, codec, batch) for p in range(counts["gpu-samples"])}
    allocations = {
        p: [record for _, record in _read(kafka, prefix + "allocations", p, codec, allocation)]
        for p in range(counts["allocations"])
    }
    letters = [
        found
        for p in range(counts["dead-letters"])
        for _, found in _read(kafka, prefix + "dead-letters", p, codec, letter)
    ]
    dead = frozenset((p, offset) for topic, p, offset in letters if topic == "gpu-samples")
    prices = _read(kafka, prefix + "price-book", 0, codec, price)
    nodes = {e.node for log in job_events.values() for _, e in log if isinstance(e, NodeEvent)}
    nodes |= {c.node for log in job_events.values() for _, e in log for c in getattr(e, "claims", ())}
    placed = {node: partition_for(node, counts["allocations"]) for node in nodes}
    return Logs(job_events, samples, prices, allocations, dead), placed
