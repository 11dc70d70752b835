"""`sacct --json`, slurmrestd and slurmctld documents: one job in every shape that releases give it."""

import json
from pathlib import Path
from typing import Any

import pytest
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.slurm_run import held_us
from wattledger_audit.intake.source import open_source
from wattledger_audit.intake.usage_sacct_json import IMPORTERS

from tests.sacct_reading import ReadBack, S, read_text

(SACCT_JSON,) = IMPORTERS
NONE = ReadOptions()
T0 = 1_790_769_600
TRES = [
    {"type": "cpu", "name": "", "id": 1, "count": 8},
    {"type": "mem", "name": "", "id": 2, "count": 65536},
    {"type": "node", "name": "", "id": 4, "count": 1},
    {"type": "gres", "name": "gpu", "id": 1001, "count": 2},
    {"type": "gres", "name": "gpu:a100", "id": 1002, "count": 2},
]
SECONDS = {
    "submission": T0, "eligible": T0, "start": T0 + 60, "end": T0 + 3660, "elapsed": 3000, "suspended": 600
}  # fmt: skip
Job = dict[str, Any]


def job(**changed: Any) -> Job:
    return {
        "job_id": 123, "name": "train", "account": "acme", "user": "ann", "cluster": "alpha", "nodes": "gpu[01-02]",
        "partition": "gpu", "qos": "normal", "wckey": {"wckey": "proj", "flags": []}, "restart_cnt": 1,
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "time": {**SECONDS, "limit": {"set": True, "infinite": False, "number": 90}},
        "array": {"job_id": 0, "task_id": {"set": False, "infinite": False, "number": 0}, "task": ""},
        "het": {"job_id": 0, "job_offset": {"set": False, "infinite": False, "number": 0}},
        "tres": {"allocated": TRES, "requested": TRES},
        "steps": [],
    } | changed  # fmt: skip


def ctld(**changed: Any) -> Job:
    return {
        "job_id": 123, "account": "acme", "user_name": "ann", "cluster": "alpha", "nodes": "gpu01",
        "job_state": ["RUNNING"], "submit_time": number(T0), "eligible_time": number(T0),
        "start_time": number(T0 + 60), "end_time": number(T0 + 90_000), "suspend_time": number(0),
        "pre_sus_time": number(0), "time_limit": number(90), "restart_cnt": 0,
        "tres_alloc_str": "cpu=2,mem=512M,node=1,billing=2,gres/gpu=1",
    } | changed  # fmt: skip


def number(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value}


def read(folder: Path, *jobs: Job, options: ReadOptions = NONE) -> ReadBack:
    return read_text(SACCT_JSON, folder, json.dumps({"meta": {"Slurm": {}}, "jobs": jobs, "errors": []}), options)


def test_a_job_object_is_a_run_with_all_its_facts(tmp_path: Path) -> None:
    run = read(tmp_path, job()).run()
    assert (run.line, run.cluster, run.job, run.run_key, run.attempt) == (1, "alpha", "123", f"from {T0 + 60}", 1)
    assert (run.tenant, run.project, run.user, run.partition) == ("acme", "proj", "ann", "gpu")
    assert (run.nodes, run.gpu_model, run.gpus, run.cpus, run.memory_bytes) == (
        ("gpu01", "gpu02"), "a100", 2, 8, 64 << 30
    )  # fmt: skip
    assert (run.start_us, run.end_us, run.suspended_us) == ((T0 + 60) * S, (T0 + 3660) * S, 600 * S)
    assert (held_us(run), run.limit_us, run.state, run.marks) == (3000 * S, 5400 * S, "COMPLETED", ())


SHAPES: list[tuple[str, Job]] = [
    ("state as a text", job(state={"current": "COMPLETED", "reason": "None"})),
    ("state as a bare text", job(state="COMPLETED")),
    ("state as a list", job(state=["COMPLETED"])),
    ("flags beside the base state", job(state={"current": ["COMPLETING", "COMPLETED"]})),
    (
        "numbers in structs",
        job(job_id=number(123), restart_cnt=number(1), time=job()["time"] | {"start": number(T0 + 60)}),
    ),
    ("limit as a number", job(time=job()["time"] | {"limit": 90})),
    ("numbers as texts", job(job_id="123")),
    ("nodes as an object", job(nodes={"count": 2, "list": "gpu[01-02]"})),
    ("nodes as an allocation", job(nodes={"allocation": [{"name": "gpu01"}, {"nodename": "gpu02"}]})),
    ("nodes as a list", job(nodes=["gpu01", "gpu02"])),
    ("nulls for objects", job(array=None, het=None, steps=None, comment=None, used_gres=None)),
    ("empty objects", job(array={}, het={}, steps={}, comment={})),
    ("wckey as a text", job(wckey="proj")),
    ("tres as a text", job(tres={"allocated": "cpu=8,mem=64G,node=1,gres/gpu=2,gres/gpu:a100=2"})),
    ("account in the association", job(account=None, association={"account": "acme", "cluster": "alpha"})),
]


