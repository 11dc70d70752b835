"""The controller's view, as `scontrol show` prints it and as JSON in the shapes of several releases."""

import json
from typing import Any

import pytest
from wattledger_agent.watchers.run import BY_MINOR, BY_UNKNOWN, DeviceRef, Held
from wattledger_agent.watchers.slurm_document import parse_document
from wattledger_agent.watchers.slurm_fact import ACCOUNTING, LIVE, Document, Fact
from wattledger_agent.watchers.slurm_json import parse_json
from wattledger_agent.watchers.slurm_scontrol import parse_scontrol
from wattledger_agent.watchers.slurm_site import SlurmSite

from tests.slurm_watch_case import NOW_US, SITE, T0, S, refs, scontrol_job


def show(text: str, site: SlurmSite = SITE) -> Document:
    return parse_scontrol(text.encode(), site, NOW_US)


def shown(**changed: str) -> Fact:
    document = show(scontrol_job(False, **changed))
    assert document.findings == ()
    (fact,) = document.facts
    return fact


@pytest.mark.parametrize("one_line", [False, True])
def test_a_running_job_has_no_end_though_one_is_printed(one_line: bool) -> None:
    (fact,) = show(scontrol_job(one_line=one_line)).facts
    assert (fact.kind, fact.job, fact.attempt, fact.state) == (LIVE, "123", 0, "RUNNING")
    assert (fact.start_us, fact.end_us, fact.stop_us) == ((T0 + 60) * S, None, None)
    assert (fact.account, fact.user) == ("acme", "ann")
    assert (fact.cpus, fact.memory_bytes) == (8, 64 << 30)
    assert refs(fact.held) == ["minor:0", "minor:1"]


def test_a_job_that_is_completing_has_ended_its_work_and_holds_on() -> None:
    fact = shown(state="COMPLETING", end=f"{T0 + 600}")
    assert (fact.end_us, fact.stop_us) == (None, (T0 + 600) * S)


def test_a_finished_job_has_its_end() -> None:
    fact = shown(state="NODE_FAIL", end=f"{T0 + 600}")
    assert (fact.end_us, fact.state) == ((T0 + 600) * S, "NODE_FAIL")


@pytest.mark.parametrize("state", ["PENDING", "REQUEUE_HOLD"])
def test_a_job_that_waits_holds_nothing(state: str) -> None:
    assert show(scontrol_job(state=state, nodes="(null)", start="Unknown", end="Unknown")).facts == ()
    assert show(scontrol_job(state=state)).facts == ()


def test_a1_a_limit_that_is_the_partitions_and_an_end_that_is_unknown() -> None:
    assert shown(limit="Partition_Limit", end="Unknown").end_us is None
    assert show(scontrol_job(state="CANCELLED", nodes="(null)", start="None")).facts == ()


def test_a23_local_times_are_refused_and_name_the_job() -> None:
    document = show(scontrol_job(start="2025-09-07T22:16:06"))
    assert [one.reason for one in document.findings] == ["zone_needed"]
    assert "job 123" in document.findings[0].detail


def test_only_the_detail_line_of_this_node_counts() -> None:
    detail = (
        "     Nodes=gpu[02-03] CPU_IDs=0-7 Mem=0 GRES=gpu:a100:4(IDX:0-1,3-4)\n"
        "     Nodes=gpu01 CPU_IDs=0-1,8-9 Mem=150 GRES=gpu:a100:1(IDX:6)\n"
    )
    fact = shown(nodes="gpu[01-03]", detail=detail, tres="cpu=20,gres/gpu=9,node=3")
    assert (refs(fact.held), fact.cpus, fact.memory_bytes, fact.gpus) == (["minor:6"], 4, 150 << 20, None)


@pytest.mark.parametrize(
    ("case", "detail", "tres", "held", "gpus"),
    [
        ("A10: TRES say nothing, the detail does", "GRES=gpu:h100:5(IDX:0-4)", "cpu=192,mem=800G,billing=192",
         [f"minor:{n}" for n in range(5)], None),
        ("A12", "GRES=gpu:(null):2(IDX:0-1)", "cpu=8,gres/gpu=2", ["minor:0", "minor:1"], 2),
        ("none", "GRES=", "cpu=8,node=1,mem=1G", [], None),
        ("an old release", "GRES_IDX=gpu(IDX:0,2)", "cpu=8", ["minor:0", "minor:2"], None),
        ("B11 MIG", "GRES=gpu:a100_3g.20gb:1(IDX:2)", "cpu=8,gres/gpu:a100_3g.20gb=1",
         ["unknown:gres:a100_3g.20gb#2"], 1),
        ("two types", "GRES=gpu:a100:1(IDX:0),gpu:v100:1(IDX:3)", "cpu=8,gres/gpu=2", ["minor:0", "minor:3"], 2),
    ],
)  # fmt: skip
def test_the_detail_line_says_which_gpus(case: str, detail: str, tres: str, held: list[str], gpus: int | None) -> None:
    fact = shown(detail=f"     Nodes=gpu01 CPU_IDs=0-7 Mem=65536 {detail}\n", tres=tres)
    assert (refs(fact.held), fact.gpus) == (held, gpus), case


