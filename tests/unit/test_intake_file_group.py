"""Formats whose files are parts of one whole: a file a metric, a file a chunk, windows that overlap between files."""

import json
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

import pytest
from wattledger_audit.assessment.run_book import Shape, Who
from wattledger_audit.gathering import Gathered, gather
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused, Rejections

from tests.unit.kube_answers import Item, S, T, about, answer, every, request, series

PARTS: dict[str, list[Item]] = {
    "requests_0": [series(request(resource="nvidia_com_gpu_shared"), every(0, 1800), "2")],
    "requests_1": [series(request(resource="nvidia_com_gpu_shared"), every(1500, 3600), "2")],
    "phases": [
        series(about("kube_pod_status_phase", phase="Running"), every(600, 3000)),
        series(about("kube_pod_status_phase", phase="Succeeded"), every(3000, 3600)),
    ],
    "completions": [series(about("kube_pod_completion_time"), every(3000, 3600), str(T + 2990))],
    "labels": [series(about("kube_pod_labels", label_tenant="Acme Inc", label_plan="spot"), every(0, 3600))],
    "nodes": [
        series(
            {
                "__name__": "kube_node_labels", "node": "n1", "label_nvidia_com_gpu_product": "NVIDIA-L40S-SHARED",
                "label_nvidia_com_gpu_replicas": "4",
            },
            every(0, 3600),
        )
    ],
}  # fmt: skip


def gathered(folder: Path, files: Mapping[str, str]) -> Gathered:
    """The files in the order of the mapping."""
    for name, text in files.items():
        (folder / name).write_text(text)
    with Rejections.into(folder / "rejected.csv") as rejections:
        return gather([(folder / name, None) for name in files], ReadOptions(), rejections)


def runs_in(found: Gathered) -> list[tuple[str, Who, Shape, int, int]]:
    """What the runs are, without where they stand."""
    book = found.runs
    return sorted(
        (book.jobs[n], book.whos[book.who[n]], book.shapes[book.shape[n]], book.start_us[n], book.end_us[n])
        for n in range(len(book))
    )


def test_a_file_for_each_metric_says_what_one_file_with_all_says(tmp_path: Path) -> None:
    apart = gathered(tmp_path, {f"{name}.json": answer(*items) for name, items in PARTS.items()})
    together = gathered(tmp_path, {"all.json": "\n".join(answer(*items) for items in PARTS.values())})
    ((job, who, shape, start_us, end_us),) = runs_in(apart)
    assert runs_in(together) == runs_in(apart)
    assert job == "acme/train-0"
    assert (who.tenant, who.plan, who.state) == ("Acme Inc", "spot", "COMPLETED")
    assert (shape.gpus, shape.share_den) == (2, 4)
    assert (start_us, end_us) == ((T + 600) * S, (T + 2990) * S)
    assert dict(apart.runs.marks) == {}


def test_files_of_one_whole_come_in_any_order(tmp_path: Path) -> None:
    orders = list(permutations(PARTS))[::97]
    found = [gathered(tmp_path, {f"{name}.json": answer(*PARTS[name]) for name in order}) for order in orders]
    assert len(found) > 5
    for each in found:
        assert runs_in(each) == runs_in(found[0])
        assert {(file.name, file.records) for file in each.files if file.records} == {("requests_0.json", 1)}


def test_the_file_and_series_of_a_claim_are_where_its_run_stands(tmp_path: Path) -> None:
    found = gathered(
        tmp_path,
        {
            "b.json": answer(series(request("train-1"), every(0, 600)), series(request("train-2"), every(0, 600))),
            "a.json": answer(*PARTS["labels"], series(request("train-3"), every(0, 600))),
        },
    )
    at = {job: (found.run_files[found.runs.file[n]], found.runs.line[n]) for n, job in enumerate(found.runs.jobs)}
    assert at == {"acme/train-1": ("b.json", 1), "acme/train-2": ("b.json", 2), "acme/train-3": ("a.json", 2)}


def test_a_claim_of_which_no_phase_is_told_is_marked(tmp_path: Path) -> None:
    found = gathered(tmp_path, {"requests.json": answer(*PARTS["requests_0"]), "nodes.json": answer(*PARTS["nodes"])})
    assert dict(found.runs.marks) == {"phase_not_told": 1}