@pytest.mark.parametrize("shape", [shape for _, shape in SHAPES], ids=[name for name, _ in SHAPES])
def test_every_shape_gives_the_same_run(tmp_path: Path, shape: Job) -> None:
    assert read(tmp_path, shape).run() == read(tmp_path, job()).run()


def test_lists_and_lines_of_jobs_are_read_like_documents(tmp_path: Path) -> None:
    jobs = [job(), job(job_id=124, tres={"allocated": []})]
    whole = read(tmp_path, *jobs).runs
    bare = read_text(SACCT_JSON, tmp_path, json.dumps(jobs, indent=1), NONE).runs
    lines = read_text(SACCT_JSON, tmp_path, "".join(f"{json.dumps(one)}\n" for one in jobs), NONE).runs
    documents = read_text(
        SACCT_JSON, tmp_path, "".join(json.dumps({"jobs": [one]}, indent=1) for one in jobs), NONE
    ).runs
    assert [run.gpus for run in whole] == [2, 0]
    assert bare == lines == whole
    assert [run._replace(line=0) for run in documents] == [run._replace(line=0) for run in whole]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"jobs": [job()]}),
        json.dumps([job()], indent=2),
        json.dumps(job()) + "\n" + json.dumps(job()),
        json.dumps({"jobs": [ctld()]}),
    ],
)
def test_slurms_json_is_recognised(tmp_path: Path, text: str) -> None:
    path = tmp_path / "jobs.json"
    path.write_text(text)
    found = SACCT_JSON.detect(open_source(path))
    assert found is not None
    assert found.score == 95


@pytest.mark.parametrize("text", ['{"data": {"result": []}}', "JobID|State", '[{"job": 1}]', '{"job_id": "x"}'])
def test_other_files_are_not_taken_for_slurms_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    assert SACCT_JSON.detect(open_source(path)) is None


def test_zero_is_an_unset_time(tmp_path: Path) -> None:
    times = {"submission": T0, "eligible": 0, "start": 0, "end": 0, "elapsed": 0, "suspended": 0, "limit": None}
    run = read(
        tmp_path, job(state={"current": ["PENDING"], "reason": "Dependency"}, time=times, nodes="None assigned")
    ).run()
    assert (run.eligible_us, run.start_us, run.end_us, run.limit_us) == (None, None, None, None)
    assert (run.waits_for, run.nodes, run.state) == ("Dependency", (), "PENDING")


@pytest.mark.parametrize(
    "limit", [{"set": False, "infinite": False, "number": 0}, {"set": True, "infinite": True}, None, {}]
)
def test_an_unset_or_infinite_limit_is_none(tmp_path: Path, limit: object) -> None:
    assert read(tmp_path, job(time=job()["time"] | {"limit": limit})).run().limit_us is None


def test_the_end_that_a_running_job_is_expected_to_have_is_no_end(tmp_path: Path) -> None:
    run = read(tmp_path, ctld()).run()
    assert (run.start_us, run.end_us, run.state, run.user) == ((T0 + 60) * S, None, "RUNNING", "ann")
    assert (run.gpus, run.cpus, run.memory_bytes, run.limit_us) == (1, 2, 512 << 20, 5400 * S)
    assert read(tmp_path, ctld(job_state="RUNNING", start_time=T0 + 60, end_time=T0 + 90_000)).run().end_us is None


def test_a_pending_job_of_the_controller_has_no_start_whatever_is_expected(tmp_path: Path) -> None:
    run = read(tmp_path, ctld(job_state=["PENDING"], state_reason="Priority", nodes="", tres_alloc_str="",
                              tres_req_str="cpu=4,gres/gpu=3")).run()  # fmt: skip
    assert (run.start_us, run.end_us, run.gpus, run.waits_for) == (None, None, 3, "")


def test_a_controllers_suspended_time_is_what_did_not_run(tmp_path: Path) -> None:
    run = read(
        tmp_path, ctld(job_state=["COMPLETED"], end_time=T0 + 3660, suspend_time=T0 + 1060, pre_sus_time=400)
    ).run()
    assert (run.suspended_us, held_us(run)) == (600 * S, 3000 * S)


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (["RUNNING", "COMPLETING"], "RUNNING"),
        (["PENDING", "REQUEUED"], "PENDING"),
        (["COMPLETED", "REQUEUED"], "REQUEUED"),
        (["CANCELLED"], "CANCELLED"),
        ("NODE_FAIL", "NODE_FAIL"),
    ],
)
def test_base_state_and_flags_are_one_word(tmp_path: Path, said: object, state: str) -> None:
    assert read(tmp_path, job(state={"current": said})).run().state == state


