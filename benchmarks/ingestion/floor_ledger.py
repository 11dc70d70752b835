"""The floor with our rows: `floor_numpy.py`'s loop in floats, publishing and inserting what WattLedger's rows say.

    python floor_ledger.py --bootstrap HOST:PORT --prefix P --prices FILE --database FOLDER --schemas FOLDER

The same records to `usage-lines` and `tenant-cost` in Avro, the same columns in ClickHouse, a hash for each id. Still
no corrections, quality, idempotence or proof: what the shape of the output alone costs in Python.
"""

import argparse
import io
import json
import sys
import time
from collections.abc import Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import clickhouse_connect
import fastavro
from confluent_kafka import Producer

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.ingestion.floor_numpy import FLUSH_ROWS, FLUSH_S, Meter, read_jobs, read_samples

Wire = dict[str, Any]
GROUP = "floor-ledger"
TYPES = {"string": "String", "int": "Int32", "long": "Int64", "boolean": "Bool"}
BLANK: dict[str, Any] = {"string": "", "boolean": False}
ARRAYS = {"usage_lines": ("usage_lines", "lines"), "device_totals": ("usage_lines", "totals")}
ARRAYS["cost_rows"] = ("tenant_cost", "rows")
ORDER = {"usage_lines": "line_id", "device_totals": "total_id", "cost_rows": "row_id"}
VIEW = """
CREATE VIEW IF NOT EXISTS usage AS SELECT l.start_us AS start_us, l.device AS device, l.job AS job, l.tenant AS tenant,
    l.energy_uj / 1e6 AS joules, l.span_us / 1e6 AS held_s, toFloat64(c.cost) AS energy_eur,
    l.inserted_at AS inserted_at
FROM usage_lines AS l INNER JOIN cost_rows AS c ON l.line_id = c.line_id
"""


def name_of(*what: object) -> str:
    return blake2b(repr(what).encode(), digest_size=16).hexdigest()


