"""Known mistakes of programs that read SLURM's accounting (cases A1 to A34), as files with the right figures.

Each case was reported against a public project; the comment names it. Dumps stand in tests/slurm_cases.py.
"""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused

from tests.audit_cases import DAY, costs, events, fleet, found, hours, machine, own_costs
from tests.audit_runner import audit_texts, unexplained
from tests.case_files import BERLIN, PLAIN, UTC, at, gpu_seconds, ids_in_words, ids_of, read_case
from tests.slurm_cases import CASES, Case, job, sacct

ALL_CASES = {
    "A1", "A2", "A4", "A6", "A7", "A9", "A10", "A11", "A12", "A13", "A15", "A16", "A18", "A20", "A21", "A22", "A23",
    "A26", "A28", "A29", "A31", "A33", "A34",
}  # fmt: skip
NOT_ABOUT_FILES = {
    "A20": "a suspended job that leaves no row can only be seen by a live sampler; a file has nothing to read",
}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_dump_gives_the_right_runs(tmp_path: Path, case: Case) -> None:
    told = read_case(tmp_path, "jobs.txt", case.text, case.options)
    found_runs = [(run.job, run.state, run.gpus, gpu_seconds(run)) for run in told.runs]
    assert (told.taken_as, found_runs, told.codes) == (case.taken_as, case.runs, list(case.codes))


