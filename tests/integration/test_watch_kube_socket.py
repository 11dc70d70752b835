"""The kubelet's socket for real: gRPC over a unix socket, with everything a kubelet does to its clients."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest
from wattledger_agent.watchers.kube_hold import ClaimHold, DeviceHold
from wattledger_agent.watchers.kube_podresources import PodResources
from wattledger_agent.watchers.watcher import WatcherUnavailable

from tests.kube_pod_resources_server import (
    KubeletSocket,
    claim,
    container,
    devices,
    gpu_pod,
    integer,
    kubelet_socket,
    packed,
    pod,
    text,
)

GPU = "GPU-aaaaaaaa-0000-0000-0000-000000000001"


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[KubeletSocket]:
    with kubelet_socket(tmp_path) as running:
        yield running


@pytest.fixture
def client(kubelet: KubeletSocket) -> Iterator[PodResources]:
    reader = PodResources(kubelet.path, deadline_s=2.0)
    yield reader
    reader.close()


def names(client: PodResources) -> list[str]:
    return [one.name for one in client.pods()]


def test_a_list_is_read_as_the_kubelet_means_it(kubelet: KubeletSocket, client: PodResources) -> None:
    kubelet.pods = [
        pod(
            "acme",
            "train-0",
            container(
                "main",
                devices("nvidia.com/gpu", GPU, numa=0),
                devices("nvidia.com/gpu", "GPU-b", numa=1),  # the kubelet lists a resource once a NUMA node
                devices("rdma/hca", "0000:3b:00.1"),
                cpu_ids=(0, 1, 2, 128),
                memory_bytes=1 << 34,
            ),
            container("side", claims=[claim("acme", "c", "gpu.nvidia.com", "n1", "gpu-0", "share-1")], cpu_ids=(2, 3)),
            container("logs"),
        ),
        pod("kube-system", "coredns", container("coredns")),
    ]
    (found,) = client.pods()
    assert (found.key, found.holders, found.cpus, found.memory_bytes) == (
        ("acme", "train-0"),
        ("main", "side"),
        5,
        1 << 34,
    )
    assert found.containers[0].devices == (
        DeviceHold("nvidia.com/gpu", (GPU, "GPU-b")),
        DeviceHold("rdma/hca", ("0000:3b:00.1",)),
    )
    assert found.containers[1].claims == (ClaimHold("acme", "c", "gpu.nvidia.com", "n1", "gpu-0", "share-1"),)


def test_cpus_and_memory_of_the_whole_pod_are_read_where_the_kubelet_has_them(
    kubelet: KubeletSocket, client: PodResources
) -> None:
    extra = packed(4, range(8)) + text(5, text(1, "memory") + integer(2, 1 << 30))
    kubelet.pods = [pod("acme", "p", container("main", devices("nvidia.com/gpu", GPU)), extra=extra)]
    (found,) = client.pods()
    assert (found.cpus, found.memory_bytes) == (8, 1 << 30)


def test_allocatable_devices_are_read(kubelet: KubeletSocket, client: PodResources) -> None:
    kubelet.allocatable = [
        devices("nvidia.com/gpu", f"{GPU}::0", numa=0),
        devices("nvidia.com/gpu", f"{GPU}::1", numa=1),
    ]
    assert client.allocatable() == (DeviceHold("nvidia.com/gpu", (f"{GPU}::0", f"{GPU}::1")),)


def test_an_empty_list_and_an_empty_answer_are_no_pods(kubelet: KubeletSocket, client: PodResources) -> None:
    assert (names(client), client.allocatable()) == ([], ())
    kubelet.raw = b""
    assert names(client) == []
    kubelet.raw, kubelet.pods = None, [pod("acme", "p", container("main")), pod("", ""), b""]
    assert names(client) == []


def test_fields_of_a_future_kubelet_are_skipped(kubelet: KubeletSocket, client: PodResources) -> None:
    future = text(77, text(1, "whatever") + integer(2, 5)) + integer(78, 1 << 60)
    box = container("main", devices("nvidia.com/gpu", GPU) + future) + future
    kubelet.pods = [pod("acme", "p", box, extra=future)]
    kubelet.raw = text(1, kubelet.pods[0]) + future
    assert names(client) == ["p"]


def test_ten_thousand_pods_are_listed_in_good_time(kubelet: KubeletSocket, client: PodResources) -> None:
    kubelet.pods = [gpu_pod(f"inference-{i:05}", f"GPU-{i:08x}", f"GPU-{i:08x}-1") for i in range(10_000)]
    began_s = time.monotonic()
    assert len(client.pods()) == 10_000
    assert time.monotonic() - began_s < 10
    kubelet.pods[17] = gpu_pod("renamed", "GPU-17")
    assert names(client)[17] == "renamed"


def test_a_kubelet_that_restarts_is_found_again_at_once(kubelet: KubeletSocket, client: PodResources) -> None:
    kubelet.pods = [gpu_pod("p", GPU)]
    for restarts in range(3):
        assert (names(client), client.restarts) == (["p"], restarts)
        kubelet.restart()
    kubelet.stop()
    with pytest.raises(WatcherUnavailable, match=r"kubelet\.sock"):
        client.pods()
    kubelet.start()
    assert names(client) == ["p"]


def test_a_kubelet_that_hangs_costs_the_deadline_and_no_more(kubelet: KubeletSocket) -> None:
    client = PodResources(kubelet.path, deadline_s=0.2)
    kubelet.hangs = True
    began_s = time.monotonic()
    with pytest.raises(WatcherUnavailable, match=r"no answer within 0\.2 s"):
        client.pods()
    assert time.monotonic() - began_s < 2
    kubelet.hangs = False
    kubelet.released.set()
    assert names(client) == []
    client.close()


@pytest.mark.parametrize(
    ("code", "said", "told"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "List is rejected by the rate limit", "rate limit"),
        (grpc.StatusCode.UNIMPLEMENTED, "unknown service", "pod-resources v1"),
        (grpc.StatusCode.INTERNAL, "boom", "boom"),
        (grpc.StatusCode.UNAVAILABLE, "starting", "asked again later"),
    ],
)
def test_what_the_kubelet_refuses_is_said(
    kubelet: KubeletSocket, client: PodResources, code: grpc.StatusCode, said: str, told: str
) -> None:
    kubelet.fails = (code, said)
    with pytest.raises(WatcherUnavailable, match=told):
        client.pods()
    kubelet.fails = None
    assert names(client) == []


def test_an_answer_over_the_limit_is_not_taken(kubelet: KubeletSocket) -> None:
    client = PodResources(kubelet.path, largest_answer_bytes=1000)
    kubelet.pods = [gpu_pod(f"p{i}", GPU) for i in range(100)]
    with pytest.raises(WatcherUnavailable, match="larger than 1000 bytes"):
        client.pods()
    client.close()


def test_an_answer_of_another_protocol_is_said(kubelet: KubeletSocket, client: PodResources) -> None:
    kubelet.raw = b"\x0a\xff\xff\xff\xff\x0f"
    with pytest.raises(WatcherUnavailable, match="is not pod-resources v1"):
        client.pods()


def test_a_folder_of_roots_is_said_with_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "pod-resources"
    folder.mkdir(mode=0o700)
    with kubelet_socket(folder) as kubelet:
        client = PodResources(kubelet.path)
        own = os.geteuid()
        if own == 0:
            os.chmod(tmp_path, 0o755)
            os.seteuid(65534)
        else:
            folder.chmod(0)
        try:
            with pytest.raises(WatcherUnavailable, match=r"permission denied.*run the agent's container as user 0"):
                client.pods()
        finally:
            os.seteuid(own)
            folder.chmod(0o700)
        client.close()


def test_a_path_that_is_no_socket_is_said(tmp_path: Path) -> None:
    for path, told in (
        (tmp_path / "none.sock", "mount the node's"),
        (tmp_path, "is no socket"),
        (tmp_path / ("x" * 120), "at most 107 bytes"),
    ):
        with pytest.raises(WatcherUnavailable, match=told):
            PodResources(path).pods()
