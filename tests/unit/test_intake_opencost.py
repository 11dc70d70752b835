"""OpenCost and Kubecost allocations: GPU-hours by pod, odd numbers, names that are nobody's, windows told twice."""

import csv
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import UsageRun
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.source import open_source
from wattledger_audit.intake.usage_opencost import detect, read

S = 1_000_000
T = 1_790_812_800  # 2026-10-01T00:00:00Z
Item = dict[str, Any]


def allocation(pod: str = "train-0", hour: int = 0, hours: int = 1, **fields: Any) -> Item:
    """One allocation of `hours` from `hour` of 1 October 2026 on; fields that are `...` are left out."""
    start, end = f"2026-10-01T{hour:02d}:00:00Z", f"2026-10-01T{hour + hours:02d}:00:00Z"
    base: Item = {
        "name": f"east/n1/acme/{pod}/main",
        "properties": {
            "cluster": "east", "node": "n1", "container": "main", "namespace": "acme", "pod": pod,
        },
        "window": {"start": start, "end": end}, "start": start, "end": end, "minutes": hours * 60, "gpuCount": 2,
        "gpuHours": 2 * hours, "gpuCost": 6.1, "totalCost": 7.25,
    }  # fmt: skip
    return {key: value for key, value in (base | fields).items() if value is not ...}


def answer(*sets: list[Item]) -> str:
    return json.dumps({"code": 200, "data": [{each["name"]: each for each in one} for one in sets]})


def read_text(
    folder: Path, text: str, options: ReadOptions | None = None
) -> tuple[list[UsageRun], list[dict[str, str]]]:
    path, rejected = folder / "allocation.json", folder / "rejected.csv"
    path.write_text(text)
    with Rejections.into(rejected) as rejections:
        runs = list(read(open_source(path), options or ReadOptions(), rejections))
    with rejected.open(newline="") as file:
        return runs, list(csv.DictReader(file))


def one_of(folder: Path, **fields: Any) -> UsageRun:
    runs, rejected = read_text(folder, answer([allocation(**fields)]))
    assert rejected == []
    return runs[0]


def test_an_allocation_is_a_run_of_its_pod(tmp_path: Path) -> None:
    run = one_of(tmp_path)
    assert (run.cluster, run.job, run.tenant, run.nodes) == ("east", "acme/train-0", "acme", ("n1",))
    assert (run.start_us, run.end_us) == (T * S, (T + 3600) * S)
    assert (run.gpus, run.share_num, run.share_den, run.marks) == (2, 1, 1, ())


def test_windows_that_follow_each_other_are_parts_that_add_up(tmp_path: Path) -> None:
    runs, rejected = read_text(tmp_path, answer(*[[allocation(hour=hour)] for hour in range(4)]))
    assert rejected == []
    assert sum((run.end_us or 0) - (run.start_us or 0) for run in runs) == 4 * 3600 * S
    assert len({run.run_key for run in runs}) == 4
    assert {run.job for run in runs} == {"acme/train-0"}


