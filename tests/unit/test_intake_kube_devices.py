"""Devices of pods: what a resource is on its node, and GPU exporters' series that name the pod on a device."""

from fractions import Fraction
from pathlib import Path

import pytest
from wattledger_audit.intake.source import open_source
from wattledger_audit.intake.usage_kube_state import detect

from tests.unit.kube_answers import (
    Labels,
    S,
    about,
    answer,
    device,
    every,
    request,
    runs_of,
    series,
    times,
)


@pytest.mark.parametrize(
    ("resource", "node_labels", "share", "marks"),
    [
        ("nvidia_com_gpu", {}, Fraction(1), ()),
        ("nvidia_com_mig_1g_5gb", {}, Fraction(1, 7), ()),
        ("nvidia_com_mig_3g_20gb", {}, Fraction(3, 7), ()),
        ("nvidia_com_mig_1g_24gb", {}, Fraction(1), ("share_unknown",)),
        ("nvidia_com_mig_1g_24gb", {"label_nvidia_com_gpu_product": "NVIDIA-H100-NVL"}, Fraction(1, 7), ()),
        ("amd_com_gpu", {}, Fraction(1), ()),
        ("nvidia_com_gpu_shared", {}, Fraction(1), ("share_unknown",)),
        ("nvidia_com_gpu_shared", {"label_nvidia_com_gpu_replicas": "4"}, Fraction(1, 4), ()),
        (
            "nvidia_com_gpu",
            {"label_nvidia_com_gpu_replicas": "4", "label_nvidia_com_gpu_product": "Tesla-T4-SHARED"},
            Fraction(1, 4),
            (),
        ),
        ("nvidia_com_gpu", {"label_nvidia_com_gpu_replicas": "1"}, Fraction(1), ()),
        ("nvidia_com_gpu", {"label_nvidia_com_gpu_product": "Tesla-T4-SHARED"}, Fraction(1), ("share_unknown",)),
        (
            "nvidia_com_gpu",  # MIG's single strategy
            {"label_nvidia_com_gpu_product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"},
            Fraction(1, 7),
            (),
        ),
        ("nvidia_com_mig_1g_5gb", {"label_nvidia_com_gpu_replicas": "4"}, Fraction(1, 7), ()),
        ("nvidia_com_mig_1g_5gb_shared", {"label_nvidia_com_mig_1g_5gb_replicas": "2"}, Fraction(1, 14), ()),
        ("nvidia_com_GA102GL_A10", {}, Fraction(1), ()),  # C15: a card that is passed through
    ],
)
def test_what_a_resource_is_depends_on_its_node(
    tmp_path: Path, resource: str, node_labels: Labels, share: Fraction, marks: tuple[str, ...]
) -> None:
    node = {"__name__": "kube_node_labels", "node": "n1"} | node_labels
    running = about("kube_pod_status_phase", phase="Running")
    (run,) = runs_of(
        tmp_path, *(series(labels, every(0, 300)) for labels in (request(resource=resource), node, running))
    )
    assert Fraction(run.share_num, run.share_den) == share
    assert (run.gpus, run.marks) == (1, marks)


def test_four_quarters_of_one_gpu_for_an_hour_are_one_gpu_hour(tmp_path: Path) -> None:
    items = [series(request(f"p{i}", "nvidia_com_gpu"), every(0, 3600)) for i in range(4)]
    items += [series(request(f"p{i}", "nvidia_com_gpucores"), every(0, 3600), "25") for i in range(4)]
    runs = runs_of(tmp_path, *items)
    assert len(runs) == 4
    held = sum(Fraction(r.share_num, r.share_den) * ((r.end_us or 0) - (r.start_us or 0)) for r in runs)
    assert held == 3600 * S


def test_a_device_series_holds_its_device_while_it_names_the_pod(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, series(device("train-0"), every(0, 300), "0"))
    assert times(runs) == [(0, 300)]
    run = runs[0]
    assert (run.device, run.nodes, run.gpus, run.job) == ("GPU-aa", ("n1",), 1, "acme/train-0")
    assert run.gpu_model == "NVIDIA A100-SXM4-40GB"


def test_a_label_that_flips_is_still_one_gpu(tmp_path: Path) -> None:
    """C12: without exported_pod the exporter's own name stands there."""
    idle = {key: value for key, value in device("").items() if not key.startswith("exported_")}
    runs = runs_of(tmp_path, series(device("train-0"), every(0, 300)), series(idle, every(300, 600)))
    assert [(run.job, *times([run])[0]) for run in runs] == [("acme/train-0", 0, 300)]


def test_pods_that_share_a_device_share_it_and_no_more(tmp_path: Path) -> None:
    """C1: three pods, the device's value repeated for each; C2: replicas of one UUID."""
    runs = runs_of(tmp_path, *[series(device(f"p{i}", f"GPU-aa::{i}"), every(0, 300), "0.714") for i in range(3)])
    assert [run.device for run in runs] == ["GPU-aa"] * 3
    assert sum(Fraction(run.share_num, run.share_den) for run in runs) == 1
    assert {run.marks for run in runs} == {("share_from_concurrency",)}


def test_a_mig_instance_of_a_device_is_its_slices(tmp_path: Path) -> None:
    """B9: by instance, not by device."""
    runs = runs_of(
        tmp_path,
        series(device("a", GPU_I_ID="1", GPU_I_PROFILE="3g.20gb"), every(0, 300)),
        series(device("b", GPU_I_ID="7", GPU_I_PROFILE="1g.5gb"), every(0, 300)),
    )
    assert [(run.job, run.share_num, run.share_den) for run in runs] == [("acme/a", 3, 7), ("acme/b", 1, 7)]


def test_a_pod_whose_request_is_told_is_not_counted_again_by_its_device(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, series(request(), every(0, 300), "1"), series(device("train-0"), every(0, 300)))
    assert [(run.device, run.gpus) for run in runs] == [("", 1)]


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (answer(series(request(), [0, 30])), 96),
        (answer(series({"resource": "nvidia_com_gpu", "pod": "a"}, [0, 30])), 90),
        (answer(series(device("a"), [0, 30])), 20),
        (answer(series({"__name__": "node_load1"}, [0, 30])), 0),
        ('{"code":200,"data":[]}', 0),
        ("job_id,tenant,start,end\n", 0),
    ],
)
def test_it_is_known_by_its_metrics(tmp_path: Path, text: str, score: int) -> None:
    path = tmp_path / "any.json"
    path.write_text(text)
    found = detect(open_source(path))
    assert (0 if found is None else found.score) == score
