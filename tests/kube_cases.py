"""Series of kube-state-metrics and of dcgm-exporter over 10 February 2026, as Prometheus answers, for tests."""

import json
from collections.abc import Mapping
from typing import Any

DAY_START_S = 1_770_681_600
"""10 February 2026, 0:00 UTC: times below are seconds from it."""
HOUR = 3600
STEP = 60
P = "GPU-11111111-1111-1111-1111-111111111111"
Item = dict[str, Any]
WHOLE: Mapping[str, str] = {}
"""Labels of a whole GPU, where a MIG instance has its own."""


def series(first_s: int, until_s: int, value: str = "1", **labels: str) -> Item:
    """A series with samples from `first_s` to before `until_s`."""
    values = [[DAY_START_S + at, value] for at in range(first_s, until_s, STEP)]
    return {"metric": labels, "values": values}


def answer(*items: Item) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(items)}})


def requests(
    first_s: int, until_s: int, pod: str = "train-0", count: str = "1", resource: str = "nvidia_com_gpu",
    container: str = "main", metric: str = "kube_pod_container_resource_requests", **labels: str,
) -> Item:  # fmt: skip
    """What a pod of namespace acme on node n1 asks for, as kube-state-metrics tells."""
    about = {"namespace": "acme", "node": "n1", "unit": "integer", "instance": "10.0.0.1:8080", "uid": f"uid-{pod}"}
    return series(
        first_s, until_s, count, __name__=metric, pod=pod, container=container, resource=resource, **about | labels
    )  # fmt: skip


def of_pod(name: str, first_s: int, until_s: int, pod: str = "train-0", value: str = "1", **labels: str) -> Item:
    about = {"namespace": "acme", "uid": f"uid-{pod}"}
    return series(first_s, until_s, value, __name__=name, pod=pod, **about | labels)


def device(
    metric: str, value: str, pod: str = "", until_s: int = HOUR, part: Mapping[str, str] = WHOLE, **labels: str
) -> Item:
    """A series of dcgm-exporter in a cluster that keeps the exporter's own labels (honorLabels=false)."""
    about = {"UUID": P, "gpu": "0", "modelName": "NVIDIA A100-SXM4-40GB", "Hostname": "n1", "pod": "dcgm-exporter-x"}
    named = {"exported_pod": pod, "exported_namespace": "acme", "exported_container": "main"} if pod else {}
    return series(0, until_s, value, __name__=metric, **about | named | {**part, **labels})