def test_a_window_that_is_told_again_counts_once(tmp_path: Path) -> None:
    runs, rejected = read_text(
        tmp_path,
        answer([allocation(hour=1)], [allocation(hour=1)], [allocation(hour=0, hours=3)], [allocation(hour=1)]),
    )
    covered = sorted(((run.start_us or 0) // S - T, (run.end_us or 0) // S - T) for run in runs)
    assert covered == [(0, 3600), (3600, 7200), (7200, 10800)]
    assert [each["reason"].split(":")[0] for each in rejected] == ["duplicate_window", "duplicate_window"]
    assert {each["value"] for each in rejected} == {"2026-10-01T01:00:00Z to 2026-10-01T02:00:00Z"}


@pytest.mark.parametrize(
    ("fields", "gpus", "share", "marks"),
    [
        ({"gpuCount": 0, "gpuHours": 0}, 0, Fraction(1), ()),
        ({"gpuCount": ..., "gpuHours": ...}, 0, Fraction(1), ()),
        ({"gpuCount": 0.25, "gpuHours": 0.25}, 1, Fraction(1, 4), ()),
        ({"gpuCount": 0.33333, "gpuHours": 0.33333}, 1, Fraction(1, 3), ()),  # rounded to 5 decimals
        ({"gpuCount": 0.14286, "gpuHours": 0.14286}, 1, Fraction(1, 7), ()),
        ({"gpuCount": 1.5, "gpuHours": 1.5}, 3, Fraction(1, 2), ()),
        ({"gpuCount": 8.0, "gpuHours": 8}, 8, Fraction(1), ()),
        ({"gpuCount": "4", "gpuHours": "4"}, 4, Fraction(1), ()),
        ({"gpuCount": ..., "gpuHours": 3}, 3, Fraction(1), ()),
        ({"gpuCount": None, "gpuHours": 3}, 3, Fraction(1), ()),
        ({"gpuCount": 0, "gpuHours": 3}, 3, Fraction(1), ()),
        ({"gpuCount": 2, "gpuHours": ...}, 2, Fraction(1), ()),
        ({"gpuCount": None, "gpuHours": None}, None, Fraction(1), ("gpus_unknown",)),
        ({"gpuCount": float("nan"), "gpuHours": float("inf")}, None, Fraction(1), ("gpus_unknown",)),
        ({"gpuCount": -1, "gpuHours": -1}, None, Fraction(1), ("gpus_unknown", "negative_gpus")),
        ({"gpuCount": 2, "gpuHours": 4}, 2, Fraction(1), ("gpu_hours_disagree",)),  # C17: the average was doubled
    ],
)
def test_gpus_are_what_count_and_hours_say(
    tmp_path: Path, fields: Item, gpus: int | None, share: Fraction, marks: tuple[str, ...]
) -> None:
    run = one_of(tmp_path, **fields)
    assert (run.gpus, Fraction(run.share_num, run.share_den), run.marks) == (gpus, share, marks)


def test_four_quarter_pods_for_an_hour_are_one_gpu_hour(tmp_path: Path) -> None:
    pods = [allocation(f"p{i}", gpuCount=0.25, gpuHours=0.25) for i in range(4)]
    runs, _ = read_text(tmp_path, answer(pods))
    held = sum(Fraction(r.share_num, r.share_den) * (r.gpus or 0) * ((r.end_us or 0) - (r.start_us or 0)) for r in runs)
    assert held == 3600 * S


@pytest.mark.parametrize(
    "name", ["__idle__", "__unallocated__", "__unmounted__", "east/__idle__", "east/n1/__unallocated__"]
)
def test_names_that_are_nobodys_are_rejected_with_their_hours(tmp_path: Path, name: str) -> None:
    runs, rejected = read_text(tmp_path, answer([allocation(name=name), allocation("b")]))
    assert [run.job for run in runs] == ["acme/b"]
    code = "idle_capacity" if name.endswith("__idle__") else "not_a_tenant"
    assert (rejected[0]["value"], rejected[0]["reason"].split(":")[0]) == (name, code)
    assert "2 GPU-hours" in rejected[0]["reason"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"minutes": -4435032.0}, "negative_minutes"),
        ({"end": "2026-09-30T23:00:00Z"}, "end_before_start"),
        ({"end": "2026-10-01T00:00:00Z"}, "no_time"),
        ({"start": None, "window": None}, "bad_time"),
        ({"start": "yesterday"}, "bad_time"),
        ({"start": "2026-10-01T00:00:00"}, "bad_time"),
    ],
)
def test_times_that_can_not_be_are_rejected(tmp_path: Path, fields: Item, code: str) -> None:
    runs, rejected = read_text(tmp_path, answer([allocation(**fields)]))
    assert runs == []
    assert [(each["line"], each["reason"].split(":")[0]) for each in rejected] == [("1", code)]


def test_minutes_that_differ_from_the_times_are_marked(tmp_path: Path) -> None:
    assert one_of(tmp_path, minutes=30).marks == ("elapsed_disagrees",)
    assert one_of(tmp_path, minutes=None).marks == ()


