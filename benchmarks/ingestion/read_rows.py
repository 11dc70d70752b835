"""Sums by job of a contestant's `usage` table, as JSON: `python read_rows.py FOLDER ANSWER`."""

import json
import sys
from pathlib import Path
from typing import Any

import clickhouse_connect

_BY_JOB = "SELECT job, sum(joules), sum(held_s), sum(energy_eur) FROM usage WHERE job != '' GROUP BY job"
_ALL = "SELECT count(), toUnixTimestamp64Micro(max(inserted_at)) FROM usage"

client: Any = clickhouse_connect.get_client(interface="chdb", path=sys.argv[1])
rows, last_us = client.query(_ALL).result_rows[0]
jobs = {job: sums for job, *sums in client.query(_BY_JOB).result_rows}
Path(sys.argv[2]).write_text(json.dumps({"rows": rows, "last_s": last_us / 1e6, "jobs": jobs}))
