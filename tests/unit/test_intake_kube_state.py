"""kube-state-metrics ranges: who held how many GPUs and when, whatever the chunks, the exporters and the labels."""

import json
from pathlib import Path

import pytest
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused

from tests.unit.kube_answers import (
    REQUESTS,
    S,
    T,
    about,
    answer,
    every,
    read_text,
    request,
    runs_of,
    series,
    times,
)


def test_a_sample_speaks_for_its_step(tmp_path: Path) -> None:
    (run,) = runs_of(tmp_path, series(request(), every(0, 3600), "8"))
    assert times([run]) == [(0, 3600)]
    assert (run.gpus, run.share_num, run.share_den, run.nodes) == (8, 1, 1, ("n1",))
    assert (run.job, run.tenant, run.state, run.attempt) == ("acme/train-0", "acme", "RUNNING", 0)


def test_chunks_that_overlap_count_once(tmp_path: Path) -> None:
    chunks = [
        answer(series(request(), every(0, 1800), "2")),
        answer(series(request(), every(900, 2700), "2")),
        answer(series(request(), every(2700, 3600), "2")),
    ]
    for text in (
        "\n".join(chunks),
        "".join(chunks),
        json.dumps(json.loads(chunks[0]), indent=1) + "\n" + "\n".join(chunks),
        "\n".join(chunks) + "\n" + json.dumps(json.loads(chunks[0]), indent=1),
    ):
        runs, _ = read_text(tmp_path, text)
        assert times(runs) == [(0, 3600)]
        assert runs[0].gpus == 2


def test_the_order_of_chunks_does_not_matter(tmp_path: Path) -> None:
    one, other = answer(series(request(), every(0, 1800))), answer(series(request(), every(1500, 3600)))
    assert read_text(tmp_path, one + "\n" + other)[0][0][3:] == read_text(tmp_path, other + "\n" + one)[0][0][3:]


