"""Reader of the kubelet's pod-resources socket (gRPC, v1). Turns answers into values; decides nothing."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wattledger_agent.watchers.kube_hold import ClaimHold, ContainerHold, DeviceHold, PodHold
from wattledger_agent.watchers.kube_proto import ALLOCATABLE, LIST, podresources_messages
from wattledger_agent.watchers.watcher import WatcherUnavailable

DEFAULT_SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
_LONGEST_PATH_BYTES = 107
_MEMORY = "memory"


class PodResources:
    """What the kubelet lists. Every call raises WatcherUnavailable with what to do. Calls come from one thread.

    `restarts` counts how often another socket was found at the path: a kubelet that starts makes it anew, and lists
    pods only as it learns of them again.
    """

    def __init__(
        self, socket_path: Path = DEFAULT_SOCKET, deadline_s: float = 5.0, largest_answer_bytes: int = 64 << 20
    ) -> None:
        """Opens nothing yet. Raises WatcherUnavailable where gRPC is not installed."""
        try:
            import grpc  # type: ignore[import-untyped]

            self._messages = podresources_messages()
        except ImportError as error:
            raise WatcherUnavailable(
                f"the Kubernetes watcher needs gRPC ({error}): install wattledger[kubernetes], or turn the watcher off"
            ) from error
        self._grpc: Any = grpc
        self._path = socket_path
        self._deadline_s = deadline_s
        self._largest_answer_bytes = largest_answer_bytes
        self._channel: Any = None
        self._socket_id: tuple[int, int, int] | None = None
        self._last_answer = b""
        self._last_pods: tuple[PodHold, ...] = ()
        self.restarts = 0

    def pods(self) -> tuple[PodHold, ...]:
        """Pods that hold any device or claim, in the kubelet's order."""
        answer = self._call(LIST, self._messages.list_request())
        if answer != self._last_answer:
            self._last_pods = tuple(_pods(self._decode(self._messages.list_response, answer).pod_resources))
            self._last_answer = answer
        return self._last_pods

    def allocatable(self) -> tuple[DeviceHold, ...]:
        """All devices of the node that may be given out, free or not."""
        answer = self._call(ALLOCATABLE, self._messages.allocatable_request())
        return tuple(_devices(self._decode(self._messages.allocatable_response, answer).devices))

    def close(self) -> None:
        """Lets go of the connection; the next call opens another."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _call(self, method: str, request: Any) -> bytes:
        """One call, repeated once on a new connection: a kubelet that restarted leaves a dead one behind."""
        self._open()
        try:
            return self._once(method, request)
        except self._grpc.RpcError as error:
            self.close()
            if error.code() is not self._grpc.StatusCode.UNAVAILABLE:
                raise self._unavailable(error) from error
        self._open()
        try:
            return self._once(method, request)
        except self._grpc.RpcError as error:
            self.close()
            raise self._unavailable(error) from error

    def _once(self, method: str, request: Any) -> bytes:
        # Bytes come back undecoded, so that an answer equal to the last one costs no decoding.
        call = self._channel.unary_unary(method, request_serializer=type(request).SerializeToString)
        answer: bytes = call(request, timeout=self._deadline_s)
        return answer

    def _open(self) -> None:
        found = self._look_at_socket()
        if found != self._socket_id:
            self.close()
            self.restarts += self._socket_id is not None
            self._socket_id = found
        if self._channel is None:
            self._channel = self._grpc.insecure_channel(
                f"unix:{self._path}",
                options=(
                    ("grpc.max_receive_message_length", self._largest_answer_bytes),
                    ("grpc.enable_http_proxy", 0),
                    ("grpc.enable_retries", 0),
                    # Channels share connections by address; a new channel must not get the dead one of the old.
                    ("grpc.use_local_subchannel_pool", 1),
                ),
            )

    def _look_at_socket(self) -> tuple[int, int, int]:
        """Device, inode and birth of the socket (an inode's number is used again at once).

        Raises WatcherUnavailable with the usual causes told apart.
        """
        if len(os.fsencode(self._path)) > _LONGEST_PATH_BYTES:
            raise WatcherUnavailable(
                f"kubelet socket {self._path}: a socket's path has at most {_LONGEST_PATH_BYTES} bytes; "
                "mount the folder under a shorter one"
            )
        try:
            found = self._path.stat()
        except PermissionError as error:
            raise WatcherUnavailable(self._denied()) from error
        except OSError as error:
            raise WatcherUnavailable(
                f"kubelet socket {self._path} is not there ({error.strerror}): mount the node's "
                f"{DEFAULT_SOCKET.parent} read-only into the agent's container, or set the path to the kubelet's folder"
            ) from error
        if not stat.S_ISSOCK(found.st_mode):
            raise WatcherUnavailable(f"{self._path} is no socket: set the path to the kubelet's pod-resources socket")
        if not os.access(self._path, os.R_OK | os.W_OK):
            raise WatcherUnavailable(self._denied())
        return found.st_dev, found.st_ino, found.st_mtime_ns

    def _denied(self) -> str:
        return (
            f"kubelet socket {self._path}: permission denied. The folder is root's with mode 0750 on most nodes: "
            "run the agent's container as user 0 with all capabilities dropped, or give its user the folder's group "
            "(supplementalGroups)"
        )

    def _unavailable(self, error: Any) -> WatcherUnavailable:
        code, codes = error.code(), self._grpc.StatusCode
        said = (error.details() or "")[:300]
        if code is codes.DEADLINE_EXCEEDED:
            what = f"no answer within {self._deadline_s} s; asked again later (is the kubelet stuck?)"
        elif code is codes.RESOURCE_EXHAUSTED and "larger than max" in said:
            what = f"the answer is larger than {self._largest_answer_bytes} bytes: raise the limit"
        elif code is codes.RESOURCE_EXHAUSTED:
            what = "it turned the call down for its rate limit (all clients of the node share it); asked again later"
        elif code is codes.UNIMPLEMENTED:
            what = "it does not serve pod-resources v1; Kubernetes 1.20 or newer is needed"
        elif "Permission denied" in said:
            return WatcherUnavailable(self._denied())
        else:
            what = f"{code.name.lower()}; asked again later"
        return WatcherUnavailable(f"kubelet at {self._path}: {what}" + (f" (it said: {said})" if said else ""))

    def _decode(self, message: Any, answer: bytes) -> Any:
        from google.protobuf.message import DecodeError

        try:
            return message.FromString(answer)
        except DecodeError as error:
            raise WatcherUnavailable(
                f"kubelet at {self._path}: its answer of {len(answer)} bytes is not pod-resources v1 ({error}); "
                "check that the path is the kubelet's own socket"
            ) from error


def _pods(listed: Iterable[Any]) -> Iterable[PodHold]:
    for pod in listed:
        containers = tuple(
            ContainerHold(one.name, tuple(_devices(one.devices)), tuple(_claims(one.dynamic_resources)))
            for one in pod.containers
            if one.devices or one.dynamic_resources
        )
        if containers:
            cpus = set(pod.cpu_ids).union(*(one.cpu_ids for one in pod.containers))
            own = list(pod.memory) or [block for one in pod.containers for block in one.memory]
            memory_bytes = sum(block.size for block in own if block.memory_type == _MEMORY)
            yield PodHold(pod.namespace, pod.name, containers, len(cpus) or None, memory_bytes or None)


def _devices(listed: Iterable[Any]) -> Iterable[DeviceHold]:
    """One entry a resource: the kubelet may list a resource once for each NUMA node."""
    found: dict[str, dict[str, None]] = {}
    for one in listed:
        found.setdefault(one.resource_name, {}).update(dict.fromkeys(one.device_ids))
    return (DeviceHold(resource, tuple(ids)) for resource, ids in found.items() if ids)


def _claims(listed: Iterable[Any]) -> Iterable[ClaimHold]:
    for claim in listed:
        for one in claim.claim_resources:
            yield ClaimHold(
                claim.claim_namespace, claim.claim_name, one.driver_name, one.pool_name, one.device_name, one.share_id
            )
