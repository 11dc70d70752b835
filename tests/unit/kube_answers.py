"""Prometheus answers with kube-state-metrics' and GPU exporters' series, written and read back."""

import csv
import json
from pathlib import Path
from typing import Any

from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import UsageRun
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.source import open_source
from wattledger_audit.intake.usage_kube_state import read

T = 1_790_841_600
STEP = 30
S = 1_000_000
REQUESTS = "kube_pod_container_resource_requests"
Labels = dict[str, str]
Item = dict[str, Any]


def series(labels: Labels, stamps: list[int], value: str = "1") -> Item:
    """A series with one value at T + each of the stamps (s)."""
    return {"metric": labels, "values": [[T + at, value] for at in stamps]}


def every(start: int, stop: int, step: int = STEP) -> list[int]:
    return list(range(start, stop, step))


def request(pod: str = "train-0", resource: str = "nvidia_com_gpu", **labels: str) -> Labels:
    base = {
        "__name__": REQUESTS, "namespace": "acme", "pod": pod, "container": "main", "node": "n1", "resource": resource,
        "unit": "integer", "uid": f"uid-{pod}", "instance": "10.0.0.1:8080",
    }  # fmt: skip
    return {key: value for key, value in (base | labels).items() if value}


def about(name: str, pod: str = "train-0", **labels: str) -> Labels:
    base = {"__name__": name, "namespace": "acme", "pod": pod, "uid": f"uid-{pod}"}
    return {key: value for key, value in (base | labels).items() if value}


def answer(*items: Item) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(items)}})


def read_text(
    folder: Path, text: str, options: ReadOptions | None = None
) -> tuple[list[UsageRun], list[dict[str, str]]]:
    path, rejected = folder / "range.json", folder / "rejected.csv"
    path.write_text(text)
    with Rejections.into(rejected) as rejections:
        runs = list(read(open_source(path), options or ReadOptions(), rejections))
    with rejected.open(newline="") as file:
        return runs, list(csv.DictReader(file))


def runs_of(folder: Path, *items: Item) -> list[UsageRun]:
    runs, rejected = read_text(folder, answer(*items))
    assert rejected == []
    return runs


def times(runs: list[UsageRun]) -> list[tuple[int, int]]:
    """[start, end) of runs in seconds from T."""
    return [((run.start_us or 0) // S - T, (run.end_us or 0) // S - T) for run in runs]


def device(pod: str, uuid: str = "GPU-aa", **labels: str) -> Labels:
    base = {
        "__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": uuid, "gpu": "0", "modelName": "NVIDIA A100-SXM4-40GB",
        "Hostname": "n1", "exported_pod": pod, "exported_namespace": "acme", "exported_container": "main",
        "pod": "dcgm-exporter-x", "namespace": "monitoring", "container": "exporter",
    }  # fmt: skip
    return {key: value for key, value in (base | labels).items() if value}