def test_a_pod_that_ran_for_part_of_the_window_has_its_own_times(tmp_path: Path) -> None:
    run = one_of(tmp_path, start="2026-10-01T00:15:00Z", end="2026-10-01T00:45:00Z", minutes=30, gpuHours=1)
    assert ((run.start_us or 0) // S - T, (run.end_us or 0) // S - T) == (900, 2700)


@pytest.mark.parametrize(
    ("labels", "tenant", "project"),
    [
        ({}, "acme", ""),
        ({"tenant": "globex"}, "globex", ""),
        ({"wattledger_tenant": "initech", "tenant": "globex", "project": "vision"}, "initech", "vision"),
        (None, "acme", ""),
    ],
)
def test_a_label_names_the_tenant_before_the_namespace(
    tmp_path: Path, labels: dict[str, str] | None, tenant: str, project: str
) -> None:
    item = allocation()
    item["properties"]["labels"] = labels
    runs, _ = read_text(tmp_path, answer([item]))
    assert (runs[0].tenant, runs[0].project) == (tenant, project)


def test_the_card_is_named_and_a_shared_one_has_an_unknown_share(tmp_path: Path) -> None:
    card = {"gpuDevice": "nvidia0", "gpuModel": "Tesla-T4", "isGPUShared": True}
    run = one_of(tmp_path, gpuCount=1, gpuHours=1, gpuAllocation=card)
    assert (run.gpu_model, run.marks) == ("Tesla-T4", ("share_unknown",))


def test_aggregated_rows_are_runs_of_their_name(tmp_path: Path) -> None:
    item = allocation(name="acme", properties={"cluster": "east", "namespace": "acme"}, gpuCount=12.5, gpuHours=12.5)
    runs, _ = read_text(tmp_path, answer([item]))
    assert (runs[0].job, runs[0].tenant, runs[0].nodes, runs[0].gpus, runs[0].share_den) == ("acme", "acme", (), 25, 2)


@pytest.mark.parametrize(
    "shape",
    [
        lambda one: {"code": 200, "status": "success", "data": [one]},
        lambda one: {"code": 200, "data": one},
        lambda one: {"data": {"sets": [{"allocations": one, "window": {}}]}},
        lambda one: [one],
        lambda one: {"code": 200, "data": [{}, None, one]},
    ],
)
def test_every_shape_of_the_answer_is_read(tmp_path: Path, shape: Any) -> None:
    item = allocation()
    runs, _ = read_text(tmp_path, json.dumps(shape({item["name"]: item})))
    assert [run.job for run in runs] == ["acme/train-0"]


def test_several_answers_in_one_file_are_all_read(tmp_path: Path) -> None:
    runs, rejected = read_text(tmp_path, "\n".join(answer([allocation(hour=hour)]) for hour in range(3)))
    assert (len(runs), rejected) == (3, [])


def test_the_cluster_that_was_said_fills_in(tmp_path: Path) -> None:
    item = allocation(properties={"namespace": "acme", "pod": "a"})
    runs, _ = read_text(tmp_path, answer([item]), ReadOptions(cluster="west"))
    assert runs[0].cluster == "west"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"code":500,"message":"window too large"}', "window too large"),
        ('{"code":200,"data":[{"a":{"name":', "cut"),
    ],
)
def test_a_file_without_its_allocations_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        read_text(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (answer([allocation()]), 95),
        (json.dumps({"status": "success", "data": {"result": []}}), 0),
        ("job_id,tenant\n", 0),
        ('{"code":400,"message":"Invalid window"}', 20),
        ('{"code":200,"message":"ok"}', 0),
        ("[1]", 0),
    ],
)
def test_it_is_known_by_its_fields(tmp_path: Path, text: str, score: int) -> None:
    path = tmp_path / "any.json"
    path.write_text(text)
    found = detect(open_source(path))
    assert (0 if found is None else found.score) == score
