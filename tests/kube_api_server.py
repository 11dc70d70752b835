"""A Kubernetes API server for tests: real HTTPS with a certificate of its own authority, and pods as JSON."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Item = dict[str, Any]
T = 1_790_841_600
"""1 October 2026, 08:00 UTC: times below are seconds from it."""
S = 1_000_000


def stamp(at_s: float) -> str:
    return (datetime.fromtimestamp(T, UTC) + timedelta(seconds=at_s)).isoformat().replace("+00:00", "Z")


def us(at_s: float) -> int:
    return T * S + round(at_s * S)


def ran(start_s: float, end_s: float | None = None, exit_code: int = 0, reason: str = "") -> Item:
    """A container state."""
    if end_s is None:
        return {"running": {"startedAt": stamp(start_s)}}
    why = reason or ("Error" if exit_code else "Completed")
    ended = {"startedAt": stamp(start_s), "finishedAt": stamp(end_s), "exitCode": exit_code, "reason": why}
    return {"terminated": ended}


def status(name: str, state: Item, last: Item | None = None, restarts: int = 0, container_id: str = "") -> Item:
    return {
        "name": name,
        "state": state,
        "lastState": last or {},
        "restartCount": restarts,
        "containerID": f"containerd://{container_id or 'c0ffee' + name}",
    }


def spec(name: str, gpus: int = 1, resource: str = "nvidia.com/gpu", policy: str = "", **requests: str) -> Item:
    limits = {resource: str(gpus)} if gpus else {}
    found: Item = {"name": name, "resources": {"limits": limits, "requests": {**requests, **limits}}}
    return {**found, "restartPolicy": policy} if policy else found


def api_pod(
    name: str = "train-0",
    uid: str = "",
    namespace: str = "acme",
    statuses: list[Item] | None = None,
    phase: str = "Running",
    containers: list[Item] | None = None,
    inits: list[Item] | None = None,
    init_statuses: list[Item] | None = None,
    policy: str = "Never",
    labels: Item | None = None,
    annotations: Item | None = None,
    created_s: float = 0,
    **more: Any,
) -> Item:
    """A pod as `GET /api/v1/pods` lists it. `more`: deleted_s, grace_s, reason, conditions, account."""
    about: Item = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"0f0e0d0c-0000-4000-8000-{name:0>12.12}",
        "creationTimestamp": stamp(created_s),
        "labels": labels,
        "annotations": annotations,
    }
    if "deleted_s" in more:
        about |= {"deletionTimestamp": stamp(more["deleted_s"]), "deletionGracePeriodSeconds": more.get("grace_s", 30)}
    return {
        "metadata": about,
        "spec": {
            "nodeName": "n1",
            "restartPolicy": policy,
            "serviceAccountName": more.get("account", "default"),
            "containers": containers if containers is not None else [spec("main")],
            "initContainers": inits or [],
        },
        "status": {
            "phase": phase,
            "reason": more.get("reason"),
            "startTime": stamp(created_s),
            "conditions": more.get("conditions", []),
            "containerStatuses": statuses if statuses is not None else [status("main", ran(created_s + 2))],
            "initContainerStatuses": init_statuses or [],
        },
    }


@dataclass
class ApiServer:
    """What the server answers. `denies`: status by path's last part; `once`: statuses for the next requests, in order.
    `token`: the only one that is taken."""

    folder: Path
    pods: list[Item] = field(default_factory=list)
    claims: dict[str, Item] = field(default_factory=dict)
    slices: list[Item] = field(default_factory=list)
    version: int = 100
    token: str = "first"
    denies: dict[str, int] = field(default_factory=dict)
    once: list[int] = field(default_factory=list)
    raw: bytes | None = None
    dra_version: str = "v1"
    delay: threading.Event | None = None
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""

    @property
    def token_path(self) -> Path:
        return self.folder / "token"

    @property
    def ca_path(self) -> Path:
        return self.folder / "ca.crt"

    def write_token(self, token: str) -> None:
        self.token_path.write_text(token + "\n")

    def respond(self, path: str, query: dict[str, str], authorization: str) -> tuple[int, Any]:
        self.requests.append((path, query))
        if self.delay is not None:
            self.delay.wait(20)
        last = path.rsplit("/", 1)[-1]
        if authorization != f"Bearer {self.token}":
            return 401, _failure(401, "Unauthorized")
        if self.once:
            code = self.once.pop(0)
            return code, _failure(code, "try again")
        if last in self.denies:
            return self.denies[last], _failure(self.denies[last], f"{last} is forbidden: User cannot list")
        if path == "/api/v1/pods":
            return self._page(self.pods, query)
        group = f"/apis/resource.k8s.io/{self.dra_version}"
        if path == f"{group}/resourceslices":
            return self._page(self.slices, query)
        found = self.claims.get(path.removeprefix(f"{group}/namespaces/").replace("/resourceclaims/", "/"))
        if path.startswith(group) and found is not None:
            return 200, found
        return 404, _failure(404, "not found")

    def _page(self, items: list[Item], query: dict[str, str]) -> tuple[int, Any]:
        if int(query.get("resourceVersion", "0")) > self.version:
            return 504, _failure(504, "Too large resource version")
        start, limit = int(query.get("continue", "0")), int(query["limit"])
        if "continue" in query and "resourceVersion" in query:
            return 400, _failure(400, "resourceVersion is forbidden with continue")
        about = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            about["continue"] = str(start + limit)
        return 200, {"kind": "List", "metadata": about, "items": items[start : start + limit]}


def _failure(code: int, message: str) -> Item:
    return {"kind": "Status", "status": "Failure", "code": code, "message": message}


@contextmanager
def api_server(folder: Path, host: str = "127.0.0.1") -> Iterator[ApiServer]:
    """A running server whose authority and first token lie in the folder. The certificate is for `host`."""
    api = ApiServer(folder)
    api.write_token(api.token)
    key_path, certificate_path = _certificates(folder, host)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            code, answer = api.respond(parts.path, query, self.headers.get("Authorization", ""))
            body = api.raw if api.raw is not None and code == 200 else json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_path, key_path)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    api.url = f"https://127.0.0.1:{server.server_port}"
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()


def _certificates(folder: Path, host: str) -> tuple[Path, Path]:
    """Writes `ca.crt`; gives the server's key and certificate."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    start = datetime(2020, 1, 1, tzinfo=UTC)

    def build(subject: x509.Name, public: Any) -> x509.CertificateBuilder:
        base = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
        return (
            base.serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + timedelta(days=36_500))
        )

    ca = build(issuer, authority.public_key()).add_extension(x509.BasicConstraints(True, None), critical=True)
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    ca = ca.add_extension(usage, critical=True)
    ca = ca.add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    leaf = build(name, key.public_key()).add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=False
    )
    leaf = leaf.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False
    )
    (folder / "ca.crt").write_bytes(ca.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    key_path, certificate_path = folder / "server.key", folder / "server.crt"
    certificate_path.write_bytes(leaf.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return key_path, certificate_path