class Ledger:
    """Rows of one record in the shape of WattLedger's, and where they go."""

    def __init__(self, bootstrap: str, prefix: str, database: Path, schemas: Path) -> None:
        read = {name: json.loads((schemas / name / "v1.avsc").read_text()) for name in ("usage_lines", "tenant_cost")}
        self.schemas = {name: fastavro.parse_schema(schema) for name, schema in read.items()}
        self.producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 20})
        self.prefix = prefix
        self.database: Any = clickhouse_connect.get_client(interface="chdb", path=str(database))
        self.columns: dict[str, list[str]] = {}
        self.blank: dict[str, Wire] = {}
        self.rows: dict[str, list[Sequence[Any]]] = {table: [] for table in ARRAYS}
        for table, (subject, array) in ARRAYS.items():
            fields = next(f for f in read[subject]["fields"] if f["name"] == array)["type"]["items"]["fields"]
            self._make(table, {field["name"]: field["type"] for field in fields})
        self.database.command(VIEW)

    def _make(self, table: str, fields: Wire) -> None:
        plain = {name: kind if isinstance(kind, str) else kind[1] for name, kind in fields.items()}
        columns = ", ".join(
            f"`{name}` {TYPES[kind] if isinstance(fields[name], str) else f'Nullable({TYPES[kind]})'}"
            for name, kind in plain.items()
        )
        stamp = "inserted_at DateTime64(6) DEFAULT now64(6)"
        self.database.command(
            f"CREATE TABLE IF NOT EXISTS {table} ({columns}, {stamp}) ENGINE = MergeTree ORDER BY {ORDER[table]}"
        )
        self.columns[table] = list(fields)
        self.blank[table] = {name: BLANK.get(kind, 0) for name, kind in plain.items()}

    def encode(self, subject: str, record: Wire) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self.schemas[subject], record)
        return out.getvalue()

    def add(self, node: str, found: list[tuple[Any, ...]], partition: int, offset: int) -> None:
        """One sample record's rows: to the topics, and gathered for the tables."""
        lines: list[Wire] = []
        totals: dict[str, Wire] = {}
        costs: dict[str, list[Wire]] = {}
        for start_us, device, job, tenant, joules, held_s, energy_eur, _ in found:
            end_us, energy_uj = start_us + round(held_s * 1e6), round(joules * 1e6)
            state = "held" if job else "idle"
            common = {
                "group_start_us": start_us, "group_end_us": end_us, "node": node, "device": device, "sign": 1,
                "entry": "original",
            }  # fmt: skip
            about = {"state": state, "tenant": tenant, "job": job, "start_us": start_us, "end_us": end_us, **common}
            line_id = name_of("line", node, device, job, start_us)
            line = {
                **self.blank["usage_lines"], **about, "line_id": line_id, "kind": "energy",
                "span_us": end_us - start_us, "energy_uj": energy_uj, "method": "power",
            }  # fmt: skip
            lines.append(line)
            total = totals.setdefault(device, {**self.blank["device_totals"], **common, "kind": "energy"})
            total["total_id"] = name_of("total", node, device, offset)
            total["energy_uj"] += energy_uj
            total["measured_us"] += end_us - start_us
            total["partition"], total["offset"] = partition, offset
            cost = {
                **self.blank["cost_rows"], **about, "row_id": name_of("row", line_id, "energy"), "line_id": line_id,
                "component": "energy", "quantity": energy_uj, "unit": "uj", "rate": "0.25", "pue": "1.0",
                "cost": f"{energy_eur:.12f}", "currency": "EUR", "status": "priced",
            }  # fmt: skip
            costs.setdefault(tenant, []).append(cost)
        start_us, end_us = found[0][0], max(line["end_us"] for line in lines)
        head = {"kind": "energy", "node": node, "start_us": start_us, "end_us": end_us, "cause_id": ""}
        place = {"partition": partition, "offset": offset}
        record = {**head, **place, "lines": lines, "totals": list(totals.values()), "discrepancies": []}
        self.produce("usage-lines", node, self.encode("usage_lines", record))
        for tenant, rows in costs.items():
            of_tenant = {"tenant": tenant, "group_start_us": start_us, "group_end_us": end_us, "rows": rows}
            self.produce("tenant-cost", tenant, self.encode("tenant_cost", of_tenant))
        new = {"usage_lines": lines, "device_totals": totals.values(), "cost_rows": chain(*costs.values())}
        for table, given in new.items():
            self.rows[table] += [tuple(row.values()) for row in given]

    def produce(self, topic: str, key: str, value: bytes) -> None:
        self.producer.produce(self.prefix + topic, value, key)
        self.producer.poll(0)

    def flush(self) -> None:
        self.producer.flush()
        for table, rows in self.rows.items():
            self.database.insert(table, rows, self.columns[table])
            rows.clear()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--bootstrap", "--prefix", "--prices", "--database", "--schemas"):
        parser.add_argument(name, required=True)
    asked = parser.parse_args()
    schemas = Path(asked.schemas)
    jobs = read_jobs(asked.bootstrap, asked.prefix + "jobs")
    meter = Meter(jobs, json.loads(Path(asked.prices).read_text()), schemas / "sample_batch" / "v2.avsc")
    ledger = Ledger(asked.bootstrap, asked.prefix, Path(asked.database), schemas)
    consumer = read_samples(asked.bootstrap, asked.prefix, GROUP)
    flushed_s = time.monotonic()
    while True:
        for message in consumer.consume(256, 0.1):
            found = meter.rows(message.value() or b"")
            ledger.add((message.key() or b"").decode(), found, message.partition() or 0, message.offset() or 0)
        waiting = len(ledger.rows["usage_lines"])
        if waiting and (waiting >= FLUSH_ROWS or time.monotonic() - flushed_s >= FLUSH_S):
            ledger.flush()
            consumer.commit(asynchronous=False)
            flushed_s = time.monotonic()


if __name__ == "__main__":
    main()
