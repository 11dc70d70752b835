"""Reader of the Kubernetes API server: pods of one node, claims and slices. Keeps nothing of the answers."""

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from wattledger_agent.clock import Clock

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_RESTARTS = 2
_DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
_DRA = "/apis/resource.k8s.io"
_MISSING_RIGHTS = {
    "pods": 'get and list on pods (API group "")',
    "resourceclaims": "get on resourceclaims (API group resource.k8s.io)",
    "resourceslices": "list on resourceslices (API group resource.k8s.io)",
}
Item = Mapping[str, Any]


class KubeApiError(RuntimeError):
    """The API server gave no answer to use. `reason`: api_forbidden, api_unauthorized, api_unreachable, api_busy,
    api_too_large or api_bad_answer. `is_refusal`: trying again won't help until somebody changes something."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason
        self.is_refusal = reason in ("api_forbidden", "api_unauthorized")


class _Status(Exception):
    """An HTTP status other than 200, with the message of the server's Status object."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(f"{code} {said}")
        self.code = code
        self.said = said


class KubeApi:
    """Asks one API server with the mounted service account. A connection lives for one question."""

    def __init__(
        self,
        url: str,
        clock: Clock,
        token_path: Path = SERVICE_ACCOUNT / "token",
        ca_path: Path = SERVICE_ACCOUNT / "ca.crt",
        timeout_s: float = 5.0,
        page_items: int = 500,
        largest_answer_bytes: int = 64 << 20,
    ) -> None:
        """`url`: `https://host:port`; plain http only to this machine, and without the token. Raises ValueError."""
        parts = urlsplit(url)
        is_plain = parts.scheme == "http" and parts.hostname in _LOOPBACK
        if parts.hostname is None or not (parts.scheme == "https" or is_plain) or parts.username is not None:
            raise ValueError(
                f"API server {parts.scheme}://{parts.hostname}: give https://host:port (http only to 127.0.0.1), "
                "without user and password"
            )
        self._host, self._port, self._is_tls = parts.hostname, parts.port, not is_plain
        self._prefix = parts.path.rstrip("/")
        self._clock = clock
        self._token_path, self._ca_path = token_path, ca_path
        self._timeout_s = timeout_s
        self._page_items = page_items
        self._largest_answer_bytes = largest_answer_bytes
        self._newest_version = ""
        self._dra_version = ""

    def pods(self, node: str) -> Iterator[Item]:
        """All pods bound to a node. Raises KubeApiError, also while iterating; then the pods given so far are no
        complete list.

        Served from the server's cache, but never older than what was read before.
        """
        query = {"fieldSelector": f"spec.nodeName={node}"}
        newest = {"resourceVersion": "0"}
        if self._newest_version:
            newest = {"resourceVersion": self._newest_version, "resourceVersionMatch": "NotOlderThan"}
        try:
            yield from self._list("/api/v1/pods", query | newest, "pods", keeps_version=True)
        except _Status as status:
            # A server restored from a backup knows only older versions than we have seen.
            if status.code not in (410, 504) or not self._newest_version:
                raise self._error(status, "pods") from None
            self._newest_version = ""
            raise KubeApiError(
                "api_busy", f"{self._where()}: {status.said or status.code}; asked again later"
            ) from None

    def claim(self, namespace: str, name: str) -> Item | None:
        """A ResourceClaim; None: there is none of that name. Raises KubeApiError."""
        path = f"namespaces/{quote(namespace, safe='')}/resourceclaims/{quote(name, safe='')}"
        for version in self._dra_versions():
            try:
                found = self._get(f"{_DRA}/{version}/{path}", {}, "resourceclaims")
            except _Status as status:
                if status.code == 404:
                    continue
                raise self._error(status, "resourceclaims") from None
            self._dra_version = version
            return found
        return None

    def slices(self, node: str) -> list[Item]:
        """The ResourceSlices of a node; none where the cluster has no dynamic resource allocation. Raises
        KubeApiError."""
        query = {"fieldSelector": f"spec.nodeName={node}"}
        for version in self._dra_versions():
            try:
                found = list(self._list(f"{_DRA}/{version}/resourceslices", query, "resourceslices"))
            except _Status as status:
                if status.code == 404:
                    continue
                raise self._error(status, "resourceslices") from None
            self._dra_version = version
            return found
        return []

    def _dra_versions(self) -> tuple[str, ...]:
        return (self._dra_version,) if self._dra_version else _DRA_VERSIONS

    def _list(self, path: str, query: Mapping[str, str], what: str, keeps_version: bool = False) -> Iterator[Item]:
        """Items of all pages. A list whose continuation expired (410) is read again from its start; items given
        twice have the same uid."""
        for attempt in range(_RESTARTS + 1):
            ask = {**query, "limit": str(self._page_items)}
            try:
                while True:
                    page = self._get(path, ask, what)
                    items, about = page.get("items"), page.get("metadata")
                    yield from (one for one in items or () if isinstance(one, dict))
                    about = about if isinstance(about, dict) else {}
                    if not about.get("continue"):
                        if keeps_version:
                            self._newest_version = str(about.get("resourceVersion") or "")
                        return
                    kept = {key: value for key, value in query.items() if not key.startswith("resourceVersion")}
                    ask = {**kept, "limit": str(self._page_items), "continue": str(about["continue"])}
            except _Status as status:
                if status.code != 410 or "continue" not in ask or attempt == _RESTARTS:
                    raise

    def _get(self, path: str, query: Mapping[str, str], what: str) -> Item:
        target = self._prefix + path + ("?" + urlencode(query) if query else "")
        try:
            try:
                body = self._ask(target)
            except _Status as status:
                if status.code != 401:
                    raise
                body = self._ask(target)  # the token is read again: the kubelet rotates it under us
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise KubeApiError("api_unreachable", f"{self._where()}: {error}; {self._advice(error)}") from error
        try:
            answer = json.loads(body)
        except ValueError as error:
            raise KubeApiError(
                "api_bad_answer", f"{self._where()}: the answer for {what} is no JSON: {error}"
            ) from error
        if not isinstance(answer, dict):
            raise KubeApiError("api_bad_answer", f"{self._where()}: the answer for {what} is no object")
        return answer

    def _ask(self, target: str) -> bytes:
        """Body of a 200. Raises _Status, OSError, HTTPException."""
        until_s = self._clock.monotonic_s() + self._timeout_s
        headers = {"Accept": "application/json", "User-Agent": "wattledger-agent"}
        connection: http.client.HTTPConnection
        if self._is_tls:
            headers["Authorization"] = f"Bearer {self._token_path.read_text('ascii').strip()}"
            trusted = ssl.create_default_context(cafile=str(self._ca_path))
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=trusted)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            connection.request("GET", target, headers=headers)
            response = connection.getresponse()
            body = self._body(response, until_s)
            if response.status != 200:
                raise _Status(response.status, _said(body))
            return body
        finally:
            connection.close()

    def _body(self, response: http.client.HTTPResponse, until_s: float) -> bytes:
        body = bytearray()
        while chunk := response.read(1 << 16):
            body += chunk
            if len(body) > self._largest_answer_bytes:
                raise KubeApiError(
                    "api_too_large",
                    f"{self._where()}: an answer is larger than {self._largest_answer_bytes} bytes: raise the limit, "
                    "or ask for fewer items a page",
                )
            if self._clock.monotonic_s() > until_s:
                raise TimeoutError(f"the answer is not complete after {self._timeout_s} s")
        return bytes(body)

    def _error(self, status: _Status, what: str) -> KubeApiError:
        said = f" (it said: {status.said})" if status.said else ""
        if status.code == 403:
            rights = _MISSING_RIGHTS[what]
            return KubeApiError(
                "api_forbidden",
                f"{self._where()} forbids reading {what}: bind a ClusterRole with {rights} to the agent's service "
                f"account{said}",
            )
        if status.code == 401:
            return KubeApiError(
                "api_unauthorized",
                f"{self._where()} refuses the token in {self._token_path}: set automountServiceAccountToken, and "
                f"check that the service account exists{said}",
            )
        return KubeApiError("api_busy", f"{self._where()}: status {status.code} for {what}; asked again later{said}")

    def _where(self) -> str:
        return f"API server {self._host}" + (f":{self._port}" if self._port else "")

    def _advice(self, error: Exception) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not of the authority in {self._ca_path}"
        if isinstance(error, FileNotFoundError | PermissionError | UnicodeError):
            return f"mount the service account (token {self._token_path}, authority {self._ca_path}) readable"
        return "check the address and the network policy; asked again later"


def _said(body: bytes) -> str:
    """The message of a Status object, short; empty where there is none."""
    try:
        status = json.loads(body)
    except ValueError:
        return ""
    said = status.get("message") if isinstance(status, dict) else None
    return said[:300] if isinstance(said, str) else ""