@pytest.mark.parametrize(
    ("changed", "label"),
    [
        ({"array": {"job_id": 100, "task_id": number(4), "task": ""}}, "100_4"),
        ({"array": {"job_id": 100, "task_id": 4}}, "100_4"),
        ({"array": {"job_id": 100, "task_id": number(0)}}, "100_0"),
        ({"het": {"job_id": 122, "job_offset": number(1)}}, "122+1"),
        ({"het": {"job_id": 123, "job_offset": number(0)}}, "123+0"),
    ],
)
def test_labels_are_those_of_sacct(tmp_path: Path, changed: Job, label: str) -> None:
    assert read(tmp_path, job(**changed)).run().job == label


def test_a_pending_array_is_its_tasks(tmp_path: Path) -> None:
    waiting = job(
        state={"current": ["PENDING"]}, array={"job_id": 100, "task_id": {"set": False}, "task": "1-3,7%2"}, time={}
    )
    assert [run.job for run in read(tmp_path, waiting).runs] == ["100_1", "100_2", "100_3", "100_7"]


def test_gpus_come_from_what_was_allocated_to_each_model(tmp_path: Path) -> None:
    two = [{"type": "gres", "name": "gpu:a100", "count": 1}, {"type": "gres", "name": "gpu:v100", "count": number(4)}]
    mig = [{"type": "gres", "name": "gpu:a100_3g.20gb", "count": 2}]
    runs = read(tmp_path, job(tres={"allocated": two}), job(job_id=9, tres={"allocated": mig})).runs
    assert [(run.gpu_model, run.gpus, run.share_num, run.share_den) for run in runs] == [
        ("a100", 1, 1, 1), ("v100", 4, 1, 1), ("a100", 2, 3, 7)
    ]  # fmt: skip


def test_without_gpu_tres_the_details_per_node_count_and_are_marked(tmp_path: Path) -> None:
    bare = "cpu=192,mem=800G,billing=192"
    detail = read(tmp_path, ctld(tres_alloc_str=bare, gres_detail=["gpu:h100:5(IDX:0-4)", "gpu:h100:3(IDX:0-2)"])).runs
    assert [(run.gpu_model, run.gpus, run.marks) for run in detail] == [("h100", 8, ("gpus_from_gres_used",))]
    assert read(tmp_path, ctld(tres_alloc_str=bare)).run().gpus is None


def test_steps_are_counted_and_not_used(tmp_path: Path) -> None:
    steps = [{"step": {"id": "123.batch"}}, {"step": {"id": {"job_id": 123, "step_id": "0"}}}, {}]
    read_back = read(tmp_path, job(steps=steps))
    assert [(value, code) for _, _, value, code in read_back.rejected] == [
        ("123.batch", "step_of_job"), ("123.0", "step_of_job"), ("123", "step_of_job")
    ]  # fmt: skip
    assert len(read_back.runs) == 1


def test_requeues_all_count_and_identical_objects_once(tmp_path: Path) -> None:
    again = job(time=job()["time"] | {"start": T0 + 5000, "end": T0 + 8600, "elapsed": 3000})
    read_back = read(tmp_path, job(), again, job())
    assert len({run.run_key for run in read_back.runs}) == 2
    assert [(line, code) for line, _, _, code in read_back.rejected] == [(3, "duplicate_row")]


def test_what_is_no_job_is_listed_with_its_place(tmp_path: Path) -> None:
    text = json.dumps({"jobs": [job(), {"name": "x"}, 5, job(job_id=0)]})
    read_back = read_text(SACCT_JSON, tmp_path, text, NONE)
    assert [(line, code) for line, _, _, code in read_back.rejected] == [
        (2, "not_a_job"), (3, "not_a_job"), (4, "not_a_job_id")
    ]  # fmt: skip


def test_elapsed_that_disagrees_is_marked(tmp_path: Path) -> None:
    assert read(tmp_path, job(time=job()["time"] | {"elapsed": 3600})).run().marks == ("elapsed_disagrees",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"jobs": [], "errors": [{"description": "Unable to query", "error_number": 9}]}', "Unable to query"),
        ('{"jobs": [{"job_id": 1, "state": ["COMPL', "line 1"),
    ],
)
def test_a_document_without_jobs_says_why(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputRefused, match=says):
        read_text(SACCT_JSON, tmp_path, text, NONE)
