"""A unix socket on which a site's own process hands documents in, one a connection. Sends nothing back."""

import os
import socket
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from wattledger_agent.watchers.run import Finding
from wattledger_agent.watchers.slurm_document import parse_document
from wattledger_agent.watchers.slurm_fact import Document, finding
from wattledger_agent.watchers.slurm_site import SlurmSite
from wattledger_agent.watchers.watcher import WatcherUnavailable

MOST_CONNECTIONS = 32
MOST_BYTES = 16 << 20
_PATIENCE_US = 10_000_000
_PEER = struct.Struct("3i")
"""struct ucred of unix(7): pid, uid, gid."""


@dataclass(slots=True)
class _Connection:
    peer: socket.socket
    uid: int
    since_us: int
    data: bytearray = field(default_factory=bytearray)


class SlurmSocket:
    """Listens at `path`; only peers whose uid is in `uids` are heard (SO_PEERCRED). A connection's document (JSON,
    KEY=VALUE of prolog or epilog, scontrol or sacct) ends when the peer closes; after ten seconds it is given up."""

    is_snapshot = False

    def __init__(self, path: Path, site: SlurmSite, uids: frozenset[int] = frozenset({0})) -> None:
        self.name = str(path)
        self.reported_to_us = 0
        self._path = path
        self._site = site
        self._uids = uids
        self._shards: int | None = None
        self._server: socket.socket | None = None
        self._open: list[_Connection] = []

    def read(self, now_us: int) -> tuple[Document, ...]:
        """The documents that came since the last look. Raises WatcherUnavailable when the socket can't be made."""
        if self._server is None:
            self._server = self._listen()
        found = self._accept(self._server, now_us)
        documents: list[Document] = []
        for connection in list(self._open):
            made = self._receive(connection, now_us)
            if made is None:
                continue
            self._open.remove(connection)
            connection.peer.close()
            self._shards = self._shards if made.shards is None else made.shards
            documents.append(made)
        self.reported_to_us = now_us
        return (*documents, Document((), tuple(found), is_whole=False))

    def remove(self, names: list[str]) -> None:
        """There is nothing to remove."""

    def close(self) -> None:
        """Stop listening; the socket's file goes too."""
        for connection in self._open:
            connection.peer.close()
        self._open.clear()
        if self._server is not None:
            self._server.close()
            self._server = None
            with suppress(OSError):
                self._path.unlink()

    def _listen(self) -> socket.socket:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with suppress(FileNotFoundError):
                if stat.S_ISSOCK(os.stat(self._path, follow_symlinks=False).st_mode):
                    self._path.unlink()
            server.bind(self.name)
            self._path.chmod(0o666)  # who may speak is decided by uid, below
            server.listen(MOST_CONNECTIONS)
            server.setblocking(False)
        except OSError as error:
            server.close()
            raise WatcherUnavailable(f"{self.name}: {error.strerror}: give a path in the agent's own folder") from error
        return server

    def _accept(self, server: socket.socket, now_us: int) -> list[Finding]:
        found = []
        while len(self._open) < MOST_CONNECTIONS:
            try:
                peer, _ = server.accept()
            except OSError:  # nobody waits, or one who went away meanwhile
                break
            _, uid, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            if uid not in self._uids:
                peer.close()
                found.append(finding("foreign_peer", f"{self.name}: uid {uid} may not report jobs: it was not heard"))
                continue
            peer.setblocking(False)
            self._open.append(_Connection(peer, uid, now_us))
        return found

    def _receive(self, connection: _Connection, now_us: int) -> Document | None:
        """The document once it is complete; None while it is not."""
        try:
            while chunk := connection.peer.recv(1 << 16):
                connection.data += chunk
                if len(connection.data) > MOST_BYTES:
                    return self._refused("document_too_large", connection, f"more than {MOST_BYTES} bytes")
        except BlockingIOError:
            if now_us - connection.since_us > _PATIENCE_US:
                return self._refused("torn_document", connection, "its sender did not close it for 10 s")
            return None
        except OSError as error:
            return self._refused("torn_document", connection, f"{error.strerror}")
        name = f"{self.name} (uid {connection.uid})"
        return parse_document(bytes(connection.data), self._site, now_us, name, shards=self._shards)

    def _refused(self, reason: str, connection: _Connection, what: str) -> Document:
        words = f"{self.name}: a document of uid {connection.uid} was refused: {what}"
        return Document((), (finding(reason, words),), is_whole=False)
