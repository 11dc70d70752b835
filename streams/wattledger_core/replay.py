"""Replay: the pipeline over lists in memory. The audit's engine, the tests' oracle, an auditor's recomputation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wattledger_core.batch import Batch
from wattledger_core.cost import CostRow
from wattledger_core.event import JobTopicEvent, Tick
from wattledger_core.line import DeviceTotal, Discrepancy, Line
from wattledger_core.meter import READY, Group, PartitionMeter
from wattledger_core.policy import Policy
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_core.pricing import Pricer
from wattledger_core.revision import AllocationRecord, Mark
from wattledger_core.session import SessionFold

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Logs:
    """What the topics hold, by partition, in offset order. `allocations` fixes in which order revisions of several
    partitions came; without it they are merged by tick. `dead` lists sample records that went to dead letters."""

    job_events: Mapping[int, Sequence[tuple[int, JobTopicEvent]]]
    samples: Mapping[int, Sequence[tuple[int, Batch]]]
    prices: Sequence[tuple[int, Price | Tick]]
    allocations: Mapping[int, Sequence[AllocationRecord]] | None = None
    dead: frozenset[Place] = frozenset()


@dataclass(slots=True)
class Replayed:
    """Every row the pipeline writes for the logs, first occurrences only."""

    allocations: dict[int, list[AllocationRecord]] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    totals: list[DeviceTotal] = field(default_factory=list)
    discrepancies: list[Discrepancy] = field(default_factory=list)
    cost_rows: list[CostRow] = field(default_factory=list)


def replay(logs: Logs, policy: Policy, partitions: int, node_partition: Mapping[str, int]) -> Replayed:
    """Run the pipeline. `partitions` is how many `allocations` has; `node_partition` says where each node lives
    (the core does not know the partitioner). Same logs, same rows; another order of arrival, the same totals."""
    result = Replayed()
    result.allocations = (
        {q: list(records) for q, records in logs.allocations.items()}
        if logs.allocations is not None
        else fold_allocations(logs.job_events, partitions, node_partition)
    )
    price_log = PriceLog()
    for _, item in logs.prices:
        price_log.add(item)
    for q in sorted(result.allocations):
        meter = PartitionMeter(len(logs.job_events), policy)
        for record in result.allocations[q]:
            meter.read(record)
        result.groups += meter.due_quarters(price_log.newest_tick_us)
        result.groups += _batches(meter, q, logs, price_log.newest_tick_us)
    pricer = Pricer(price_log, policy)
    seen: set[str] = set()
    for group in result.groups:
        result.lines += [line for line in group.lines if line.line_id not in seen]
        seen.update(line.line_id for line in group.lines)
        result.totals += group.totals
        result.discrepancies += group.discrepancies
    result.totals = list({total.total_id: total for total in result.totals}.values())
    result.discrepancies = list({found.discrepancy_id: found for found in result.discrepancies}.values())
    result.cost_rows = pricer.price(result.lines)
    return result


def _batches(meter: PartitionMeter, q: int, logs: Logs, price_tick_us: int) -> Iterable[Group]:
    for offset, batch in logs.samples.get(q, ()):
        if (q, offset) not in logs.dead and meter.verdict(batch.end_us, price_tick_us) == READY:
            yield meter.meter_batch(batch, q, offset)


def fold_allocations(
    job_events: Mapping[int, Sequence[tuple[int, JobTopicEvent]]],
    partitions: int,
    node_partition: Mapping[str, int],
) -> dict[int, list[AllocationRecord]]:
    """Sessions over every partition, merged into `allocations` partitions by (last tick, source, offset)."""
    keyed: list[tuple[int, int, int, int, AllocationRecord]] = []
    for source in sorted(job_events):
        fold = SessionFold(source)
        for offset, event in job_events[source]:
            for seq, record in enumerate(fold.fold(offset, event)):
                at_us = record.at_us if isinstance(record, Mark) else record.known_us
                keyed.append((at_us, source, offset, seq, record))
    merged: dict[int, list[AllocationRecord]] = {q: [] for q in range(partitions)}
    keyed.sort(key=lambda item: item[:4])
    for *_, record in keyed:
        if isinstance(record, Mark):
            for q in merged:
                merged[q].append(record)
        else:
            merged[node_partition[record.node]].append(record)
    return merged
