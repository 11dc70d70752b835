"""Known mistakes of programs that follow SLURM (cases A1 to A34), as a running agent meets them: its watcher reads what
a site writes, and in the end stands who held what from when to when.

GPU identity and Kubernetes stand in the files beside this one; so do the reports that no running agent can meet.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.live_path import Hold, S
from tests.live_slurm_path import GPUS, LOOK_S, SlurmPath, Span
from tests.slurm_watch_case import RUNNING, T0, sacct_file, sacct_row, scontrol_job

ALL_CASES = {
    "A1", "A2", "A4", "A6", "A7", "A9", "A10", "A11", "A12", "A13", "A15", "A16", "A18", "A20", "A21", "A22", "A23",
    "A26", "A28", "A29", "A31", "A33", "A34", "B1", "B2", "B3", "B4", "B6", "B7", "B8", "B9", "B10", "B11", "B13",
    "C1", "C2", "C3", "C4", "C6", "C7", "C8", "C10", "C12", "C14", "C15", "C17", "C18", "D1", "D2", "D4",
}  # fmt: skip
NOT_LIVE = {
    "C17": "OpenCost's prices of a node and its parts: money is made of what the agent sends, long after it",
}


RAN: Span = ("123", 0, 60, 3660)
PENDING = {
    "State": "PENDING", "Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0", "NodeList": "None assigned",
    "AllocTRES": "",
}  # fmt: skip
ROWS: list[tuple[str, list[dict[str, str]], list[Span], int]] = [
    # case, rows of sacct, runs, GPUs that are held but not known by name
    ("A1-cancelled-before-it-started",
     [{"State": "CANCELLED by 1060117917", "Start": "None", "NodeList": "None assigned", "AllocTRES": ""}], [], 0),
    ("A2-pending", [PENDING], [], 0),
    ("A2-pending-with-the-start-that-is-expected", [{**PENDING, "Start": f"{T0 + 9000}"}], [], 0),
    ("A4-a-name-with-a-newline", [{"JobName": 'srun bash -c "echo hello &&\necho goodbye"'}, {"JobIDRaw": "124"}],
     [RAN, ("124", 0, 60, 3660)], 4),
    ("A6-components-of-a-het-job", [{"JobID": "9380968+0", "JobIDRaw": "9380968"},
                                    {"JobID": "9380968+1", "JobIDRaw": "9380969"}],
     [("9380968", 0, 60, 3660), ("9380969", 0, 60, 3660)], 4),
    ("A7-a-pending-array", [{**PENDING, "JobID": "123456_[9201-10000%500]"}], [], 0),
    ("A9-types-break-the-total-down", [{"AllocTRES": "cpu=10,gres/gpu=1,gres/gpu:a100=1,node=1"}], [RAN], 1),
    ("A9-types-without-a-total", [{"AllocTRES": "gres/gpu:a100=2,gres/gpu:v100=2"}], [RAN], 4),
    ("A10-a-cluster-that-does-not-count-gpus", [{"AllocTRES": "cpu=192,mem=800G,billing=192"}], [RAN], 1),
    ("A11-a-value-that-was-cut", [{"AllocTRES": "cpu=2,mem=512M,node="}], [RAN], 1),
    ("A12-a-type-of-0", [{"AllocTRES": "cpu=1,gres/gpu:titanrtx=0,node=1"}], [RAN], 0),
    ("A15-a-node-that-failed-and-its-step", [{"State": "NODE_FAIL", "End": f"{T0 + 1292}", "ElapsedRaw": "1232"},
                                             {"State": "CANCELLED", "JobID": "123.0", "JobIDRaw": "123.0",
                                              "ExitCode": ""}], [("123", 0, 60, 1292)], 2),
    ("A16-steps-are-no-runs", [{}, {"JobID": "123.batch", "JobIDRaw": "123.batch"},
                               {"JobID": "123.extern", "JobIDRaw": "123.extern"},
                               {"JobID": "123.interactive", "JobIDRaw": "123.interactive"},
                               {"JobID": "123.0", "JobIDRaw": "123.0"}], [RAN], 2),
    ("A18-a-requeued-job-is-two-runs", [{"State": "REQUEUED", "End": f"{T0 + 660}", "ElapsedRaw": "600"},
                                        {"Start": f"{T0 + 1000}", "ElapsedRaw": "2660", "Restarts": "1"}],
     [("123", 0, 60, 660), ("123", 1, 1000, 3660)], 4),
    ("A21-suspended-and-clipped-by-T-has-no-end", [{"State": "SUSPENDED", "Suspended": "00:10:00"}],
     [("123", 0, 60, None)], 2),
    ("A26-what-memory-was-asked-for", [{"ReqTRES": "0n"}, {"JobIDRaw": "124", "ReqTRES": "100Mcd"}],
     [RAN, ("124", 0, 60, 3660)], 4),
    ("A33-a-row-of-no-length", [{"State": "REQUEUED", "End": f"{T0 + 60}", "ElapsedRaw": "0"}], [], 0),
    ("A33-the-same-run-twice", [{}, {**RUNNING}], [RAN], 2),
    ("4294967294-restarts-and-gpus-that-are-none",
     [{"Restarts": "4294967294", "AllocTRES": "cpu=4294967294,mem=18446744073709551614M,gres/gpu=4294967294"}],
     [RAN], 1),
    ("18446744073709551614-gpus-that-are-none", [{"AllocTRES": "cpu=8,gres/gpu=18446744073709551614,node=1"}],
     [RAN], 1),
    ("4294967294-an-end-that-is-none", [{"State": "RUNNING", "End": "4294967294"}], [("123", 0, 60, None)], 2),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "spans", "gpus"), [case[1:] for case in ROWS], ids=[case[0] for case in ROWS])
def test_rows_of_accounting_are_these_runs(
    tmp_path: Path, rows: list[dict[str, str]], spans: list[Span], gpus: int
) -> None:
    path = SlurmPath(tmp_path).write(sacct_file(*(sacct_row(**row) for row in rows)))
    path.look(LOOK_S, LOOK_S + 10)
    assert (path.spans(), path.unknown_gpus()) == (spans, gpus)
    assert set(path.reasons()) <= {"device_unknown_space"}


LENGTHS = [3889, 4473, 6122, 2153]
"""01:04:49, 01:14:33, 01:42:02 and 00:35:53: 16,637 s in all."""


def test_a13_every_requeue_counts(tmp_path: Path) -> None:
    """reportseff 25: two GPUs, four requeues and a run of two hours; by prolog, epilog and accounting together."""
    path, at, rows = SlurmPath(tmp_path), 0, []
    for number, length in enumerate([*LENGTHS, 7200]):
        path.prolog(at + 0.2, restarts=number)
        path.epilog(at + length, restarts=number, started_s=at)
        state = "REQUEUED" if number < 4 else "COMPLETED"
        rows.append(sacct_row(Start=f"{T0 + at}", End=f"{T0 + at + length}", ElapsedRaw=f"{length}", State=state,
                              Restarts=f"{number}"))  # fmt: skip
        at += length + 600
    path.write(sacct_file(*rows), at).look(at + 60, at + 70)
    held = [round(one or 0) for one in path.held_s()]
    assert sorted(held) == sorted(2 * [*LENGTHS, 7200])
    assert sum(held) == 2 * (16_637 + 7200)
    assert path.reasons() == []


def test_a18_rows_that_come_again_change_nothing(tmp_path: Path) -> None:
    """cc-backend 30: a later dump repeats the first."""
    path = SlurmPath(tmp_path)
    rows = [sacct_row(State="REQUEUED", End=f"{T0 + 660}", ElapsedRaw="600"),
            sacct_row(Start=f"{T0 + 1000}", Restarts="1", **RUNNING)]  # fmt: skip
    path.prolog(60.5)
    path.prolog(1000.5, restarts=1)
    path.write(sacct_file(*rows), 1100).look(1200)
    before = path.events()
    path.write(sacct_file(*rows, *rows), 1300).look(1400, 1500)
    assert path.events() == before
    assert [(one.start_s, one.end_s) for one in path.holds()] == 2 * [(60.5, 660)] + 2 * [(1000.5, None)]


def test_a20_a_suspended_job_is_seen_by_looking(tmp_path: Path) -> None:
    """spur 705: no row of accounting has it. Suspended from 600 s to 1,200 s, as the controller's own view shows."""
    path = SlurmPath(tmp_path)
    path.prolog(60)
    for at_s, state in ((300, "RUNNING"), (600, "SUSPENDED"), (900, "SUSPENDED"), (1200, "RUNNING")):
        path.write(scontrol_job(state=state), at_s - 5).look(at_s)
    kinds = [(event["kind"], (event["at_us"] - T0 * S) // S) for event in path.events()]
    assert kinds == [("start", 60), ("suspend", 600), ("resume", 1200)]


ZONES: list[tuple[str, dict[str, str], int, list[Span], list[str]]] = [
    # sonar 430, sas-jobmon 6: 02:30 comes twice on 26 October; the elapsed time tells which
    ("A22-the-hour-that-comes-twice",
     {"Start": "2026-10-25T01:30:00", "End": "2026-10-25T02:30:00", "ElapsedRaw": "7200"}, 2_130_000,
     [("123", 0, 2_115_000, 2_122_200)], []),
    ("A22-which-of-the-two-nobody-says",
     {"Start": "2026-10-25T01:30:00", "End": "2026-10-25T02:30:00", "ElapsedRaw": ""}, 2_130_000,
     [], ["ambiguous_local_time"]),
    ("A22-summer-time", {"Start": "2026-09-30T22:01:00", "End": "2026-09-30T23:01:00"}, 40_000,
     [("123", 0, 28_860, 32_460)], []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "look_s", "spans", "reasons"), [case[1:] for case in ZONES], ids=[case[0] for case in ZONES]
)
def test_local_stamps_are_the_instants_of_their_zone(
    tmp_path: Path, row: dict[str, str], look_s: int, spans: list[Span], reasons: list[str]
) -> None:
    """Berlin; T0 is 30 September 2026, 12:00 UTC, which is 14:00 there."""
    path = SlurmPath(tmp_path, zone="Europe/Berlin")
    path.write(sacct_file(sacct_row(**row)), look_s - 60).look(look_s)
    assert path.spans() == spans
    assert [one for one in path.reasons() if one != "device_unknown_space"] == reasons


def test_a23_a_stamp_without_an_offset_is_refused_and_hides_no_other_row(tmp_path: Path) -> None:
    """ceems 432."""
    path = SlurmPath(tmp_path)
    path.write(sacct_file(sacct_row(Start="2026-09-30T14:01:00"), sacct_row(JobIDRaw="124"))).look(LOOK_S)
    assert path.spans() == [("124", 0, 60, 3660)]
    assert "zone_needed" in path.reasons()
    assert "job 123" in path.details()


@pytest.mark.parametrize("name", [b"f\xfcr", "aàb".encode(), b"\xff\xfe\x00", b"a\x1b[31mb"])
def test_a28_any_bytes_in_a_name_hide_no_row(tmp_path: Path, name: bytes) -> None:
    """ood_core 838, pyslurm 33 and 71."""
    data = sacct_file(sacct_row(JobName="XX"), sacct_row(JobIDRaw="124", JobName="YY")).replace(b"XX", name)
    path = SlurmPath(tmp_path).write(data)
    path.look(LOOK_S)
    assert path.spans() == [RAN, ("124", 0, 60, 3660)]


@pytest.mark.parametrize(
    "message",
    ["sacct: fatal: ReqGRES is deprecated, please use ReqTRES", "sacct: error: Start time requested is after end time",
     "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"],
)  # fmt: skip
def test_a29_words_of_failure_are_told_and_end_nothing(tmp_path: Path, message: str) -> None:
    """ondemand 938: the export failed, and what ran goes on."""
    path = SlurmPath(tmp_path, is_snapshot=True)
    path.prolog(60)
    path.write(scontrol_job(), 100).look(200)
    for at_s in (300, 400, 500):
        path.write(f"{message}\n", at_s - 5).look(at_s, at_s + 70)
    assert path.holds() == [Hold("123", GPUS[0], 60, None), Hold("123", GPUS[1], 60, None)]
    assert {"sacct_message", "scontrol_message"} & set(path.reasons())


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


TRES = [{"type": "cpu", "name": "", "id": 1, "count": 8}, {"type": "gres", "name": "gpu", "id": 1001, "count": 2}]
JSON_SHAPES: list[tuple[str, dict[str, Any]]] = [
    # jobperf 4, airavata-custos 534, slurm's change logs
    ("A31-plain-numbers-of-old-releases",
     {"job_state": "RUNNING", "start_time": T0 + 60, "nodes": "gpu01", "restart_cnt": 0}),
    ("A31-structs-of-new-releases", {"job_state": ["RUNNING"], "start_time": number(T0 + 60), "restart_cnt": number(0),
                                     "end_time": number(T0 + 86_460), "nodes": "gpu01"}),
    ("A31-nodes-as-an-object", {"job_state": ["RUNNING"], "start_time": number(T0 + 60),
                                "nodes": {"count": 1, "list": "gpu01", "allocation": [{"name": "gpu01"}]}}),
    ("A31-null-for-what-is-not-there",
     {"job_state": ["RUNNING"], "start_time": T0 + 60, "nodes": None, "end_time": None, "comment": None,
      "job_resources": {"nodes": {"list": "gpu01"}}, "het_job_id": {}}),
    ("A31-flags-beside-the-state",
     {"job_state": ["RUNNING", "CONFIGURING"], "start_time": T0 + 60, "nodes": ["gpu01"]}),
    ("A31-numbers-in-quotes",
     {"job_id": "123", "job_state": "RUNNING", "start_time": f"{T0 + 60}", "nodes": "gpu01"}),
    ("4294967294-an-end-and-restarts-that-are-none",
     {"job_state": ["RUNNING"], "start_time": T0 + 60, "nodes": "gpu01", "end_time": 4294967294,
      "restart_cnt": 4294967294}),
    ("18446744073709551614-cpus-and-memory-that-are-none",
     {"job_state": ["RUNNING"], "start_time": T0 + 60, "nodes": "gpu01",
      "tres_alloc_str": "cpu=18446744073709551614,mem=18446744073709551614M,gres/gpu=2"}),
]  # fmt: skip


@pytest.mark.parametrize("shape", [case[1] for case in JSON_SHAPES], ids=[case[0] for case in JSON_SHAPES])
def test_every_shape_of_a_job_in_json_is_the_same_hold(tmp_path: Path, shape: dict[str, Any]) -> None:
    job = {"job_id": 123, "account": "acme", "user_name": "ann", "cluster": "alpha", "gres_detail": ["gpu:2(IDX:3,5)"]}
    path = SlurmPath(tmp_path, is_snapshot=True).write(json.dumps({"jobs": [{**job, **shape}], "errors": []}))
    path.look(LOOK_S)
    assert path.holds() == [Hold("123", GPUS[3], 60, None), Hold("123", GPUS[5], 60, None)]
    (started,) = path.events()
    assert (started["attempt"], started["tenant"], started["user"]) == (0, "acme", "ann")
    assert {claim["memory_bytes"] for claim in started["claims"]} == {None}
    assert path.reasons() == []


DETAILS: list[tuple[str, str, str, list[str], int]] = [
    # SkyPilot 10319
    ("A10-the-detail-tells-what-tres-leave-out", "GRES=gpu:h100:5(IDX:0-4)", "cpu=192,mem=800G,billing=192",
     GPUS[:5], 0),
    ("A12-a-type-that-is-null", "GRES=gpu:(null):2(IDX:0-1)", "cpu=8,gres/gpu=2", GPUS[:2], 0),
    ("A12-a-type-of-none", "GRES=gpu:titanrtx:0", "cpu=8,gres/gpu:titanrtx=0", [], 0),
    ("A9-two-types-of-one-job", "GRES=gpu:a100:1(IDX:0),gpu:v100:1(IDX:3)", "gres/gpu:a100=1,gres/gpu:v100=1",
     [GPUS[0], GPUS[3]], 0),
    ("A11-allocated-whatever-was-asked", "GRES=gpu:1(IDX:6)", "cpu=2,mem=512M,node=1,billing=2,gres/gpu=1",
     [GPUS[6]], 0),
    ("4294967294-positions-that-are-none", "GRES=gpu:4294967294", "cpu=8,gres/gpu=4294967294", [], 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("detail", "tres", "gpus", "unknown"), [case[1:] for case in DETAILS], ids=[case[0] for case in DETAILS]
)
def test_the_controllers_detail_names_the_cards(
    tmp_path: Path, detail: str, tres: str, gpus: list[str], unknown: int
) -> None:
    line = f"     Nodes=gpu01 CPU_IDs=0-7 Mem=65536 {detail}\n"
    path = SlurmPath(tmp_path, is_snapshot=True).write(scontrol_job(detail=line, tres=tres))
    path.look(LOOK_S)
    assert (path.holds(), path.unknown_gpus()) == ([Hold("123", gpu, 60, None) for gpu in gpus], unknown)


def test_a33_a_job_that_runs_for_ever_in_accounting_did_not_outlive_its_node(tmp_path: Path) -> None:
    """The node was started again 500 s in; the row still says RUNNING."""
    path = SlurmPath(tmp_path, booted_s=560).write(sacct_file(sacct_row(**RUNNING)))
    path.look(LOOK_S)
    assert path.spans() == [("123", 0, 60, 560)]


def test_a34_two_jobs_that_were_given_one_card_are_both_told_and_the_contradiction_is_a_finding(tmp_path: Path) -> None:
    """Slurm 25.05's own regression."""
    path = SlurmPath(tmp_path, has_files=False)
    path.prolog(60, gpus="0")
    path.prolog(70, job="124", gpus="0")
    path.look(100, 200)
    assert path.holds() == [Hold("123", GPUS[0], 60, None), Hold("124", GPUS[0], 70, None)]
    assert path.reasons() == ["watchers_disagree"]


def test_every_case_has_a_test_or_a_reason() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("test_cases_live_*.py"))]
    names = re.findall(r"def test_((?:[abcd]\d+_)+)|\"([ABCD]\d+)-", "".join(texts))
    tested = {number.upper() for words, one in names for number in (one or words).strip("_").split("_")}
    assert tested | NOT_LIVE.keys() == ALL_CASES
    assert not tested & NOT_LIVE.keys()


REPORTS = Path(__file__).resolve().parents[2].parent / "shared" / "reference" / "job-and-billing-sources.md"


@pytest.mark.skipif(not REPORTS.is_file(), reason=f"the reports are not there: {REPORTS}")
def test_the_cases_are_those_of_the_reports() -> None:
    assert set(re.findall(r"^([ABCD]\d+)\. ", REPORTS.read_text(encoding="utf-8"), re.MULTILINE)) == ALL_CASES
