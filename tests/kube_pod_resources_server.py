"""A kubelet's pod-resources service for tests: real gRPC on a unix socket, answers encoded by hand.

The encoder is apart from the agent's message table, so that a wrong field number there is seen.
"""

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]

VARINT, BYTES = 0, 2


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def text(number: int, value: str | bytes) -> bytes:
    """A string, bytes or message field."""
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(raw)) + raw


def integer(number: int, value: int) -> bytes:
    return varint(number << 3 | VARINT) + varint(value)


def packed(number: int, values: Iterable[int]) -> bytes:
    raw = b"".join(varint(one) for one in values)
    return text(number, raw) if raw else b""


def devices(resource: str, *ids: str, numa: int | None = None) -> bytes:
    """ContainerDevices; `numa` adds a TopologyInfo, which the agent skips."""
    topology = text(3, text(1, integer(1, numa))) if numa is not None else b""
    return text(1, resource) + b"".join(text(2, one) for one in ids) + topology


def claim(namespace: str, name: str, driver: str, pool: str, device: str, share_id: str = "") -> bytes:
    """DynamicResource with one ClaimResource."""
    cdi = text(1, text(1, f"k8s.{driver}/claim={name}-{device}"))
    given = cdi + text(2, driver) + text(3, pool) + text(4, device) + (text(5, share_id) if share_id else b"")
    return text(2, name) + text(3, namespace) + text(4, given)


def container(
    name: str,
    *held: bytes,
    claims: Iterable[bytes] = (),
    cpu_ids: Iterable[int] = (),
    memory_bytes: int = 0,
) -> bytes:
    memory = text(4, text(1, "memory") + integer(2, memory_bytes)) if memory_bytes else b""
    huge = text(4, text(1, "hugepages-1Gi") + integer(2, 1 << 30)) if memory_bytes else b""
    listed = b"".join(text(2, one) for one in held)
    return text(1, name) + listed + packed(3, cpu_ids) + memory + huge + b"".join(text(5, one) for one in claims)


def pod(namespace: str, name: str, *containers: bytes, extra: bytes = b"") -> bytes:
    """PodResources; `extra`: raw bytes of further fields."""
    return text(1, name) + text(2, namespace) + b"".join(text(3, one) for one in containers) + extra


def gpu_pod(name: str, *ids: str, namespace: str = "acme", resource: str = "nvidia.com/gpu") -> bytes:
    """A pod whose one container `main` holds these devices."""
    return pod(namespace, name, container("main", devices(resource, *ids)))


@dataclass
class KubeletSocket:
    """What the server answers; may be changed while it runs. `fails`: status and message instead of an answer.
    `hangs`: answers only after `released` is set."""

    path: Path
    pods: list[bytes] = field(default_factory=list)
    allocatable: list[bytes] = field(default_factory=list)
    raw: bytes | None = None
    fails: tuple[Any, str] | None = None
    hangs: bool = False
    calls: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    _server: Any = None

    def start(self) -> None:
        self.path.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(4), options=(("grpc.max_send_message_length", -1),))
        server.add_generic_rpc_handlers((_Handlers(self),))
        assert server.add_insecure_port(f"unix:{self.path}")
        server.start()
        self._server = server

    def stop(self) -> None:
        self.released.set()
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None

    def restart(self) -> None:
        """As a kubelet does: the socket goes, and another comes at the same path."""
        self.stop()
        self.released.clear()
        self.start()

    def answer(self, method: str, context: Any) -> bytes:
        self.calls.append(method)
        if self.hangs:
            self.released.wait(20)
        if self.fails is not None:
            context.abort(*self.fails)
        if self.raw is not None:
            return self.raw
        return b"".join(text(1, one) for one in (self.pods if method == "List" else self.allocatable))


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, kubelet: KubeletSocket) -> None:
        self._kubelet = kubelet

    def service(self, details: Any) -> Any:
        service, _, method = details.method.rpartition("/")
        if service != "/v1.PodResourcesLister" or method not in ("List", "GetAllocatableResources"):
            return None
        return grpc.unary_unary_rpc_method_handler(lambda _, context: self._kubelet.answer(method, context))


@contextmanager
def kubelet_socket(folder: Path) -> Iterator[KubeletSocket]:
    """A running server on `kubelet.sock` in a folder."""
    kubelet = KubeletSocket(folder / "kubelet.sock")
    kubelet.start()
    try:
        yield kubelet
    finally:
        kubelet.stop()
