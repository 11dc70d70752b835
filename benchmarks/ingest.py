"""Samples in Kafka to priced rows in ClickHouse: WattLedger beside what others would build, on one generated day.

    python benchmarks/ingest.py [--only wattledger,floor] [--nodes 16] [--minutes 60] [--json PATH] [--markdown PATH]

Each contestant reads the same day from Apache Kafka, must come to the day's sums, and is measured alone: wall time, CPU
of its processes and of the broker, memory. The run fails when one of them does not come to the sums.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), *(str(ROOT / name) for name in ("agent", "audit", "schemas", "sql", "streams"))]

from wattledger_audit.broker import Broker, start_kafka  # noqa: E402

from benchmarks.ingestion import programs, prometheus, wattledger_stack  # noqa: E402
from benchmarks.ingestion.day import Day, Plan  # noqa: E402
from benchmarks.ingestion.machine import machine_facts, rival_facts  # noqa: E402
from benchmarks.ingestion.outcome import Missing, Outcome, as_record, table  # noqa: E402
from tests.fault_harness.stop_signal import leave_on_sigterm  # noqa: E402

LIBS = ROOT / ".cache" / "kafka" / "libs"
CONTESTANTS: dict[str, Callable[[Day, Broker, Path], Outcome]] = {
    "wattledger": wattledger_stack.run,
    "floor": programs.run_floor,
    "floor-ledger": programs.run_floor_ledger,
    "faust": programs.run_faust,
    "quixstreams": programs.run_quixstreams,
    "batch-sql": programs.run_batch_sql,
    "prometheus": prometheus.run,
}
MINUTES = {"floor-ledger": 120, "faust": 2, "quixstreams": 10, "batch-sql": 60, "prometheus": 30}
"""Event time that takes a contestant a reasonable time; the others take all that is asked for."""


def measure(name: str, plan: Plan, folder: Path) -> Outcome:
    """One contestant on a broker of its own, so that none pays for what another left behind."""
    broker = start_kafka(folder / f"{name}-broker", LIBS)
    try:
        return CONTESTANTS[name](Day(plan), broker, folder / name)
    finally:
        broker.stop()


def measure_all(names: list[str], plans: dict[str, Plan]) -> tuple[list[Outcome], list[tuple[str, str]]]:
    """Each in turn; those that can't run here, with the reason."""
    outcomes, left_out = [], []
    with tempfile.TemporaryDirectory() as place:
        for name in names:
            try:
                outcomes.append(measure(name, plans[name], Path(place)))
            except Missing as reason:
                left_out.append((name, str(reason)))
                continue
            print(f"measured {name}: {outcomes[-1].per_cpu_s:,.0f} samples per CPU-second", file=sys.stderr)
    return outcomes, left_out


def plan_of(name: str, asked: argparse.Namespace) -> Plan:
    """The same fleet and jobs for all; the slow ones get fewer minutes of it, for rates are what is compared."""
    minutes = min(asked.minutes, asked.rival_minutes or MINUTES.get(name, asked.minutes))
    return Plan(asked.nodes, asked.devices, asked.ticks_per_record, minutes, asked.partitions, asked.jobs_per_hour)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--devices", type=int, default=8, help="devices a node")
    parser.add_argument("--ticks-per-record", type=int, default=60)
    parser.add_argument("--minutes", type=int, default=480, help="of the day, at one sample a device and second")
    parser.add_argument("--rival-minutes", type=int, help=f"at most, for the slow ones; without it {MINUTES}")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--jobs-per-hour", type=int, default=1, help="jobs a device and hour")
    parser.add_argument("--only", default=",".join(CONTESTANTS), help="contestants, by name, with commas")
    parser.add_argument("--json", type=Path, help="write all of it there")
    parser.add_argument("--markdown", type=Path, help="write facts and table there")
    asked = parser.parse_args()
    leave_on_sigterm()
    names = asked.only.split(",")
    if unknown := set(names) - set(CONTESTANTS):
        parser.error(f"no such contestant: {', '.join(sorted(unknown))}; known: {', '.join(CONTESTANTS)}")
    before = machine_facts()
    plans = {name: plan_of(name, asked) for name in names}
    outcomes, left_out = measure_all(names, plans)
    reference = next((outcome for outcome in outcomes if outcome.name == "wattledger"), None)
    sizes = {name.replace("_", " "): str(value) for name, value in asdict(plans[names[0]]).items()}
    facts = {**before, **rival_facts(), **sizes}
    text = "\n".join([f"- {name}: {value}" for name, value in facts.items()])
    text += f"\n\n{table(outcomes, left_out, reference)}\n"
    print(text)
    if asked.markdown:
        asked.markdown.write_text(text)
    if asked.json:
        rows = [as_record(outcome, reference) for outcome in outcomes]
        asked.json.write_text(json.dumps({"facts": facts, "rows": rows, "left_out": left_out}, indent=1) + "\n")


if __name__ == "__main__":
    main()
