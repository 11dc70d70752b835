"""A month of a busy cluster as files: `sacct -P` rows, invoices and a cost file, sized by the number of rows.

The same numbers of rows give the same bytes. Times are UTC with an offset, so nothing has to be settled by a flag.
"""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

HEADER = (
    "JobIDRaw|JobID|Cluster|Account|User|UID|Partition|QOS|WCKey|Submit|Eligible|Start|End|ElapsedRaw|Suspended|State|"
    "ExitCode|Restarts|NNodes|NodeList|ReqTRES|AllocTRES|JobName"
)
START = datetime(2026, 10, 1, tzinfo=UTC)
MONTH_S = 31 * 86_400
GPUS = 8
TENANTS = 60
RATE_CENTS = 220
STATES = ("COMPLETED",) * 16 + ("FAILED", "TIMEOUT", "CANCELLED by 1001", "NODE_FAIL")


@dataclass(frozen=True, slots=True)
class MonthFiles:
    """Where the three files are, and how many job rows there are."""

    usage: Path
    billing: Path
    costs: Path
    rows: int


def _stamp(second: int) -> str:
    return (START + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S+0000")


def write_month(folder: Path, rows: int, seed: int = 7) -> MonthFiles:
    """Write the files; a node takes about 8,000 rows, so the fleet grows with the rows as a real one would."""
    pick = random.Random(seed)
    nodes = max(rows // 8_000, 1)
    folder.mkdir(parents=True, exist_ok=True)
    files = MonthFiles(folder / "sacct.txt", folder / "invoices.csv", folder / "costs.yaml", rows)
    held_s = [0] * TENANTS
    with files.usage.open("w", encoding="utf-8") as out:
        out.write(HEADER + "\n")
        job, per_slot = 1000, rows // (nodes * GPUS)
        for node in range(nodes):
            for slot in range(GPUS):
                count = per_slot if (node, slot) != (nodes - 1, GPUS - 1) else rows - (job - 1000)
                job = _slot(out, pick, f"gpu{node + 1:04d}", job, count, held_s)
    _write_invoices(files.billing, held_s)
    files.costs.write_text(
        "currency: USD\ntimezone: UTC\nfleet:\n"
        f'  - {{node: "gpu[0001-{nodes:04d}]", gpu_model: H100, gpus: {GPUS}, site: fra}}\n'
        "compute:\n  - {gpu_model: H100, per_gpu_hour: 1.60}\n"
        "energy:\n  site: fra\n  timezone: Europe/Berlin\n  pue: 1.25\n  default_per_kwh: 0.12\n  periods:\n"
        '    - {days: mon..fri, from: "08:00", to: "20:00", per_kwh: 0.21}\n'
        "power:\n  - {gpu_model: H100, busy_w: 610, idle_w: 75}\n"
    )
    return files


def _slot(out: object, pick: random.Random, node: str, job: int, count: int, held_s: list[int]) -> int:
    at, mean = 0, MONTH_S // max(count, 1)
    write = out.write  # type: ignore[attr-defined]
    for _ in range(count):
        wait, lasts = pick.randrange(1, max(mean // 6, 2)), pick.randrange(max(mean // 2, 1), max(mean, 2))
        start, end = at + wait, min(at + wait + lasts, MONTH_S)
        start = min(start, end)
        tenant = pick.randrange(TENANTS)
        state = STATES[pick.randrange(len(STATES))]
        if state != "NODE_FAIL":
            held_s[tenant] += end - start
        stamps = "|".join((_stamp(max(start - 300, 0)), _stamp(max(start - 290, 0)), _stamp(start), _stamp(end)))
        write(
            f"{job}|{job}|c1|acct{tenant:02d}|user{tenant}|{1000 + tenant}|gpu|normal||{stamps}|{end - start}|00:00:00|"
            f"{state}|0:0|0|1|{node}|billing=16,cpu=12,gres/gpu=1,mem=100G,node=1|"
            f"billing=16,cpu=12,gres/gpu=1,gres/gpu:h100=1,mem=100G,node=1|train_{job % 97}\n"
        )
        job += 1
        at = end
    return job


def _write_invoices(path: Path, held_s: list[int]) -> None:
    """One line a tenant and day-third of the month; every tenth tenant is billed 5 % short, every 17th not at all."""
    lines = ["invoice_id,tenant,period_start,period_end,sku,quantity,unit,amount,currency"]
    for tenant, seconds in enumerate(held_s):
        if tenant % 17 == 16:
            continue
        hours = seconds / 3600 * (0.95 if tenant % 10 == 9 else 1)
        lines.append(
            f"INV-{tenant:03d},acct{tenant:02d},2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,H100 on-demand,{hours:.2f},"
            f"GPU-hours,{hours * RATE_CENTS / 100:.2f},USD"
        )
    path.write_text("\n".join(lines) + "\n")
