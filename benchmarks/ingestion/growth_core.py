"""The meter's work on sample records in this process: bytes to arrays, join, integrate, price. No Kafka, no tables."""

import time

from wattledger_core.event import Tick
from wattledger_core.meter import PartitionMeter
from wattledger_core.policy import Policy
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_core.pricing import Pricer
from wattledger_core.session import SessionFold
from wattledger_schemas import Codec
from wattledger_streams.mapping import from_wire_batch, from_wire_price_record
from wattledger_streams.sessions import job_topic_event

from benchmarks.ingestion.as_records import SETTLE_S, event_records, sample_records
from benchmarks.ingestion.day import Day, Plan

_TIMES = 3


def cpu_us_per_sample(plan: Plan) -> float:
    """CPU of this process a sample, µs: the best of three over the day after its warm-up."""
    day, codec = Day(plan), Codec()
    meter, pricer = _books(day, codec)
    raw = [record.value for record in sample_records(day, plan.warm_s, plan.end_s)]
    spent_s = min(_pass(codec, meter, pricer, raw) for _ in range(_TIMES))
    return spent_s * 1e6 / plan.samples


def _books(day: Day, codec: Codec) -> tuple[PartitionMeter, Pricer]:
    """A meter that has read all allocations of the day, and a pricer all of its prices."""
    policy, fold, prices = Policy(), SessionFold(0), PriceLog()
    meter = PartitionMeter(1, policy)
    offsets = {"job-events": 0, "price-book": 0}
    for record in event_records(day, 0, day.plan.end_s + SETTLE_S + 1):
        decoded = codec.decode(record.value)
        offset = offsets[record.topic]
        offsets[record.topic] += 1
        if record.topic == "price-book":
            item: Price | Tick = from_wire_price_record(decoded.subject, decoded.record, 0, offset)
            prices.add(item)
            continue
        for revision in fold.fold(offset, job_topic_event(decoded)):
            meter.read(revision)
    return meter, Pricer(prices, policy)


def _pass(codec: Codec, meter: PartitionMeter, pricer: Pricer, raw: list[bytes]) -> float:
    began_s = time.process_time()
    lines = 0
    for offset, value in enumerate(raw):
        group = meter.meter_batch(from_wire_batch(codec.decode(value).record), 0, offset)
        lines += len(pricer.price(group.lines))
    if lines < len(raw):
        raise AssertionError(f"{lines} rows of {len(raw)} records")
    return time.process_time() - began_s
