"""The contestants that are one program each, and what each of them is fed."""

import sys
from pathlib import Path

from wattledger_audit.broker import Broker

from benchmarks.ingestion.as_records import sample_records
from benchmarks.ingestion.as_samples import sample_messages
from benchmarks.ingestion.day import Day
from benchmarks.ingestion.machine import BENCH_VENV
from benchmarks.ingestion.outcome import Missing, Outcome
from benchmarks.ingestion.program import Feed, Program, run_program

ROOT = Path(__file__).resolve().parents[2]
RIVALS = BENCH_VENV / "bin" / "python"
SCHEMAS = ROOT / "schemas/wattledger_schemas/avro"
SCHEMA = SCHEMAS / "sample_batch" / "v2.avsc"

OUTPUT = ("usage-lines", "tenant-cost")
FLOOR = "the records WattLedger reads; no ids, corrections, quality marks, states of capacity or idempotence"
LEDGER = "the floor, with WattLedger's records in two topics and every column of its tables; rows are usage lines"
APP = "JSON, one record a sample; late jobs change nothing, and after a crash samples may count twice"
BATCH = "JSON, one record a sample, loaded and then joined; jobs and prices that come later change nothing"


def run_floor(day: Day, broker: Broker, work_dir: Path) -> Outcome:
    """`floor_numpy.py`, over the same batched records that WattLedger reads."""
    python = Path(sys.executable)
    program = Program(
        "floor", "floor_numpy.py", python, "floor", "gpu-samples", more=("--schema", str(SCHEMA)), note=FLOOR
    )
    return run_program(program, day, broker, work_dir, _batched(day))


def run_floor_ledger(day: Day, broker: Broker, work_dir: Path) -> Outcome:
    """`floor_ledger.py`: the floor's loop, and WattLedger's output."""
    more = ("--schemas", str(SCHEMAS))
    python = Path(sys.executable)
    program = Program(
        "floor-ledger", "floor_ledger.py", python, "floor-ledger", "gpu-samples", more=more, writes=OUTPUT, note=LEDGER
    )
    return run_program(program, day, broker, work_dir, _batched(day))


def _batched(day: Day) -> Feed:
    """The records that WattLedger reads."""
    plan = day.plan
    return Feed(sample_records(day, 0, plan.warm_s), sample_records(day, plan.warm_s, plan.end_s))


def run_faust(day: Day, broker: Broker, work_dir: Path) -> Outcome:
    """`rival_faust.py`, over one JSON record a sample."""
    more = ("--partitions", str(day.plan.partitions))
    program = Program("faust", "rival_faust.py", _rivals(), "faust", "samples", follows_jobs=True, more=more, note=APP)
    return run_program(program, day, broker, work_dir, _json(day))


def run_quixstreams(day: Day, broker: Broker, work_dir: Path) -> Outcome:
    """`rival_quixstreams.py`, over one JSON record a sample."""
    program = Program("quixstreams", "rival_quixstreams.py", _rivals(), "quix", "samples", follows_jobs=True, note=APP)
    return run_program(program, day, broker, work_dir, _json(day))


def _json(day: Day) -> Feed:
    """A sample a second at both ends of every interval: the last of the warm-up begins what is measured."""
    plan = day.plan
    return Feed(sample_messages(day, 0, plan.warm_s), sample_messages(day, plan.warm_s + 1, plan.end_s))


def _rivals() -> Path:
    if not RIVALS.exists():
        raise Missing(f"{RIVALS.relative_to(ROOT)} is not there: `make bench` makes it")
    return RIVALS


def run_batch_sql(day: Day, broker: Broker, work_dir: Path) -> Outcome:
    """`batch_sql.py`, over one JSON record a sample."""
    program = Program("batch-sql", "batch_sql.py", Path(sys.executable), "batch", "samples", note=BATCH)
    return run_program(program, day, broker, work_dir, _json(day))
