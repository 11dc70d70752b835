"""A node for tests of the Kubernetes watcher: a kubelet's socket, an API server, and looks at told times."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wattledger_agent.clock import SystemClock
from wattledger_agent.watchers.kube import KubernetesWatcher
from wattledger_agent.watchers.kube_api import KubeApi
from wattledger_agent.watchers.kube_podresources import PodResources
from wattledger_agent.watchers.run import Finding, Run, Sighting
from wattledger_agent.watchers.watcher import Watcher

from tests.kube_api_server import ApiServer, S, T, api_server, us
from tests.kube_pod_resources_server import KubeletSocket, kubelet_socket

GPU_A = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
GPU_B = "GPU-bbbbbbbb-0000-0000-0000-000000000002"


@dataclass
class KubeNode:
    """`look(s)` looks `s` seconds after T, with the API server asked each time."""

    kubelet: KubeletSocket
    api: ApiServer
    watcher: KubernetesWatcher
    findings: list[Finding] = field(default_factory=list)
    last: Sighting = field(default_factory=lambda: Sighting(0))

    def look(self, at_s: float) -> list[Run]:
        looked: Watcher = self.watcher
        self.last = looked.look(us(at_s))
        assert self.last.is_snapshot and self.last.at_us == us(at_s)
        self.findings += self.last.findings
        return list(self.last.runs)

    def one(self, at_s: float) -> Run:
        (run,) = self.look(at_s)
        return run

    @property
    def reasons(self) -> list[str]:
        return [one.reason for one in self.findings]


@contextmanager
def kube_node(folder: Path, with_api: bool = True, **settings: Any) -> Iterator[KubeNode]:
    """`settings` go to the watcher."""
    with kubelet_socket(folder) as kubelet, api_server(folder) as api:
        reader = KubeApi(api.url, SystemClock(), api.token_path, api.ca_path, timeout_s=3.0) if with_api else None
        watcher = KubernetesWatcher(
            "c1", "n1", PodResources(kubelet.path, 2.0), reader, **{"api_period_us": 0, **settings}
        )
        try:
            yield KubeNode(kubelet, api, watcher)
        finally:
            watcher.close()


def seconds(at_us: int | None) -> float | None:
    """Seconds from T."""
    return None if at_us is None else (at_us - T * S) / S


def times(run: Run) -> tuple[float | None, float | None]:
    return seconds(run.started_us), seconds(run.ended_us)
