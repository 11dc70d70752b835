"""The day as WattLedger's agents send it: batches of all devices of a node, job and node events, prices, ticks."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from wattledger_audit.trace_items import trace_items
from wattledger_core.batch import Batch, SampledDevice
from wattledger_core.event import Claim, InventoryDevice, JobEvent, NodeEvent, Tick
from wattledger_core.price import Price
from wattledger_core.revision import Origin
from wattledger_schemas import Codec, partition_for
from wattledger_streams.mapping import to_wire_batch

from benchmarks.ingestion.day import (
    EUR_PER_DEVICE_HOUR,
    EUR_PER_KWH,
    HOUR_S,
    PUE,
    START_US,
    Day,
    Job,
    S,
    device_name,
    node_name,
)
from benchmarks.ingestion.feed import Record

CLUSTER, SITE, MODEL = "c1", "fra1", "NVIDIA H100 80GB HBM3"
TICK_S = 60
SETTLE_S = 180
"""Ticks go on for so long after the last sample: lateness and a tick to spare."""


@dataclass(frozen=True, slots=True)
class Emission:
    at_us: int
    item: JobEvent | NodeEvent | Tick | Price


def at(second: int) -> int:
    return START_US + second * S


def sample_records(day: Day, from_s: int, to_s: int) -> Iterator[Record]:
    """Batches of `[from_s, to_s)` in the order in which the agents flush."""
    codec, plan = Codec(), day.plan
    for start_s in range(from_s, to_s, plan.ticks_per_record):
        end_s = min(start_s + plan.ticks_per_record, to_s)
        for node in range(plan.nodes):
            batch = make_batch(day, node, start_s, end_s)
            shape = batch.power_mw.shape
            memory = np.full(shape, 60 << 30, dtype=np.int64), np.ones(shape, dtype=np.bool_)
            value = codec.encode("sample_batch", to_wire_batch(batch, memory))
            yield Record("gpu-samples", partition_for(batch.node, plan.partitions), batch.node, value)


def make_batch(day: Day, node: int, start_s: int, end_s: int) -> Batch:
    """One flush of a node: its first tick repeats the last of the flush before."""
    power, busy = day.power_busy(node)
    counter = day.counter_uj(node)
    cut = np.s_[:, start_s : end_s + 1]
    good = np.ones(power[cut].shape, dtype=np.bool_)
    devices = tuple(
        SampledDevice(
            device_name(node, i), i, f"0000:{i:02x}:00.0", i, MODEL, "590.48.01", "", "exclusive", "boot-1", 0, 70_000
        )
        for i in range(day.plan.devices)
    )
    ticks = np.arange(at(start_s), at(end_s) + 1, S, dtype=np.int64)
    seq = start_s // day.plan.ticks_per_record
    return Batch(
        node_name(node), SITE, f"agent-{node}", "boot-1", seq, S, ticks, devices, power[cut], good, counter[cut], good,
        busy[cut], good,
    )  # fmt: skip


def event_records(day: Day, from_s: int, to_s: int) -> Iterator[Record]:
    """Events, prices and ticks emitted in `[from_s, to_s)`; a tick goes into every partition of its topics."""
    due = [e for e in _emissions(day) if at(from_s) <= e.at_us < at(to_s)]
    for item in trace_items(due, Codec()):
        count = day.plan.partitions if item.topic == "job-events" else 1
        places = range(count) if item.broadcast else (partition_for(item.key, count),)
        for partition in places:
            yield Record(item.topic, partition, item.key, item.value)


def _emissions(day: Day) -> list[Emission]:
    plan = day.plan
    found = [Emission(at(0), price) for price in prices(plan.end_s)]
    for node in range(plan.nodes):
        name = node_name(node)
        listed = tuple(InventoryDevice(device_name(node, i), i, MODEL) for i in range(plan.devices))
        found.append(Emission(at(0), NodeEvent(f"i-{name}", "inventory", at(0), name, CLUSTER, SITE, listed, 128)))
    for job in day.jobs:
        found.append(Emission(at(job.start_s), job_start(job)))
        found.append(Emission(at(job.end_s), JobEvent(f"{job.job}-end", "end", at(job.end_s), CLUSTER, job.job, 0)))
    found += [Emission(at(s), Tick(at(s))) for s in range(0, plan.end_s + SETTLE_S + 1, TICK_S)]
    return sorted(found, key=lambda e: (e.at_us, isinstance(e.item, Tick)))


def job_start(job: Job) -> JobEvent:
    node = node_name(job.node)
    claims = tuple(Claim(node, device_name(job.node, i), cpus=8) for i in range(job.first, job.first + job.size))
    return JobEvent(
        f"{job.job}-start", "start", at(job.start_s), CLUSTER, job.job, 0, claims, job.tenant, "llm", "ada", "llama",
        sku="h100",
    )  # fmt: skip


def prices(end_s: int) -> Iterator[Price]:
    """Compute and rate card for ever, energy by the hour."""
    yield _price("compute", "compute", EUR_PER_DEVICE_HOUR, 0, None)
    yield _price("rate", "rate", "2.9", 0, None)
    for hour in range(end_s // HOUR_S + 1):
        rate = EUR_PER_KWH[hour % len(EUR_PER_KWH)]
        yield _price("energy", f"energy-{hour:03d}", rate, hour * HOUR_S, (hour + 1) * HOUR_S, PUE)


def _price(kind: str, name: str, rate: str, from_s: int, to_s: int | None, pue: str = "1") -> Price:
    end_us = None if to_s is None else at(to_s)
    origin = Origin(0, -1)
    return Price(name, "", origin, 0, kind, at(from_s), end_us, Decimal(rate), "EUR", pue=Decimal(pue))