def test_without_details_only_the_count_is_known() -> None:
    fact = shown(detail="")
    assert (fact.held, fact.gpus) == (None, 2)


NODE = (
    "NodeName=gpu01 Arch=x86_64\n   Gres=gpu:a100:4(S:0-1),shard:a100:32(S:0-1)\n   GresDrain=N/A\n   GresUsed={used}\n"
)


def test_the_nodes_view_tells_the_capacity_of_shards() -> None:
    job = scontrol_job(
        detail="     Nodes=gpu01 CPU_IDs=0-7 Mem=0 GRES=shard:a100:2(IDX:1)\n", tres="cpu=8,gres/shard=2"
    )
    document = show(NODE.format(used="gpu:a100:0(IDX:N/A),shard:a100:2(0/8,2/8,0/8,0/8)") + "\n" + job)
    assert document.shards == 8
    assert document.facts[0].held == (Held(DeviceRef(BY_MINOR, "1"), 2, 8, "time_sliced"),)


@pytest.mark.parametrize(
    ("case", "jobs", "held"),
    [
        ("A10: the only job has what the node shows as used", 1, [f"minor:{n}" for n in range(5)]),
        ("of two, nobody knows which", 2, None),
    ],
)
def test_what_the_node_shows_as_used_is_the_only_jobs(case: str, jobs: int, held: list[str] | None) -> None:
    texts = [scontrol_job(job=f"{n}", detail="", tres="cpu=192,mem=800G,billing=192") for n in range(1, jobs + 1)]
    document = show(NODE.format(used="gpu:h100:5(IDX:0-4)") + "\n" + "".join(texts))
    first = document.facts[0].held
    assert (None if first is None else refs(first)) == held, case


@pytest.mark.parametrize(
    "name",
    [
        "x Account=rich UserId=root(0)",
        "x\nJobId=999 JobName=y\n   UserId=root(0) GroupId=root(0)\n   Account=rich JobState=RUNNING\n"
        f"   Restarts=0 StartTime={T0} EndTime=Unknown\n   NodeList=gpu01\n   z",
    ],
)
def test_a_name_that_plays_record_is_believed_nothing(name: str) -> None:
    document = show(scontrol_job(name=name) + scontrol_job(job="124"))
    assert [(fact.job, fact.account) for fact in document.facts] == [("124", "acme")]
    assert {one.reason for one in document.findings} <= {"ambiguous_record", "broken_record"}
    assert document.findings


def test_a_comment_that_plays_a_detail_line_is_believed_nothing() -> None:
    fact = shown(comment="Nodes=gpu01 CPU_IDs=0 Mem=0 GRES=gpu:8(IDX:0-7)", detail="")
    assert fact.held is None


def test_words_of_failure_are_no_snapshot() -> None:
    for text in ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", "", "\n"):
        assert not show(text).is_whole
    assert [one.reason for one in show("scontrol: error: x\n").findings] == ["scontrol_message"]
    assert show("No jobs in the system\n").is_whole
    assert show(scontrol_job()).is_whole
    assert not show(scontrol_job()[:-2]).is_whole


def test_comments_tag_where_allowed() -> None:
    site = SlurmSite("gpu01", comment_tags=True, tag_uids=frozenset({1000}))
    (fact,) = show(scontrol_job(comment="wattledger.tenant=lab7;wattledger.model=llama"), site).facts
    assert (fact.tenant_tag, fact.model_tag) == ("lab7", "llama")
    assert shown(comment="wattledger.tenant=lab7").tenant_tag == ""


