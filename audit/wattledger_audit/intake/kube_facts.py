"""What kube-state-metrics says of pods, containers and nodes, series by series. Owns label names, gives no verdict.

Two exporters (`instance`, `job`, replicas) say the same thing: identity is cluster, namespace, pod, uid, container,
resource and node, nothing else. With honorLabels=false the true names are in `exported_pod` and so on.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from wattledger_core.units import US_PER_S

from wattledger_audit.intake.kube_series import SpanStore
from wattledger_audit.intake.prometheus_range import Series

REQUESTS = "kube_pod_container_resource_requests"
LIMITS = "kube_pod_container_resource_limits"
INIT_REQUESTS = "kube_pod_init_container_resource_requests"
INIT_LIMITS = "kube_pod_init_container_resource_limits"
_CLAIMS = (REQUESTS, LIMITS, INIT_REQUESTS, INIT_LIMITS)
_TIMES = {
    "kube_pod_start_time": "start",
    "kube_pod_created": "created",
    "kube_pod_completion_time": "completion",
    "kube_pod_container_state_started": "container_started",
}
_TERMINATED = ("kube_pod_container_status_terminated", "kube_pod_container_state_terminated")
_REASONS = (
    "kube_pod_container_status_terminated_reason",
    "kube_pod_container_status_last_terminated_reason",
    "kube_pod_status_reason",
)


class PodKey(NamedTuple):
    """`uid` is empty where the series do not carry it."""

    cluster: str
    namespace: str
    pod: str
    uid: str


class ClaimKey(NamedTuple):
    """One container's request of one resource on one node."""

    pod: PodKey
    container: str
    resource: str
    node: str


class TimeKey(NamedTuple):
    """A stamp about a pod, or one of its containers: `kind` is start, created, completion or container_started."""

    pod: PodKey
    kind: str
    container: str


class KubeFacts:
    """All that the series of one file say."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self.claims: dict[str, SpanStore[ClaimKey]] = {name: SpanStore() for name in _CLAIMS}
        self.phases: SpanStore[tuple[PodKey, str]] = SpanStore()
        self.phases_of: dict[PodKey, set[str]] = {}
        self.times: SpanStore[TimeKey] = SpanStore()
        self.terminated: SpanStore[tuple[PodKey, str]] = SpanStore()
        self.reasons: dict[PodKey, set[tuple[str, str]]] = {}
        self.pod_labels: dict[PodKey, dict[str, str]] = {}
        self.node_labels: dict[tuple[str, str], dict[str, str]] = {}
        self.restartable_init: set[tuple[PodKey, str]] = set()
        self.place_of: dict[ClaimKey, int] = {}
        self.uids: dict[tuple[str, str, str], set[str]] = {}
        self.steps_us: set[int] = set()

    def add(self, series: Series) -> bool:
        """Takes a series in; False: its metric says nothing that is needed."""
        labels = series.labels
        name = metric_name(labels)
        taken = self._add_claim(name, series) or self._add_pod_fact(name, series)
        if not taken and name == "kube_node_labels":
            node = _own(labels, "node")
            self.node_labels.setdefault((labels.get("cluster", self._cluster), node), {}).update(_prefixed(labels))
            taken = True
        if taken and series.step_us:
            self.steps_us.add(series.step_us)
        return taken

    def _add_claim(self, name: str, series: Series) -> bool:
        store = self.claims.get(name)
        if store is None:
            return False
        labels = series.labels
        pod = self.pod_key(labels)
        key = ClaimKey(pod, _own(labels, "container"), labels.get("resource", ""), _own(labels, "node"))
        store.add(key, series.samples, series.step_us)
        self.place_of.setdefault(key, series.place)
        return True

    def _add_pod_fact(self, name: str, series: Series) -> bool:
        labels, samples = series.labels, series.samples
        pod, container = self.pod_key(labels), _own(labels, "container")
        if name == "kube_pod_status_phase":
            self.phases.add((pod, labels.get("phase", "")), samples, series.step_us)
            self.phases_of.setdefault(pod, set()).add(labels.get("phase", ""))
        elif name in _TIMES:
            kind = _TIMES[name]
            key = TimeKey(pod, kind, container if kind == "container_started" else "")
            self.times.add(key, [(at, value) for at, value in samples if value > 0], series.step_us)
        elif name in _TERMINATED:
            self.terminated.add((pod, container), samples, series.step_us)
        elif name in _REASONS:
            if any(value for _, value in samples):
                who = "" if name == "kube_pod_status_reason" else container
                self.reasons.setdefault(pod, set()).add((who, labels.get("reason", "")))
        elif name == "kube_pod_labels":
            self.pod_labels.setdefault(pod, {}).update(_prefixed(labels))
        elif name == "kube_pod_init_container_info":
            if labels.get("restart_policy") == "Always":
                self.restartable_init.add((pod, container))
        else:
            return False
        return True

    def pod_key(self, labels: Mapping[str, str]) -> PodKey:
        """The pod that a series is about."""
        key = PodKey(
            labels.get("cluster", self._cluster), _own(labels, "namespace"), _own(labels, "pod"), _own(labels, "uid")
        )
        self.uids.setdefault(key[:3], set()).add(key.uid)
        return key

    def same_pods(self, pod: PodKey) -> list[PodKey]:
        """The keys under which facts of this pod may stand: with its uid or, where series lack it, without."""
        uids = self.uids.get(pod[:3], set())
        fitting = {pod.uid, ""} if pod.uid else uids | {""}
        return [pod._replace(uid=uid) for uid in sorted(fitting & (uids | {pod.uid}))]

    def step_us(self) -> int | None:
        """The step for samples that came one a document; None: nothing tells it."""
        if self.steps_us:
            return min(self.steps_us)
        gaps = [step for store in self.claims.values() if (step := store.single_step_us()) is not None]
        return min(gaps) if gaps else None

    def last_us(self) -> int:
        """The last sample of any claim."""
        return max(store.last_us() for store in self.claims.values())


def metric_name(labels: Mapping[str, str]) -> str:
    """The metric of a series; an aggregation drops the name, and its labels then tell it."""
    name = labels.get("__name__", "")
    if not name and "resource" in labels:
        return REQUESTS
    if not name and "phase" in labels:
        return "kube_pod_status_phase"
    return name


def stamp_us(value: Decimal) -> int:
    """µs of a value that is an epoch in seconds."""
    return int(value * US_PER_S)


def _own(labels: Mapping[str, str], name: str) -> str:
    return labels.get(f"exported_{name}") or labels.get(name, "")


def _prefixed(labels: Mapping[str, str]) -> dict[str, str]:
    """The Kubernetes labels of a pod or node, without the `label_` in front; empty ones left out."""
    return {key[6:]: value for key, value in labels.items() if key.startswith("label_") and value}