REFUSED = [
    # ceems 432
    ("A23-local-stamps-and-no-zone", sacct(job()), "--timezone"),
    ("A23-in-a-table-of-ones-own", "job_id,tenant,node,gpus,start,end\n7,acme,g1,2,2026-03-02 10:00,2026-03-02 11:00\n",
     "--timezone"),
    # OSC ondemand 938
    ("A29-a-dump-that-is-an-error", "sacct: fatal: ReqGRES is deprecated, please use ReqTRES\n", "ReqGRES"),
    ("A29-a-window-that-ends-before-it-starts",
     "sacct: error: Start time (2022-01-10T00:00:00) requested is after end time (2022-01-09T19:00:00).\n", "after"),
    ("A29-an-answer-that-is-an-error",
     '{"meta":{"Slurm":{"release":"24.05"}},"jobs":[],"errors":[{"description":"Invalid option","error_number":1}]}\n',
     "Invalid option"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_dump_that_can_not_be_read_says_why(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        read_case(tmp_path, "jobs.txt", text)


def test_types_of_one_job_keep_their_models(tmp_path: Path) -> None:
    """A9."""
    row = job(tres="cpu=10,gres/gpu:a100=1,gres/gpu:v100=4,node=1")
    runs = read_case(tmp_path, "jobs.txt", sacct(row), UTC).runs
    assert [(run.gpu_model, run.gpus) for run in runs] == [("a100", 1), ("v100", 4)]


SUSPENDED = [
    # -T makes an end of the window's end and leaves the suspension in the elapsed time: an hour was held, not two
    ("A21-clipped-by-T-while-it-was-suspended", "2026-03-02T12:00:00", "7200", "01:00:00", "SUSPENDED", 7200),
    # without -T: suspended time lies inside, elapsed leaves it out
    ("A21-resumed-and-ended", "2026-03-02T13:00:00", "7200", "01:00:00", "COMPLETED", 14400),
    ("A21-with-days-of-suspension", "2026-03-05T10:00:00", "86400", "2-00:00:00", "TIMEOUT", 172800),
    ("A21-still-suspended-has-no-end", "Unknown", "3600", "01:00:00", "SUSPENDED", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("end", "elapsed", "suspended", "state", "held"), [case[1:] for case in SUSPENDED], ids=[c[0] for c in SUSPENDED]
)
def test_suspended_time_is_not_held(
    tmp_path: Path, end: str, elapsed: str, suspended: str, state: str, held: int | None
) -> None:
    told = read_case(
        tmp_path, "jobs.txt", sacct(job("7", end=end, elapsed=elapsed, suspended=suspended, state=state)), UTC
    )
    assert gpu_seconds(told.run()) == held
    assert ("elapsed_disagrees" in told.run().marks) == (end == "2026-03-02T12:00:00")


ZONES = [
    # sonar 430: 22:16 in September is summer time in Berlin, +02:00
    ("A22-summer-time-in-september", "2025-09-07T22:16:06", "2025-09-07T23:16:06", BERLIN, "2025-09-07T20:16:06+00:00"),
    ("A22-winter-time-in-december", "2025-12-07T22:16:06", "2025-12-07T23:16:06", BERLIN, "2025-12-07T21:16:06+00:00"),
    ("A22-the-same-clock-read-as-utc", "2025-09-07T22:16:06", "2025-09-07T23:16:06", UTC, "2025-09-07T22:16:06+00:00"),
    ("A23-offsets-in-the-stamps", "2025-09-07T22:16:06+0200", "2025-09-07T23:16:06+0200", PLAIN,
     "2025-09-07T20:16:06+00:00"),
    ("A23-offsets-behind-fractions", "2025-09-07T22:16:06.500000+02:00", "2025-09-07T23:16:06.500000+02:00", PLAIN,
     "2025-09-07T20:16:06.500000+00:00"),
    ("A23-epochs", "1757276166", "1757279766", PLAIN, "2025-09-07T20:16:06+00:00"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("start", "end", "options", "instant"), [case[1:] for case in ZONES], ids=[case[0] for case in ZONES]
)
def test_a_stamp_is_the_instant_that_its_zone_says(
    tmp_path: Path, start: str, end: str, options: ReadOptions, instant: str
) -> None:
    run = read_case(tmp_path, "jobs.txt", sacct(job(start=start, end=end, submit=start)), options).run()
    assert (run.start_us, run.marks, gpu_seconds(run)) == (at(instant), (), Fraction(7200))


DISAGREE = [
    ("A22-an-hour-off", "2026-03-02T11:00:00", "7200", True),
    ("A22-two-seconds-off", "2026-03-02T11:00:00", "3602", True),
    ("A22-one-second-off", "2026-03-02T11:00:00", "3601", False),
]


@pytest.mark.parametrize(("end", "elapsed", "marked"), [case[1:] for case in DISAGREE], ids=[c[0] for c in DISAGREE])
def test_an_elapsed_time_that_disagrees_is_flagged(tmp_path: Path, end: str, elapsed: str, marked: bool) -> None:
    run = read_case(tmp_path, "jobs.txt", sacct(job(end=end, elapsed=elapsed)), UTC).run()
    assert (run.marks, gpu_seconds(run)) == (("elapsed_disagrees",) if marked else (), Fraction(7200))


TIMES = '"time":{"submission":1772442000,"eligible":1772442000,"start":1772445600,"end":1772449200,"elapsed":3600}'
ELAPSED = TIMES.replace("3600", '{"set":true,"infinite":false,"number":3600}')
TRES = '[{"type":"cpu","name":"","id":1,"count":8},{"type":"gres","name":"gpu","id":1001,"count":2}]'
JSON_SHAPES = [
    # jobperf 4, airavata-custos 534, slurm's change logs
    ("A31-plain-values-of-old-releases",
     f'{{"jobs":[{{"job_id":7,"account":"acme","state":{{"current":"COMPLETED","reason":"None"}},"nodes":"g[1-2]",{TIMES},'
     f'"tres":{{"allocated":{TRES},"requested":{TRES}}},"array":{{"job_id":0,"task_id":null}}}}]}}'),
    ("A31-structs-and-lists-of-new-releases",
     f'{{"meta":{{"slurm":{{"release":"24.11"}}}},"jobs":[{{"job_id":7,"account":"acme","state":{{"current":["COMPLETED"],'
     f'"reason":"None"}},"nodes":"g1,g2",{ELAPSED},'
     f'"array":{{"job_id":0,"task_id":{{"set":false,"infinite":false,"number":0}}}},"het":null,"comment":null,'
     f'"tres":{{"allocated":{TRES},"requested":null}}}}]}}'),
    ("A31-nodes-as-an-object",
     '{"jobs":[{"job_id":7,"account":"acme","job_state":["COMPLETED"],"job_resources":{"nodes":{"list":"g1,g2","count":2}},'
     '"nodes":"g1,g2","submit_time":{"set":true,"infinite":false,"number":1772442000},'
     '"start_time":{"set":true,"infinite":false,"number":1772445600},'
     '"end_time":{"set":true,"infinite":false,"number":1772449200},"tres_alloc_str":"cpu=8,gres/gpu=2,node=2"}]}'),
    ("A31-numbers-in-quotes-and-no-array",
     '{"jobs":[{"job_id":"7","account":"acme","state":"COMPLETED","nodes":{"nodes":"g[1-2]"},"time":{"start":"1772445600",'
     f'"end":"1772449200","elapsed":"3600"}},"tres":{{"allocated":{TRES}}}}}]}}'),
]  # fmt: skip


@pytest.mark.parametrize("text", [case[1] for case in JSON_SHAPES], ids=[case[0] for case in JSON_SHAPES])
def test_every_shape_of_a_json_job_is_the_same_run(tmp_path: Path, text: str) -> None:
    told = read_case(tmp_path, "jobs.json", text)
    run = told.run()
    assert told.taken_as == "sacct-json"
    assert (run.job, run.tenant, run.state, run.nodes) == ("7", "acme", "COMPLETED", ("g1", "g2"))
    assert (run.start_us, run.end_us, gpu_seconds(run)) == (1772445600_000000, 1772449200_000000, Fraction(7200))


def test_a_waiting_request_in_squeue_json_is_no_account_without_gpus(tmp_path: Path) -> None:
    """A11: what was asked per node says nothing; what is allocated does."""
    text = (
        '{"jobs":[{"job_id":7,"account":"acme","job_state":["RUNNING"],"tres_per_node":"N/A","nodes":"g1",'
        '"start_time":{"set":true,"number":1772445600},"end_time":{"set":true,"number":1772999999},'
        '"submit_time":{"set":true,"number":1772445000},"tres_alloc_str":"cpu=2,mem=512M,node=1,gres/gpu=1"}]}'
    )
    run = read_case(tmp_path, "squeue.json", text).run()
    assert (run.tenant, run.gpus, run.start_us, run.end_us) == ("acme", 1, 1772445600_000000, None)


def audited_job(number: str, start: int, end: int | None, state: str, gpus: int = 8, tenant: str = "acme") -> str:
    """A row of 10 February 2026 in hours of the day."""
    stop = "Unknown" if end is None else f"2026-02-10T{end:02d}:00:00"
    return (
        f"{number}|hpc|{tenant}|2026-02-10T00:00:00|2026-02-10T{start:02d}:00:00|{stop}|"
        f"{'' if end is None else (end - start) * 3600}|{state}|gres/gpu={gpus}|n1"
    )


AUDITED = "JobIDRaw|Cluster|Account|Submit|Start|End|ElapsedRaw|State|AllocTRES|NodeList"


def test_a_requeued_job_sent_twice_is_two_runs_each_once(tmp_path: Path) -> None:
    """A18 (cc-backend 30): one id in one cluster, two starts; a later dump repeats the first and ends the second."""
    first = sacct(audited_job("5", 0, 2, "REQUEUED"), audited_job("5", 3, None, "RUNNING"), header=AUDITED)
    later = sacct(audited_job("5", 0, 2, "REQUEUED"), audited_job("5", 3, 4, "COMPLETED"), header=AUDITED)
    files = {"1.txt": first, "2.txt": later, "f.csv": fleet(machine(cluster="hpc")), "costs.yaml": costs()}
    audited = audit_texts(tmp_path, files, DAY, "UTC")
    assert hours(audited) == {"installed": 192, "held": 24, "free": 168}
    assert own_costs(audited) == {"acme": Decimal(24)}


def test_ids_of_two_clusters_are_two_jobs(tmp_path: Path) -> None:
    """A18 in another shape."""
    row = audited_job("5", 0, 2, "COMPLETED")
    text = sacct(row, row.replace("hpc", "ai").replace("n1", "n2"), header=AUDITED)
    audited = audit_texts(tmp_path, {"1.txt": text, "costs.yaml": costs()}, DAY, "UTC")
    assert own_costs(audited) == {"acme": Decimal(32)}


def test_a_runaway_job_ends_when_its_node_was_down(tmp_path: Path) -> None:
    """A33: its end stays unknown for ever; the node was down from 5:00, and later ran somebody else's job."""
    text = sacct(
        audited_job("5", 0, None, "RUNNING"), audited_job("6", 10, 12, "COMPLETED", tenant="bravo"), header=AUDITED
    )
    down = events(("n1", 5, 8, "DOWN")).replace("c|n1", "hpc|n1")
    files = {"1.txt": text, "e.txt": down, "f.csv": fleet(machine(cluster="hpc")), "costs.yaml": costs()}
    audited = audit_texts(tmp_path, files, DAY, "UTC")
    assert own_costs(audited) == {"acme": Decimal(40), "bravo": Decimal(16)}
    assert hours(audited) == {"installed": 192, "held": 56, "unavailable": 24, "free": 112}
    assert found(audited)["hold_on_failed_node"] == 8
    assert unexplained(audited) == []


OVERLAPS = [
    # slurm's change logs of 25.05 and 23.11: two jobs were given one GPU, or a GPU and a shard of it
    ("A34-two-jobs-on-all-gpus-of-a-node", 8, 8, {"acme": Decimal(32), "bravo": Decimal(32)}),
    # four GPUs are shared alike, the other four are the second job's alone
    ("A34-four-and-eight-of-eight", 4, 8, {"acme": Decimal(16), "bravo": Decimal(48)}),
]


@pytest.mark.parametrize(("first", "second", "owed"), [case[1:] for case in OVERLAPS], ids=[c[0] for c in OVERLAPS])
def test_two_claims_on_one_gpu_are_never_more_than_the_gpu(
    tmp_path: Path, first: int, second: int, owed: dict[str, Decimal]
) -> None:
    text = sacct(
        audited_job("5", 0, 8, "COMPLETED", first), audited_job("6", 0, 8, "COMPLETED", second, "bravo"), header=AUDITED
    )
    files = {"1.txt": text, "f.csv": fleet(machine(cluster="hpc")), "costs.yaml": costs()}
    audited = audit_texts(tmp_path, files, DAY, "UTC")
    assert hours(audited) == {"installed": 192, "held": 64, "free": 128}
    assert sum(own_costs(audited).values()) == 64
    assert own_costs(audited) == owed
    assert "overlap" in found(audited)


def test_every_case_has_a_test_or_a_reason() -> None:
    tables = (CASES, REFUSED, SUSPENDED, ZONES, DISAGREE, JSON_SHAPES, OVERLAPS)
    tested = ids_of(*(str(row[0]) for table in tables for row in table)) | ids_in_words(globals())
    assert tested | NOT_ABOUT_FILES.keys() == ALL_CASES
    assert not tested & NOT_ABOUT_FILES.keys()
