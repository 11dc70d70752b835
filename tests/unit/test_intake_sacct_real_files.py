"""Real sacct dumps without headers: job times, CPU-hours and totals as the expected files beside them say."""

import csv
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from wattledger_audit.intake.slurm_run import cpu_us, held_us
from wattledger_audit.intake.slurm_time import duration_us
from wattledger_audit.intake.source import open_source
from wattledger_audit.intake.usage_sacct import IMPORTERS

from tests.sacct_reading import S, read_file

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "slurm"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the recorded dumps are not there: {DATA}")
(SACCT,) = IMPORTERS
DUMPS = [
    # file, jobs, CPU seconds, rejections by code
    ("array_sacct-output.txt", 8, 2408, {"step_of_job": 8, "comment": 3, "blank_line": 1}),
    ("issues_17_sacct-output.txt", 2, 14888, {"step_of_job": 2, "comment": 4, "blank_line": 3}),
    ("issues_59_sacct-output.txt", 1, 1232, {"step_of_job": 1, "blank_line": 1}),
    ("issues_5_sacct-output.txt", 1, 0, {"comment": 6, "blank_line": 2}),
    ("multi-node_sacct-output.txt", 1, 1204, {"step_of_job": 1, "comment": 2, "blank_line": 1}),
    ("sacct-output-v1.txt", 483, 95925, {"step_of_job": 395}),
]


def stamp_us(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp()) * S


def clock_us(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    return int(timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds)).total_seconds()) * S


@pytest.mark.parametrize(("name", "jobs", "cpu_s", "codes"), DUMPS)
def test_every_line_of_a_dump_is_a_job_or_is_listed(name: str, jobs: int, cpu_s: int, codes: dict[str, int]) -> None:
    read = read_file(SACCT, DATA / name)
    assert len(read.runs) == jobs
    assert {code: read.codes.count(code) for code in read.codes} == codes
    assert sum(cpu_us(run) or 0 for run in read.runs) == cpu_s * S
    assert len(read.runs) + len(read.rejected) == len((DATA / name).read_text().splitlines())


@pytest.mark.parametrize("name", [dump[0] for dump in DUMPS])
def test_each_job_held_as_long_and_as_much_cpu_as_its_row_says(name: str) -> None:
    rows = [line.split("|") for line in (DATA / name).read_text().splitlines() if line[:1].isupper()]
    jobs = [row for row in rows if "." not in row[1]]
    runs = read_file(SACCT, DATA / name).runs
    assert [(run.job, held_us(run) or 0, cpu_us(run) or 0, run.marks) for run in runs] == [
        (row[1], duration_us(row[9]), duration_us(row[21]), ()) for row in jobs
    ]


@pytest.mark.parametrize("name", ["array", "issues_59", "multi-node"])
def test_jobs_are_those_of_the_expected_file(name: str) -> None:
    with (DATA / f"{name}_exp_jobs.csv").open(newline="") as file:
        expected = list(csv.DictReader(file))
    runs = read_file(SACCT, DATA / f"{name}_sacct-output.txt").runs
    assert [
        (run.job, run.cpus, run.submit_us, run.eligible_us, run.start_us, run.end_us, held_us(run)) for run in runs
    ] == [
        (
            row["job_id"],
            int(row["num_cores"]),
            stamp_us(row["submit_time"]),
            stamp_us(row["eligible_time"]),
            stamp_us(row["start_time"]),
            stamp_us(row["finish_time"]),
            clock_us(row["run_time"]),
        )
        for row in expected
    ]
    assert sum(cpu_us(run) or 0 for run in runs) == sum(
        clock_us(row["run_time"]) * int(row["num_cores"]) for row in expected
    )


def test_the_layout_proves_itself_and_says_so() -> None:
    for name, *_ in DUMPS:
        found = SACCT.detect(open_source(DATA / name))
        assert found is not None
        assert (found.score, "one by one" in found.why) == (85, True)


def test_a_node_failure_counts_once_and_a_cancelled_or_pending_job_not_at_all() -> None:
    failed = read_file(SACCT, DATA / "issues_59_sacct-output.txt").run()
    assert (failed.state, failed.partition, held_us(failed)) == ("NODE_FAIL", "us-east-1a_all", 1232 * S)
    pending = read_file(SACCT, DATA / "issues_5_sacct-output.txt").run()
    assert (pending.state, pending.start_us, pending.end_us) == ("PENDING", None, None)
    cancelled = read_file(SACCT, DATA / "issues_17_sacct-output.txt").runs[1]
    assert (cancelled.state, cancelled.start_us, held_us(cancelled)) == ("CANCELLED", None, 0)
