"""slurmrestd, asked now and then over its unix socket or TCP for jobs and this node. Only GET, only when due."""

import http.client
import json
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, urlsplit

from wattledger_agent.watchers.slurm_fact import Document
from wattledger_agent.watchers.slurm_json import parse_json
from wattledger_agent.watchers.slurm_site import SlurmSite, one_line
from wattledger_agent.watchers.watcher import WatcherUnavailable

VERSIONS = ("v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42", "v0.0.41", "v0.0.40", "v0.0.39", "v0.0.38")
MOST_BYTES = 64 << 20
_LONGEST_WAIT_US = 600_000_000


class _Missing(Exception):
    """This version, or this parameter, is not served."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: int) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class SlurmRest:
    """`address` is `unix:/path`, `http://host:port` or `https://host:port`; `token_file` holds a JWT that is read
    again at each question (it expires) and sent as `user`'s. A unix socket that knows its peer needs none.

    All jobs of the cluster come in an answer: ask seldom, or use the drop folder. After a failure the wait doubles,
    up to ten minutes."""

    is_snapshot = True

    def __init__(
        self,
        address: str,
        site: SlurmSite,
        node: str,
        token_file: Path | None = None,
        user: str = "",
        every_us: int = 60_000_000,
        timeout_s: int = 5,
        versions: Sequence[str] = VERSIONS,
    ) -> None:
        self.name = address
        self.reported_to_us = 0
        self._address = urlsplit(address)
        if self._address.scheme not in ("unix", "http", "https"):
            raise ValueError(f"slurmrestd at {address!r}: say unix:/path, http://host:port or https://host:port")
        self._site = site
        self._node = node
        self._token_file = token_file
        self._user = user
        self._every_us = every_us
        self._timeout_s = timeout_s
        self._versions = tuple(versions)
        self._version = ""
        self._next_us = 0
        self._wait_us = every_us
        self._failure = ""

    def read(self, now_us: int) -> tuple[Document, ...]:
        """The answer when it is time to ask, else nothing. Raises WatcherUnavailable while it does not answer."""
        if now_us < self._next_us:
            if self._failure:
                raise WatcherUnavailable(self._failure)
            return ()
        try:
            document = self._ask(now_us)
        except (OSError, http.client.HTTPException, WatcherUnavailable) as error:
            self._next_us = now_us + self._wait_us
            self._wait_us = min(self._wait_us * 2, _LONGEST_WAIT_US)
            what = str(error) or type(error).__name__
            self._failure = f"slurmrestd at {self.name}: {what}: is it running, and may this user ask it?"
            raise WatcherUnavailable(self._failure) from error
        self._failure, self._wait_us = "", self._every_us
        self._next_us = now_us + self._every_us
        self.reported_to_us = now_us
        return (replace(document, source=self.name, at_us=now_us),)

    def remove(self, names: list[str]) -> None:
        """There is nothing to remove."""

    def close(self) -> None:
        """No connection is kept."""

    def _ask(self, now_us: int) -> Document:
        for version in (self._version,) if self._version else self._versions:
            try:
                shards = self._shards(version, now_us)
                jobs = self._jobs(version)
            except _Missing:
                continue
            self._version = version
            return parse_json(jobs, self._site, now_us, self.name, shards)
        self._version = ""
        raise WatcherUnavailable(f"it serves none of {', '.join(self._versions)}")

    def _jobs(self, version: str) -> bytes:
        """Which GPUs a job has is only in the detailed answer, which older versions do not know how to be asked for."""
        try:
            return self._get(f"/slurm/{version}/jobs/?flags=DETAIL")
        except _Missing:
            return self._get(f"/slurm/{version}/jobs/")

    def _shards(self, version: str, now_us: int) -> int | None:
        """The capacity of one GPU in shards, which the node's own record tells. Raises _Missing."""
        answer = self._get(f"/slurm/{version}/node/{quote(self._node, safe='')}")
        return parse_json(answer, self._site, now_us, self.name).shards

    def _get(self, path: str) -> bytes:
        connection = self._connection()
        try:
            connection.request("GET", path, headers=self._headers())
            answer = connection.getresponse()
            body = answer.read(MOST_BYTES + 1)
        finally:
            connection.close()
        if answer.status in (400, 404, 405):
            raise _Missing(path)
        if answer.status != 200:
            raise WatcherUnavailable(f"{path} answers {answer.status} {one_line(answer.reason, 60)}{_said(body)}")
        if len(body) > MOST_BYTES:
            raise WatcherUnavailable(f"{path} answers more than {MOST_BYTES} bytes: use the drop folder instead")
        return body

    def _connection(self) -> http.client.HTTPConnection:
        if self._address.scheme == "unix":
            return _UnixConnection(self._address.path, self._timeout_s)
        host, port = self._address.hostname or "", self._address.port or 6820
        if self._address.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=self._timeout_s)
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "wattledger-agent"}
        if self._user:
            headers["X-SLURM-USER-NAME"] = self._user
        if self._token_file is not None:
            token = self._token_file.read_bytes().strip().removeprefix(b"SLURM_JWT=")  # as `scontrol token` prints it
            if not token.isascii() or len(token.split()) != 1:
                raise WatcherUnavailable(f"{self._token_file} holds no token: write what `scontrol token` prints")
            headers["X-SLURM-USER-TOKEN"] = token.decode("ascii")
        return headers


def _said(body: bytes) -> str:
    """The first error of SLURM's own in an answer, if there is one."""
    try:
        errors = json.loads(body).get("errors") or [{}]
        return f": {one_line(str(errors[0].get('description') or errors[0].get('error') or ''), 120)}"
    except (ValueError, AttributeError, TypeError, IndexError, KeyError):
        return ""
