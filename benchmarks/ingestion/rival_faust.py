"""A Faust app with one JSON record a sample, as its documentation teaches it: records, tables, a timer that flushes.

    python rival_faust.py --bootstrap HOST:PORT --prefix P --prices FILE --database FOLDER --partitions N

Energy between two samples belongs to the job that ran at the first. One row a device, job and minute, in floats. After
a crash samples are counted twice (tables and offsets are not written together), and a job that is reported late
changes nothing any more.
"""

import argparse
import asyncio
import json
from bisect import bisect_right
from pathlib import Path
from typing import Any

import clickhouse_connect
import faust
import uvloop

MINUTE_US = 60_000_000
COLUMNS = ("start_us", "device", "job", "tenant", "joules", "held_s", "energy_eur", "compute_eur")
TABLE = """
CREATE TABLE IF NOT EXISTS usage (start_us Int64, device LowCardinality(String), job String,
    tenant LowCardinality(String), joules Float64, held_s Float64, energy_eur Float64, compute_eur Float64,
    inserted_at DateTime64(6) DEFAULT now64(6))
ENGINE = MergeTree ORDER BY (tenant, start_us, device)
"""


class Sample(faust.Record, serializer="json"):
    node: str
    device: str
    at_us: int
    power_mw: int
    energy_uj: int
    busy_ppm: int
    memory_bytes: int


class JobEvent(faust.Record, serializer="json"):
    kind: str
    device: str
    job: str
    tenant: str
    at_us: int


class Prices:
    """Euros for joules and device-seconds."""

    def __init__(self, path: str) -> None:
        listed = json.loads(Path(path).read_text())
        self.hours_us = [hour["start_us"] for hour in listed["energy"]]
        self.eur_per_kwh = [hour["eur_per_kwh"] for hour in listed["energy"]]
        self.eur_per_device_second = listed["eur_per_device_hour"] / 3600

    def priced(
        self, start_us: int, device: str, job: str, tenant: str, joules: float, held_s: float
    ) -> tuple[Any, ...]:
        eur_per_kwh = self.eur_per_kwh[bisect_right(self.hours_us, start_us) - 1]
        energy_eur = joules / 3.6e6 * eur_per_kwh
        return start_us, device, job, tenant, joules, held_s, energy_eur, held_s * self.eur_per_device_second


def build(bootstrap: str, prefix: str, database: Any, prices: Prices, partitions: int, folder: str) -> faust.App:
    app = faust.App(
        f"{prefix}faust", broker=f"kafka://{bootstrap}", topic_partitions=partitions, datadir=folder, web_enabled=False
    )
    sample_topic = app.topic(f"{prefix}samples", value_type=Sample)
    job_topic = app.topic(f"{prefix}jobs", value_type=JobEvent)
    jobs = app.Table("jobs", default=list)
    last = app.Table("last")
    rows: list[tuple[Any, ...]] = []

    def running(device: str, at_us: int) -> tuple[str, str]:
        for start_us, end_us, job, tenant in reversed(jobs[device]):
            if start_us <= at_us:
                return (job, tenant) if end_us is None or at_us < end_us else ("", "idle")
        return "", "idle"

    @app.agent(job_topic)
    async def follow_jobs(events: Any) -> None:
        async for event in events:
            held = jobs[event.device]
            if event.kind == "start":
                held.append([event.at_us, None, event.job, event.tenant])
            else:
                held[-1][1] = event.at_us
            jobs[event.device] = held

    @app.agent(sample_topic)
    async def meter(samples: Any) -> None:
        async for sample in samples:
            at_us, job = sample.at_us, running(sample.device, sample.at_us)
            before = last.get(sample.device)
            start_us, joules, held_s = at_us, 0.0, 0.0
            if before is not None:
                before_us, power_mw, start_us, held_by, joules, held_s = before
                step_s = (at_us - before_us) / 1e6
                joules += (power_mw + sample.power_mw) / 2000 * step_s
                held_s += step_s
                if at_us % MINUTE_US == 0 or job != tuple(held_by):
                    rows.append(prices.priced(start_us, sample.device, held_by[0], held_by[1], joules, held_s))
                    start_us, joules, held_s = at_us, 0.0, 0.0
            last[sample.device] = [at_us, sample.power_mw, start_us, job, joules, held_s]

    @app.timer(interval=1.0)  # type: ignore[untyped-decorator]
    async def flush() -> None:
        if rows:
            database.insert("usage", rows, COLUMNS)
            rows.clear()

    return app


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--prefix", "--prices", "--database"):
        parser.add_argument(name, required=True)
    parser.add_argument("--partitions", type=int, required=True)
    asked = parser.parse_args()
    database: Any = clickhouse_connect.get_client(interface="chdb", path=asked.database)
    database.command(TABLE)
    folder = f"{asked.database}-faust"
    app = build(asked.bootstrap, asked.prefix, database, Prices(asked.prices), asked.partitions, folder)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    faust.Worker(app, loglevel="WARN").execute_from_commandline()


if __name__ == "__main__":
    main()