def test_two_exporters_double_nothing(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        series(request(), every(0, 3600), "4"),
        series(request(instance="10.0.0.2:8080", prometheus_replica="b"), every(0, 3600), "4"),
    )
    assert times(runs) == [(0, 3600)]
    assert runs[0].gpus == 4


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ((), [(0, 600)]),
        ((120,), [(0, 600)]),
        ((120, 150), [(0, 600)]),  # next sample 3 steps later
        ((120, 150, 180), [(0, 120), (210, 600)]),  # a hole of 4 steps
    ],
)
def test_a_hole_over_three_steps_splits_the_run(
    tmp_path: Path, missing: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    runs = runs_of(tmp_path, series(request(), [at for at in every(0, 600) if at not in missing]))
    assert times(runs) == expected
    assert len({run.run_key for run in runs}) == 1


def test_a_hole_in_one_chunk_that_another_fills_is_none(tmp_path: Path) -> None:
    holed = answer(series(request(), [*every(0, 120), *every(300, 600)]))
    runs, _ = read_text(tmp_path, holed + "\n" + answer(series(request(), every(60, 360))))
    assert times(runs) == [(0, 600)]


def test_a_count_that_changes_is_another_run_from_that_sample_on(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, series(request(), every(0, 300), "4"), series(request(), every(300, 600), "8"))
    assert [(run.gpus, *times([run])[0]) for run in runs] == [(4, 0, 300), (8, 300, 600)]
    assert runs[0].run_key != runs[1].run_key


@pytest.mark.parametrize("value", ["NaN", "0", "+Inf"])
def test_a_value_that_is_no_count_holds_nothing(tmp_path: Path, value: str) -> None:
    runs = runs_of(tmp_path, series(request(), every(0, 300), value), series(request("b"), every(0, 300)))
    assert [run.job for run in runs] == ["acme/b"]


def test_a_gpu_is_held_only_while_the_pod_runs(tmp_path: Path) -> None:
    phase = "kube_pod_status_phase"
    runs = runs_of(
        tmp_path,
        series(request(), every(0, 1200)),
        series(about(phase, phase="Pending"), every(0, 300)),
        series(about(phase, phase="Running"), every(0, 300), "0"),
        series(about(phase, phase="Running"), every(300, 900)),
        series(about(phase, phase="Succeeded"), every(900, 1200)),
    )
    assert times(runs) == [(300, 900)]
    assert runs[0].state == "COMPLETED"


def test_a_pod_that_only_waited_never_started(tmp_path: Path) -> None:
    (run,) = runs_of(
        tmp_path,
        series(request(node=""), every(0, 600), "8"),
        series(about("kube_pod_status_phase", phase="Pending"), every(0, 600)),
    )
    assert (run.start_us, run.end_us, run.state, run.submit_us, run.gpus) == (None, None, "PENDING", T * S, 8)


def test_the_time_before_a_pod_was_placed_is_not_held(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, series(request(node=""), every(0, 300)), series(request(), every(300, 600)))
    assert times(runs) == [(300, 600)]


def test_stamps_clip_what_samples_round(tmp_path: Path) -> None:
    """C6: the kubelet frees a GPU late; the container's own end is what counts."""
    runs = runs_of(
        tmp_path,
        series(request(), every(0, 3600)),
        series(about("kube_pod_start_time"), every(0, 3600), str(T + 125)),
        series(about("kube_pod_completion_time"), every(1800, 3600), str(T + 1711)),
    )
    assert times(runs) == [(125, 1711)]


def test_a_containers_own_start_is_later_than_its_pods(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        series(request(), every(0, 600)),
        series(about("kube_pod_start_time"), every(0, 600), str(T + 10)),
        series(about("kube_pod_container_state_started", container="main"), every(0, 600), str(T + 70)),
        series(about("kube_pod_container_state_started", container="other"), every(0, 600), str(T + 300)),
    )
    assert times(runs) == [(70, 600)]


def test_a_container_that_is_down_holds_nothing(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        series(request(), every(0, 600)),
        series(about("kube_pod_container_status_terminated", container="main"), every(0, 300), "0"),
        series(about("kube_pod_container_status_terminated", container="main"), every(300, 600)),
        series(
            about("kube_pod_container_status_terminated_reason", container="main", reason="OOMKilled"), every(300, 600)
        ),
    )
    assert times(runs) == [(0, 300)]
    assert runs[0].state == "OUT_OF_MEMORY"


@pytest.mark.parametrize(("reason", "state"), [("Evicted", "PREEMPTED"), ("NodeLost", "NODE_FAIL"), ("", "")])
def test_the_reason_of_a_pods_end_is_its_state(tmp_path: Path, reason: str, state: str) -> None:
    items = [series(request(), every(0, 300)), series(request("other"), every(0, 600))]
    if reason:
        items.append(series(about("kube_pod_status_reason", reason=reason), every(0, 300)))
    assert [run.state for run in runs_of(tmp_path, *items) if run.job == "acme/train-0"] == [state]


def test_a_name_that_comes_again_with_another_uid_is_another_run(tmp_path: Path) -> None:
    """C14."""
    runs = runs_of(tmp_path, series(request(uid="one"), every(0, 300)), series(request(uid="two"), every(300, 600)))
    assert times(runs) == [(0, 300), (300, 600)]
    assert [run.job for run in runs] == ["acme/train-0"] * 2
    assert len({run.run_key for run in runs}) == 2


def test_a_name_that_comes_again_without_uid_is_told_apart_by_its_start(tmp_path: Path) -> None:
    """C14 where series lack the uid."""
    start = about("kube_pod_start_time", uid="")
    runs = runs_of(
        tmp_path,
        series(request(uid=""), every(0, 600)),
        series(start, every(0, 300), str(T)),
        series(start, every(300, 600), str(T + 290)),
    )
    assert times(runs) == [(0, 290), (290, 600)]
    assert len({run.run_key for run in runs}) == 2


def test_names_that_the_scrape_moved_aside_are_the_true_ones(tmp_path: Path) -> None:
    moved = {
        "__name__": REQUESTS, "exported_namespace": "acme", "exported_pod": "train-0", "exported_container": "main",
        "exported_node": "n1", "namespace": "monitoring", "pod": "kube-state-metrics-7d", "container": "ksm",
        "node": "infra-1", "resource": "nvidia_com_gpu", "uid": "uid-train-0",
    }  # fmt: skip
    runs = runs_of(tmp_path, series(moved, every(0, 300), "2"), series(request(), every(150, 600), "2"))
    assert times(runs) == [(0, 600)]
    assert (runs[0].job, runs[0].nodes, runs[0].tenant) == ("acme/train-0", ("n1",), "acme")


def test_labels_name_tenant_project_model_and_plan(tmp_path: Path) -> None:
    labels = about(
        "kube_pod_labels", label_tenant="globex", label_project="vision", label_model="llama", label_plan="spot"
    )
    product = {"__name__": "kube_node_labels", "node": "n1", "label_nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3"}
    (run,) = runs_of(
        tmp_path,
        series(request(), every(0, 300)),
        series(labels, every(0, 300)),
        series(product, every(0, 300)),
        series(request(resource="cpu"), every(0, 300), "15.5"),
        series(request(resource="memory"), every(0, 300), "68719476736"),
        series(about("kube_pod_created"), every(0, 300), str(T - 60)),
    )
    assert (run.tenant, run.project, run.model_tag, run.plan) == ("globex", "vision", "llama", "spot")
    assert (run.gpu_model, run.cpus, run.memory_bytes) == ("NVIDIA-H100-80GB-HBM3", 16, 64 << 30)
    assert run.submit_us == (T - 60) * S


def test_limits_stand_in_for_requests_and_never_add_to_them(tmp_path: Path) -> None:
    limits = {"__name__": "kube_pod_container_resource_limits"}
    both = runs_of(tmp_path, series(request(), every(0, 300), "2"), series(request() | limits, every(0, 300), "2"))
    assert [run.gpus for run in both] == [2]
    only = runs_of(tmp_path, series(request() | limits, every(0, 300), "2"))
    assert [run.gpus for run in only] == [2]


def test_a_sidecar_holds_beside_its_container_and_a_plain_init_container_does_not(tmp_path: Path) -> None:
    """C8: the sum, 8, not the larger of the two."""
    init = request(container="helper") | {"__name__": "kube_pod_init_container_resource_requests"}
    always = about("kube_pod_init_container_info", container="helper", restart_policy="Always")
    app = series(request(), every(0, 300), "4")
    beside = runs_of(tmp_path, app, series(init, every(0, 300), "4"), series(always, every(0, 300)))
    assert sum(run.gpus or 0 for run in beside) == 8
    before = runs_of(tmp_path, app, series(init, every(0, 300), "4"))
    assert sum(run.gpus or 0 for run in before) == 4


def test_clusters_with_the_same_names_stay_apart(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path, series(request(cluster="east"), every(0, 300)), series(request(cluster="west"), every(0, 300))
    )
    assert [run.cluster for run in runs] == ["east", "west"]
    said, _ = read_text(tmp_path, answer(series(request(), every(0, 300))), ReadOptions(cluster="north"))
    assert said[0].cluster == "north"


def test_pods_without_gpus_are_no_runs(tmp_path: Path) -> None:
    assert runs_of(tmp_path, series(request(resource="cpu"), every(0, 300), "4")) == []


def test_one_run_in_two_files_has_one_key(tmp_path: Path) -> None:
    first = runs_of(tmp_path, series(request(), every(0, 300)))
    second = runs_of(tmp_path, series(request(), every(240, 600)))
    assert first[0].run_key == second[0].run_key
    assert (first[0].cluster, first[0].job) == (second[0].cluster, second[0].job)


def test_documents_of_one_sample_each_take_their_step_from_each_other(tmp_path: Path) -> None:
    instants = [
        json.dumps({"status": "success", "data": {"resultType": "vector", "result": [
            {"metric": request(), "value": [T + at, "2"]}]}})
        for at in every(0, 300)
    ]  # fmt: skip
    runs, _ = read_text(tmp_path, "\n".join(instants))
    assert times(runs) == [(0, 300)]


def test_an_export_with_stamps_in_ms_reads_alike(tmp_path: Path) -> None:
    line = {"metric": request(), "values": [2] * 10, "timestamps": [(T + at) * 1000 for at in every(0, 300)]}
    runs, _ = read_text(tmp_path, json.dumps(line))
    assert times(runs) == [(0, 300)]


def test_fractions_of_seconds_are_exact(tmp_path: Path) -> None:
    values = [[float(f"{T + at}.781"), "1"] for at in every(0, 300)]
    (run,) = runs_of(tmp_path, {"metric": request(), "values": values})
    assert (run.start_us, run.end_us) == (T * S + 781_000, (T + 300) * S + 781_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"status":"error","errorType":"timeout","error":"query timed out"}', "query timed out"),
        ('{"status":"success","data":{"resultType":"matrix","result":[{"metric":', "cut"),
        ('{"status":"success","data":{}}', "data.result"),
        (answer({"metric": request(), "value": [T, "1"]}), "query_range"),
    ],
)
def test_a_file_that_lacks_samples_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputRefused, match=words) as refused:
        read_text(tmp_path, text)
    assert "range.json" in str(refused.value)


def test_series_that_say_nothing_of_holders_are_listed(tmp_path: Path) -> None:
    text = answer(series(request(), every(0, 300)), series({"__name__": "up", "job": "x"}, every(0, 300)))
    runs, rejected = read_text(tmp_path, text)
    assert len(runs) == 1
    assert [(r["line"], r["value"], r["reason"].split(":")[0]) for r in rejected] == [("2", "up", "metric_not_used")]
