"""What was aimed for beside what the parts of `make bench` measured: one table from their JSON.

    python benchmarks/targets.py FOLDER [--markdown PATH]

A missed target is said, and is no error: whoever runs this on another machine wants to see its numbers.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.ingestion.target import Row

Parts = dict[str, Any]
WALL_TARGET, WALL_AIM = 250_000, 500_000
CORE_TARGET = 2_000_000
FAUST, QUIX, FLOOR = 50, 20, 3
MARGIN_S, RESTART_S = 1.0, 10.0


def from_core(core: Parts) -> Iterator[Row]:
    rate = core["samples_per_s"]
    yield Row(
        f"core, one core, 8 devices × {core['ticks_per_record']} ticks: at least {CORE_TARGET:,} samples/s",
        f"{rate:,}",
        rate >= CORE_TARGET,
    )


def from_ingest(ingest: Parts) -> Iterator[Row]:
    """Ratios are of samples per CPU-second of the contestants' own processes, the broker apart."""
    rows = {row["name"]: row for row in ingest["rows"]}
    rate = rows["wattledger"]["samples_per_s"]
    yield Row(
        f"Kafka to rows in ClickHouse: at least {WALL_TARGET:,} samples/s, aiming at {WALL_AIM:,}",
        f"{rate:,}",
        rate >= WALL_TARGET,
    )
    for name, least in (("faust", FAUST), ("quixstreams", QUIX)):
        if name in rows:
            ratio = rows[name]["wattledger_over_per_cpu_s"]
            yield Row(f"at least {least} × {name}, per CPU-second", f"{ratio:.1f} ×", ratio >= least)
    for name, what in (("floor", "the confluent-kafka and NumPy floor"), ("floor-ledger", "the floor with our rows")):
        if name in rows:
            times = 1 / rows[name]["wattledger_over_per_cpu_s"]
            yield Row(f"within {FLOOR} × of {what}, per CPU-second", f"{times:.1f} ×", times <= FLOOR)


def from_growth(growth: Parts) -> Iterator[Row]:
    return (Row(**row) for row in growth["targets"])


def from_month(month: Parts) -> Iterator[Row]:
    one = month["month"]
    margin = one["questions"][0]
    shape = f"{one['gpus']:,} GPUs, {one['days']} days"
    yield Row(
        f"{margin['question']}, {shape}: under {MARGIN_S:g} s",
        f"{margin['fetched_s']:.2f} s, {margin['engine']['seconds']:.2f} s in the engine",
        margin["fetched_s"] < MARGIN_S,
    )


def from_restart(restart: Parts) -> Iterator[Row]:
    for run in restart["runs"]:
        worst: dict[str, float] = {}
        for one in run["restarts"]:
            worst[one["worker"]] = max(worst.get(one["worker"], 0.0), one["first_s"])
        shown = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in worst.items())
        target = f"restart to first row, session timeout {run['session_timeout_s']:g} s: under {RESTART_S:g} s"
        yield Row(target, shown, max(worst.values()) < RESTART_S)


def from_agent(agent: Parts) -> Iterator[Row]:
    return (Row(**row) for row in agent["targets"])


READERS = {
    "core": from_core, "ingest": from_ingest, "growth": from_growth, "month": from_month, "restart": from_restart,
    "agent": from_agent,
}  # fmt: skip


def table(folder: Path) -> str:
    """Markdown. A part without its file is named as not run."""
    lines = ["| target | measured | |", "|---|---|---|"]
    missing = []
    for part, read in READERS.items():
        path = folder / f"{part}.json"
        if not path.exists():
            missing.append(part)
            continue
        for row in read(json.loads(path.read_text())):
            lines.append(f"| {row.target} | {row.measured} | {'**missed**' if row.met is False else row.verdict} |")
    lines += [f"\nNot run: {', '.join(missing)}."] if missing else []
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the parts wrote their JSON")
    parser.add_argument("--markdown", type=Path, help="write it there too")
    asked = parser.parse_args()
    text = table(asked.folder)
    print(text)
    if asked.markdown:
        asked.markdown.write_text(text)


if __name__ == "__main__":
    main()
