"""What a user would write instead of `wattledger audit`: the same sums over the same files, straight in pandas.

    python benchmarks/audit_pandas.py SACCT INVOICES OUT

It has no tariff by the hour, no proration, no rejects, no report: held GPU-hours, cost, billed and margin by account,
and idle hours by node. That is what it is measured for, beside what it leaves out.
"""

import json
import sys
from pathlib import Path

import pandas as pd

PERIOD = (pd.Timestamp("2026-10-01", tz="UTC"), pd.Timestamp("2026-11-01", tz="UTC"))
PER_GPU_HOUR, BUSY_KW, PUE, PER_KWH = 1.60, 0.61, 1.25, 0.144
GPUS_PER_NODE = 8


def main(sacct: Path, invoices: Path, out: Path) -> None:
    """Read, sum, write."""
    jobs = pd.read_csv(sacct, sep="|", dtype=str)
    start = pd.to_datetime(jobs["Start"], format="%Y-%m-%dT%H:%M:%S%z", utc=True).clip(*PERIOD)
    end = pd.to_datetime(jobs["End"], format="%Y-%m-%dT%H:%M:%S%z", utc=True).clip(*PERIOD)
    gpus = jobs["AllocTRES"].str.extract(r"gres/gpu=(\d+)")[0].fillna("0").astype(int)
    jobs["gpu_hours"] = (end - start).dt.total_seconds() / 3600 * gpus
    paid = jobs[jobs["State"] != "NODE_FAIL"].groupby("Account")["gpu_hours"].sum()
    billed = pd.read_csv(invoices).groupby("tenant")["amount"].sum()
    table = pd.DataFrame({"gpu_hours": paid, "billed": billed}).fillna(0)
    table["cost"] = table["gpu_hours"] * (PER_GPU_HOUR + BUSY_KW * PUE * PER_KWH)
    table["margin"] = table["billed"] - table["cost"]
    month = (PERIOD[1] - PERIOD[0]).total_seconds() / 3600 * GPUS_PER_NODE
    idle = month - jobs.groupby("NodeList")["gpu_hours"].sum()
    out.write_text(
        json.dumps({"tenants": table.round(6).to_dict("index"), "idle_gpu_hours": idle.round(6).to_dict()}, indent=1)
    )


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:4]))
