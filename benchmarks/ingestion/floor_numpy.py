"""The floor: a plain confluent-kafka, fastavro and NumPy loop over WattLedger's own batched records, in floats.

    python floor_numpy.py --bootstrap HOST:PORT --prefix P --prices FILE --database FOLDER --schema AVSC

One row a device, record and holder. No ids, corrections, quality, idempotence or proof: what a good engineer would
write first, and the least that such a job can cost in Python.
"""

import argparse
import io
import json
import time
from bisect import bisect_right
from pathlib import Path
from typing import Any

import clickhouse_connect
import fastavro
import numpy as np
from confluent_kafka import Consumer, TopicPartition

GROUP = "floor"
FLUSH_S, FLUSH_ROWS = 0.5, 20_000
COLUMNS = ("start_us", "device", "job", "tenant", "joules", "held_s", "energy_eur", "compute_eur")
TABLE = """
CREATE TABLE IF NOT EXISTS usage (start_us Int64, device LowCardinality(String), job String,
    tenant LowCardinality(String), joules Float64, held_s Float64, energy_eur Float64, compute_eur Float64,
    inserted_at DateTime64(6) DEFAULT now64(6))
ENGINE = MergeTree ORDER BY (tenant, start_us, device)
"""


def read_jobs(bootstrap: str, topic: str) -> dict[str, list[list[Any]]]:
    """Every job by device: [start, end, job, tenant], in order of time. Reads the topic to its end."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "floor-jobs", "enable.partition.eof": True})
    places = [TopicPartition(topic, p, 0) for p in consumer.list_topics(topic).topics[topic].partitions]
    consumer.assign(places)
    jobs: dict[str, list[list[Any]]] = {}
    ends = 0
    while ends < len(places):
        message = consumer.poll(10)
        if message is None:
            raise TimeoutError(f"{topic} does not answer")
        if message.error():
            ends += 1
            continue
        event = json.loads(message.value() or b"")
        held = jobs.setdefault(event["device"], [])
        if event["kind"] == "start":
            held.append([event["at_us"], 1 << 62, event["job"], event["tenant"]])
        else:
            held[-1][1] = event["at_us"]
    consumer.close()
    return jobs


def read_samples(bootstrap: str, prefix: str, group: str) -> Consumer:
    """A consumer of the batched samples, from their start, whose offsets are committed by hand."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": prefix + group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([prefix + "gpu-samples"])
    return consumer


class Meter:
    """Records to rows."""

    def __init__(self, jobs: dict[str, list[list[Any]]], prices: dict[str, Any], schema: Path) -> None:
        self.jobs = jobs
        self.schema = fastavro.parse_schema(json.loads(schema.read_text()))
        self.hours_us = [hour["start_us"] for hour in prices["energy"]]
        self.eur_per_kwh = [hour["eur_per_kwh"] for hour in prices["energy"]]
        self.eur_per_device_second = prices["eur_per_device_hour"] / 3600

    def rows(self, value: bytes) -> list[tuple[Any, ...]]:
        body = io.BytesIO(value)
        body.seek(5)
        record: Any = fastavro.schemaless_reader(body, self.schema, None)
        ticks_us = np.frombuffer(record["ticks_us"], "<i8")
        power_mw = np.stack([np.frombuffer(d["power_mw"], "<i4", len(ticks_us)) for d in record["devices"]])
        steps_s = np.diff(ticks_us) / 1e6
        joules = np.zeros(power_mw.shape)
        np.cumsum((power_mw[:, 1:] + power_mw[:, :-1]) * (steps_s / 2000), axis=1, out=joules[:, 1:])
        found: list[tuple[Any, ...]] = []
        for device, curve in zip(record["devices"], joules, strict=True):
            found += self.device_rows(device["device"], ticks_us, curve)
        return found

    def device_rows(self, device: str, ticks_us: Any, curve: Any) -> list[tuple[Any, ...]]:
        start_us, end_us = int(ticks_us[0]), int(ticks_us[-1])
        rows, at_us = [], start_us
        for from_us, to_us, job, tenant in [*self.jobs.get(device, []), [end_us, end_us, "", ""]]:
            if to_us <= start_us or from_us > end_us:
                continue
            for cut_us, holder, payer in ((min(from_us, end_us), "", "idle"), (min(to_us, end_us), job, tenant)):
                if cut_us > at_us:
                    used = float(np.interp(cut_us, ticks_us, curve) - np.interp(at_us, ticks_us, curve))
                    rows.append(self.priced(at_us, cut_us, device, holder, payer, used))
                    at_us = cut_us
        return rows

    def priced(self, start_us: int, end_us: int, device: str, job: str, tenant: str, joules: float) -> tuple[Any, ...]:
        held_s = (end_us - start_us) / 1e6
        eur_per_kwh = self.eur_per_kwh[bisect_right(self.hours_us, start_us) - 1]
        energy_eur = joules / 3.6e6 * eur_per_kwh
        return start_us, device, job, tenant, joules, held_s, energy_eur, held_s * self.eur_per_device_second


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--prefix", "--prices", "--database", "--schema"):
        parser.add_argument(name, required=True)
    asked = parser.parse_args()
    jobs = read_jobs(asked.bootstrap, asked.prefix + "jobs")
    meter = Meter(jobs, json.loads(Path(asked.prices).read_text()), Path(asked.schema))
    database: Any = clickhouse_connect.get_client(interface="chdb", path=asked.database)
    database.command(TABLE)
    consumer = read_samples(asked.bootstrap, asked.prefix, GROUP)
    rows: list[tuple[Any, ...]] = []
    flushed_s = time.monotonic()
    while True:
        for message in consumer.consume(256, 0.1):
            rows += meter.rows(message.value() or b"")
        if rows and (len(rows) >= FLUSH_ROWS or time.monotonic() - flushed_s >= FLUSH_S):
            database.insert("usage", rows, COLUMNS)
            consumer.commit(asynchronous=False)
            rows, flushed_s = [], time.monotonic()


if __name__ == "__main__":
    main()
