"""A batch job in ClickHouse: JSON samples loaded in blocks, then one INSERT SELECT with an as-of join and windows.

    python batch_sql.py --bootstrap HOST:PORT --prefix P --prices FILE --database FOLDER

Loads until it has caught up, then turns what is new into one row a device, job and minute, in floats. Right as long as
every job is known before the job runs: nothing is corrected afterwards.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import clickhouse_connect
from confluent_kafka import Consumer, KafkaError

BLOCK = 50_000
TABLES = (
    """CREATE TABLE IF NOT EXISTS samples (node LowCardinality(String), device LowCardinality(String), at_us Int64,
    power_mw Int32, energy_uj Int64, busy_ppm Int32, memory_bytes Int64) ENGINE = MergeTree ORDER BY (device, at_us)""",
    """CREATE TABLE IF NOT EXISTS jobs (kind LowCardinality(String), device LowCardinality(String), job String,
    tenant LowCardinality(String), at_us Int64) ENGINE = MergeTree ORDER BY (device, at_us)""",
    """CREATE TABLE IF NOT EXISTS prices (start_us Int64, eur_per_kwh Float64) ENGINE = MergeTree ORDER BY start_us""",
    """CREATE TABLE IF NOT EXISTS usage (start_us Int64, device LowCardinality(String), job String,
    tenant LowCardinality(String), joules Float64, held_s Float64, energy_eur Float64, compute_eur Float64,
    inserted_at DateTime64(6) DEFAULT now64(6)) ENGINE = MergeTree ORDER BY (tenant, start_us, device)""",
)
JOB = """
INSERT INTO usage (start_us, device, job, tenant, joules, held_s, energy_eur, compute_eur)
WITH steps AS (
    SELECT device, at_us, power_mw, leadInFrame(at_us) OVER following AS next_us,
        leadInFrame(power_mw) OVER following AS next_mw
    FROM samples WHERE at_us >= {done_us:Int64}
    WINDOW following AS (PARTITION BY device ORDER BY at_us ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)
), minutes AS (
    SELECT min(steps.at_us) AS start_us, steps.device AS device, if(jobs.kind = 'start', jobs.job, '') AS job,
        if(jobs.kind = 'start', jobs.tenant, 'idle') AS tenant,
        sum((power_mw + next_mw) / 2000 * (next_us - steps.at_us) / 1e6) AS joules,
        sum((next_us - steps.at_us) / 1e6) AS held_s
    FROM steps ASOF LEFT JOIN jobs ON steps.device = jobs.device AND steps.at_us >= jobs.at_us
    WHERE next_us > 0
    GROUP BY device, job, tenant, intDiv(steps.at_us, 60000000)
)
SELECT minutes.start_us, device, job, tenant, joules, held_s, joules / 3.6e6 * eur_per_kwh,
    held_s * {eur_per_device_hour:Float64} / 3600
FROM minutes INNER JOIN prices ON intDiv(minutes.start_us, 3600000000) = intDiv(prices.start_us, 3600000000)
"""


def blocks(consumer: Consumer, topic: str) -> Any:
    """JSON lines in blocks; an empty one whenever all partitions are read to their end."""
    partitions = len(consumer.list_topics(topic).topics[topic].partitions)
    lines: list[bytes] = []
    at_end: set[int] = set()
    while True:
        for message in consumer.consume(10_000, 0.2):
            error = message.error()
            if error is None:
                lines.append(message.value() or b"")
                at_end.discard(message.partition() or 0)
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition() or 0)
        if len(lines) >= BLOCK or (lines and len(at_end) == partitions):
            yield b"\n".join(lines)
            lines = []
            if len(at_end) == partitions:
                yield b""


def consume(asked: argparse.Namespace, name: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": asked.bootstrap,
            "group.id": asked.prefix + "batch",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([asked.prefix + name])
    return consumer


def load(database: Any, consumer: Consumer, topic: str, table: str) -> None:
    """Insert until caught up."""
    for block in blocks(consumer, topic):
        if not block:
            return
        database.raw_insert(table, insert_block=block, fmt="JSONEachRow")


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--prefix", "--prices", "--database"):
        parser.add_argument(name, required=True)
    asked = parser.parse_args()
    prices = json.loads(Path(asked.prices).read_text())
    database: Any = clickhouse_connect.get_client(interface="chdb", path=asked.database)
    for table in TABLES:
        database.command(table)
    energy = [[hour["start_us"], hour["eur_per_kwh"]] for hour in prices["energy"]]
    database.insert("prices", energy, ["start_us", "eur_per_kwh"])
    jobs = consume(asked, "jobs")
    load(database, jobs, asked.prefix + "jobs", "jobs")
    jobs.close()
    samples = consume(asked, "samples")
    done_us = 0
    while True:
        load(database, samples, asked.prefix + "samples", "samples")
        given = {"done_us": done_us, "eur_per_device_hour": prices["eur_per_device_hour"]}
        database.command(JOB, parameters=given)
        done_us = database.query("SELECT max(at_us) FROM samples").result_rows[0][0]
        samples.commit(asynchronous=False)


if __name__ == "__main__":
    main()