def window(hour: int, hours: int) -> str:
    start, end = f"2026-10-01T{hour:02d}:00:00Z", f"2026-10-01T{hour + hours:02d}:00:00Z"
    each = {
        "name": "train-0", "properties": {"namespace": "acme", "pod": "train-0", "node": "n1", "container": "main"},
        "window": {"start": start, "end": end}, "start": start, "end": end, "minutes": hours * 60, "gpuCount": 2,
        "gpuHours": 2 * hours,
    }  # fmt: skip
    return json.dumps({"code": 200, "data": [{"train-0": each}]})


@pytest.mark.parametrize("names", [("a", "b", "c"), ("c", "b", "a"), ("b", "a", "c")])
def test_opencost_windows_that_overlap_from_file_to_file_count_once(tmp_path: Path, names: tuple[str, ...]) -> None:
    windows = {"a": window(0, 12), "b": window(6, 12), "c": window(6, 3)}
    found = gathered(tmp_path, {f"{name}.json": windows[name] for name in names})
    spans = [(found.runs.start_us[n], found.runs.end_us[n]) for n in range(len(found.runs))]
    assert sum(end_us - start_us for start_us, end_us in spans) == 18 * 3600 * S
    assert sum(1 for _ in (tmp_path / "rejected.csv").open()) == 2  # a header, and the window that others cover


def test_the_same_file_in_two_roles_is_read_for_both(tmp_path: Path) -> None:
    path = tmp_path / "instances.csv"
    path.write_text(
        "job_id,tenant,gpus,start,end,sku,cost,currency\n1,acme,8,2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,H100,384,USD\n"
    )
    with Rejections.into(tmp_path / "rejected.csv") as rejections:
        found = gather([(path, "usage"), (path, "billing"), (path, "usage")], ReadOptions(), rejections)
    assert [file.records for file in found.files] == [1, 1, 0]
    assert found.files[2].note == "the same bytes as instances.csv: read once"


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    row = (
        "invoice_id,tenant,period_start,period_end,sku,quantity,unit,amount,currency\n"
        "{},acme,2026-10-01,2026-11-01,H100,1,h,{},USD\n"
    )
    paths = [tmp_path / folder / "invoices.csv" for folder in ("jan/eu", "feb/eu", "jan/us")]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True)
        path.write_text(row.format(f"I{number}", "9.50") + "I9,acme,2026-10-01,2026-11-01,H100,1,h,none of it,USD\n")
    with Rejections.into(tmp_path / "rejected.csv") as rejections:
        found = gather([(path, None) for path in [*paths, paths[0]]], ReadOptions(), rejections)
    names = ["jan/eu/invoices.csv", "feb/eu/invoices.csv", "us/invoices.csv"]
    assert [file.name for file in found.files] == [*names, names[0]]
    assert [name for name, _ in found.billing] == names
    assert {name for name, _ in rejections.counts} == set(names)


NOTHING = '{"status":"success","data":{"resultType":"matrix","result":[]}}'
FAILED = '{"status":"error","errorType":"bad_data","error":"too many samples"}'


def test_a_query_that_found_nothing_is_no_reason_to_refuse_the_others(tmp_path: Path) -> None:
    """No pod completed in that range, say: the answer has no series."""
    texts = {f"{name}.json": answer(*items) for name, items in PARTS.items()} | {"completions_2.json": NOTHING}
    assert runs_in(gathered(tmp_path, texts)) == runs_in(
        gathered(tmp_path, {f"{name}.json": answer(*items) for name, items in PARTS.items()})
    )


@pytest.mark.parametrize("role", [None, "usage", "telemetry"])
def test_a_query_that_failed_is_refused_with_what_prometheus_said(tmp_path: Path, role: str | None) -> None:
    path = tmp_path / "requests.json"
    path.write_text(FAILED)
    refused = pytest.raises(InputRefused, match=r"requests\.json.*too many samples")
    with Rejections.into(tmp_path / "rejected.csv") as rejections, refused:
        gather([(path, role)], ReadOptions(), rejections)
