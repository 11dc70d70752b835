"""The same in quixstreams: an as-of join of samples with jobs, a stateful step a device, and a batching sink.

    python rival_quixstreams.py --bootstrap HOST:PORT --prefix P --prices FILE --database FOLDER

Energy between two samples belongs to the job that ran at the first. One row a device, job and minute, in floats. Rows
are written at each checkpoint; a job that is reported late changes nothing any more.
"""

import argparse
import json
from bisect import bisect_right
from datetime import timedelta
from pathlib import Path
from typing import Any

import clickhouse_connect
from quixstreams import Application, State  # type: ignore[import-not-found]
from quixstreams.sinks import BatchingSink, SinkBatch  # type: ignore[import-not-found]

MINUTE_US = 60_000_000
COLUMNS = ("start_us", "device", "job", "tenant", "joules", "held_s", "energy_eur", "compute_eur")
TABLE = """
CREATE TABLE IF NOT EXISTS usage (start_us Int64, device LowCardinality(String), job String,
    tenant LowCardinality(String), joules Float64, held_s Float64, energy_eur Float64, compute_eur Float64,
    inserted_at DateTime64(6) DEFAULT now64(6))
ENGINE = MergeTree ORDER BY (tenant, start_us, device)
"""
Row = dict[str, Any]


class ClickHouseSink(BatchingSink):  # type: ignore[misc]
    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def setup(self) -> None:
        self.database: Any = clickhouse_connect.get_client(interface="chdb", path=self.path)
        self.database.command(TABLE)

    def write(self, batch: SinkBatch) -> None:
        self.database.insert("usage", [[item.value[name] for name in COLUMNS] for item in batch], COLUMNS)


class Prices:
    """Euros for joules and device-seconds."""

    def __init__(self, path: str) -> None:
        listed = json.loads(Path(path).read_text())
        self.hours_us = [hour["start_us"] for hour in listed["energy"]]
        self.eur_per_kwh = [hour["eur_per_kwh"] for hour in listed["energy"]]
        self.eur_per_device_second = listed["eur_per_device_hour"] / 3600

    def price(self, row: Row) -> None:
        eur_per_kwh = self.eur_per_kwh[bisect_right(self.hours_us, row["start_us"]) - 1]
        row["energy_eur"] = row["joules"] / 3.6e6 * eur_per_kwh
        row["compute_eur"] = row["held_s"] * self.eur_per_device_second


def event_time(value: Row, key: Any, timestamp: int, headers: Any) -> int:
    return int(value["at_us"] // 1000)


def with_job(sample: Row, event: Row | None) -> Row:
    if event is None or event["kind"] == "end":
        return {**sample, "job": "", "tenant": "idle"}
    return {**sample, "job": event["job"], "tenant": event["tenant"]}


def meter(sample: Row, state: State) -> list[Row]:
    """Rows that end at this sample: the minute is over, or another job runs."""
    at_us = sample["at_us"]
    row = state.get("row")
    ended = []
    if row is not None:
        step_s = (at_us - row["at_us"]) / 1e6
        row["joules"] += (row["power_mw"] + sample["power_mw"]) / 2000 * step_s
        row["held_s"] += step_s
        if at_us % MINUTE_US == 0 or row["job"] != sample["job"]:
            ended.append(row)
    if row is None or ended:
        names = ("device", "job", "tenant")
        row = {"start_us": at_us, "joules": 0.0, "held_s": 0.0, **{name: sample[name] for name in names}}
    state.set("row", {**row, "at_us": at_us, "power_mw": sample["power_mw"]})
    return ended


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--prefix", "--prices", "--database"):
        parser.add_argument(name, required=True)
    asked = parser.parse_args()
    app = Application(
        broker_address=asked.bootstrap,
        consumer_group=f"{asked.prefix}quix",
        auto_offset_reset="earliest",
        state_dir=f"{asked.database}-state",
        loglevel="WARNING",
    )
    samples = app.dataframe(app.topic(f"{asked.prefix}samples")).set_timestamp(event_time)
    jobs = app.dataframe(app.topic(f"{asked.prefix}jobs")).set_timestamp(event_time)
    usage = samples.join_asof(jobs, how="left", on_merge=with_job, grace_ms=timedelta(days=7))
    rows = usage.apply(meter, stateful=True, expand=True).update(Prices(asked.prices).price)
    rows.sink(ClickHouseSink(asked.database))
    app.run()


if __name__ == "__main__":
    main()