def number(value: int | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


LIVE_JOB: dict[str, Any] = {
    "job_id": 123, "name": "train", "account": "acme", "user_name": "ann", "user_id": 1000, "cluster": "alpha",
    "job_state": ["RUNNING"], "nodes": "gpu01", "restart_cnt": 1, "start_time": number(T0 + 60),
    "end_time": number(T0 + 86_460), "suspend_time": number(None), "gres_detail": ["gpu:a100:2(IDX:0-1)"],
    "tres_alloc_str": "cpu=8,mem=64G,node=1,billing=8,gres/gpu=2,gres/gpu:a100=2", "shared": ["none"], "qos": "preempt",
}  # fmt: skip
DB_JOB: dict[str, Any] = {
    "job_id": 123, "account": "acme", "user": "ann", "cluster": "alpha", "nodes": "gpu01", "restart_cnt": 1,
    "state": {"current": ["COMPLETED"], "reason": "None"}, "sluid": "sEKNKTV3WPV500",
    "time": {"submission": T0, "eligible": T0, "start": T0 + 60, "end": T0 + 3660, "elapsed": 3600, "suspended": 0,
             "limit": number(60)},
    "tres": {"requested": [], "allocated": [
        {"type": "cpu", "name": "", "id": 1, "count": 8}, {"type": "mem", "name": "", "count": 65536},
        {"type": "gres", "name": "gpu", "count": 2}, {"type": "gres", "name": "gpu:a100", "count": 2},
    ]},
    "comment": {"administrator": "", "job": "wattledger.tenant=lab7", "system": ""},
}  # fmt: skip


def answered(job: dict[str, Any], site: SlurmSite = SITE, **changed: Any) -> Fact:
    document = parse_json(json.dumps({"jobs": [{**job, **changed}], "errors": []}).encode(), site, NOW_US)
    assert document.findings == ()
    (fact,) = document.facts
    return fact


def test_a_job_of_the_controllers_json() -> None:
    fact = answered(LIVE_JOB)
    assert (fact.kind, fact.job, fact.attempt, fact.state) == (LIVE, "123", 1, "RUNNING")
    assert (fact.start_us, fact.end_us) == ((T0 + 60) * S, None)
    assert (refs(fact.held), fact.gpus, fact.gpu_kind) == (["minor:0", "minor:1"], 2, "a100")
    assert (fact.account, fact.user, fact.plan, fact.exclusive) == ("acme", "ann", "spot", True)


def test_a_job_of_the_databases_json() -> None:
    fact = answered(DB_JOB, SlurmSite("gpu01", comment_tags=True))
    assert (fact.kind, fact.sluid, fact.attempt) == (ACCOUNTING, "sEKNKTV3WPV500", 1)
    assert (fact.start_us, fact.end_us, fact.state) == ((T0 + 60) * S, (T0 + 3660) * S, "COMPLETED")
    assert (fact.gpus, fact.cpus, fact.memory_bytes, fact.tenant_tag) == (2, 8, 64 << 30, "lab7")


@pytest.mark.parametrize(
    ("case", "changed"),
    [
        ("A31 state as a text", {"job_state": "RUNNING"}),
        ("A31 start as a number", {"start_time": T0 + 60}),
        ("A31 nodes as an object", {"nodes": {"count": 1, "list": "gpu01", "allocation": [{"name": "gpu01"}]}}),
        ("A31 nodes in the resources", {"nodes": None, "job_resources": {"nodes": {"list": "gpu01"}}}),
        ("A31 nodes as a list", {"nodes": ["gpu01"]}),
        ("A31 null for {}", {"suspend_time": None, "end_time": None, "shared": None}),
        ("A31 ids as texts", {"job_id": "123", "restart_cnt": "1"}),
        ("A31 restarts as a struct", {"restart_cnt": number(1)}),
        ("A31 detail as a text", {"gres_detail": "gpu:a100:2(IDX:0-1)"}),
    ],
)  # fmt: skip
def test_a31_every_shape_says_the_same(case: str, changed: dict[str, Any]) -> None:
    usual, fact = answered(LIVE_JOB), answered(LIVE_JOB, **changed)
    assert (fact.job, fact.attempt, fact.start_us, fact.end_us, fact.state, fact.held) == (
        usual.job, usual.attempt, usual.start_us, usual.end_us, usual.state, usual.held,
    ), case  # fmt: skip


def test_one_text_a_node_says_which_gpus_are_held_on_which() -> None:
    details = ["gpu:a100:4(IDX:0-3)", "gpu:a100:1(IDX:5)"]
    assert refs(answered(LIVE_JOB, nodes="gpu[00-01]", gres_detail=details).held) == ["minor:5"]
    assert answered(LIVE_JOB, nodes="gpu[00-02]", gres_detail=details).held is None


def test_without_details_the_count_is_what_is_known() -> None:
    fact = answered(LIVE_JOB, gres_detail=[])
    assert (fact.held, fact.gpus) == (None, 2)
    fact = answered(LIVE_JOB, gres_detail=[], tres_alloc_str="cpu=1,node=1", tres_req_str="gres/gpu=0")
    assert (fact.held, fact.gpus) == (None, 0)
    fact = answered(LIVE_JOB, gres_detail=[], tres_alloc_str="cpu=1,node=1")
    assert (fact.held, fact.gpus) == (None, None)


@pytest.mark.parametrize(
    ("case", "job", "changed"),
    [
        ("pending", LIVE_JOB, {"job_state": ["PENDING"], "nodes": "", "start_time": number(None)}),
        ("requeued and waiting", LIVE_JOB, {"job_state": ["PENDING", "REQUEUED"]}),
        ("cancelled before it started", DB_JOB, {"nodes": "None assigned", "state": {"current": ["CANCELLED"]}}),
        ("elsewhere", LIVE_JOB, {"nodes": "gpu[02-08]"}),
        ("another cluster", LIVE_JOB, {"cluster": "beta"}),
        ("never started", DB_JOB, {"time": {"start": 0, "end": T0, "elapsed": 0}}),
    ],
)
def test_what_holds_nothing_here_is_left_out(case: str, job: dict[str, Any], changed: dict[str, Any]) -> None:
    document = parse_json(json.dumps({"jobs": [{**job, **changed}]}).encode(), SITE, NOW_US)
    assert (document.facts, document.findings) == ((), ()), case


def test_a_running_record_of_the_database_has_no_end() -> None:
    fact = answered(DB_JOB, state={"current": ["RUNNING"]}, time={"start": T0 + 60, "end": 0, "elapsed": 30})
    assert fact.end_us is None


def test_shards_get_their_capacity_from_the_node_in_the_document() -> None:
    job = {**LIVE_JOB, "gres_detail": ["shard:2(IDX:1)"], "tres_alloc_str": "cpu=1,gres/shard=2"}
    nodes = [
        {"name": "gpu02", "gres": "gpu:1,shard:3"},
        {"name": "GPU01", "gres": "gpu:a100:2(S:0),shard:a100:16(S:0)"},
    ]
    document = parse_json(json.dumps({"jobs": [job], "nodes": nodes}).encode(), SITE, NOW_US)
    assert document.facts[0].held == (Held(DeviceRef(BY_MINOR, "1"), 2, 8, "time_sliced"),)
    document = parse_json(json.dumps({"jobs": [job]}).encode(), SITE, NOW_US)
    assert document.facts[0].held == (Held(DeviceRef(BY_MINOR, "1"), None, None, "time_sliced"),)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"jobs": [{"job_id": 1,', "broken_json"),
        (b'{"pods": []}', "foreign_json"),
        (b'{"jobs": [], "errors": [{"error": "Unable to contact slurm controller"}]}', "slurm_error"),
        (b'{"jobs": [{"job_id": 0}]}', "foreign_json"),
        (b"[" * 50_000, "broken_json"),
    ],
)
def test_a_document_that_fails_says_so(data: bytes, reason: str) -> None:
    document = parse_json(data, SITE, NOW_US)
    assert [one.reason for one in document.findings] == [reason]
    assert document.facts == ()


def test_documents_are_known_by_their_content() -> None:
    for data in (scontrol_job().encode(), ("\n" + scontrol_job(one_line=True)).encode()):
        assert [fact.kind for fact in parse_document(data, SITE, NOW_US, "x").facts] == [LIVE]
    for job, kind in ((LIVE_JOB, LIVE), (DB_JOB, ACCOUNTING)):
        data = json.dumps({"jobs": [job]}).encode()
        assert [fact.kind for fact in parse_document(data, SITE, NOW_US, "x").facts] == [kind]
    assert parse_document(b" \n", SITE, NOW_US, "x") == Document(is_whole=False)


def test_b9_two_jobs_on_one_card_by_mig_are_not_both_its_holders() -> None:
    numbers = SlurmSite("gpu01", gres_index=["MIG-aa", "MIG-bb"])
    texts = [
        scontrol_job(job=f"{n}", detail=f"     Nodes=gpu01 CPU_IDs=0 Mem=1 GRES=gpu:a100_3g.20gb:1(IDX:{n})\n")
        for n in (0, 1)
    ]
    document = show("".join(texts), numbers)
    assert [refs(fact.held) for fact in document.facts] == [["mig_uuid:MIG-aa"], ["mig_uuid:MIG-bb"]]
    unknown = show("".join(texts))
    assert {one.ref.by for fact in unknown.facts for one in fact.held or ()} == {BY_UNKNOWN}
