"""Files that a site's own jobs write (sacct, scontrol, JSON): read again when they change. Writes nothing."""

import glob
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from wattledger_agent.watchers.run import Finding
from wattledger_agent.watchers.slurm_document import parse_document
from wattledger_agent.watchers.slurm_fact import Document, finding
from wattledger_agent.watchers.slurm_sacct_layout import RECOMMENDED
from wattledger_agent.watchers.slurm_site import SlurmSite
from wattledger_agent.watchers.watcher import WatcherUnavailable

MOST_FILES = 256
MOST_BYTES = 64 << 20
_SETTLED_US = 2_000_000
_BROKEN_AFTER_US = 60_000_000
_HALF_WRITTEN = frozenset({"broken_json", "torn_drop", "unknown_layout", "broken_record"})


class _Stamp(NamedTuple):
    inode: int
    changed_ns: int
    size: int


class SlurmFiles:
    """`patterns` are paths with * and ?. `is_snapshot`: each file holds every job of the node that runs (`scontrol
    show job`, slurmrestd's jobs), so that a job which is no longer in it has ended. `fields`: the columns of sacct
    files without a header.

    A file is read once it has been left alone for two seconds, or at once when it replaced another. What can't be
    read is told when it has been so for a minute: before, it may be half written."""

    def __init__(
        self, patterns: Sequence[str], site: SlurmSite, is_snapshot: bool = False, fields: Sequence[str] = RECOMMENDED
    ) -> None:
        self.name = ", ".join(patterns)
        self.is_snapshot = is_snapshot
        self.reported_to_us = 0
        self._patterns = tuple(patterns)
        self._site = site
        self._fields = tuple(fields)
        self._read: dict[str, _Stamp] = {}
        self._shards: int | None = None
        self._waiting: dict[str, tuple[_Stamp, tuple[Finding, ...]]] = {}

    def read(self, now_us: int) -> tuple[Document, ...]:
        """What changed since the last look, a document a file. Raises WatcherUnavailable when there is no file."""
        paths = sorted({path for pattern in self._patterns for path in glob.glob(pattern)})[:MOST_FILES]
        if not paths:
            raise WatcherUnavailable(f"{self.name}: no such file: write it as infra/slurm/README.md says")
        self._read = {path: stamp for path, stamp in self._read.items() if path in paths}
        self._waiting = {path: held for path, held in self._waiting.items() if path in paths}
        documents = [made for path in paths if (made := self._look(path, now_us)) is not None]
        newest_us = [self._read[path].changed_ns // 1000 for path in paths if path in self._read]
        self.reported_to_us = max(newest_us, default=0)
        return tuple(documents)

    def remove(self, names: list[str]) -> None:
        """The files are the site's: nothing is removed."""

    def close(self) -> None:
        """Nothing is held open."""

    def _look(self, path: str, now_us: int) -> Document | None:
        """What a file says, None when it is as it was, or still being written."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        stamp = _Stamp(status.st_ino, status.st_mtime_ns, status.st_size)
        age_us = now_us - stamp.changed_ns // 1000
        before = self._read.get(path)
        if before == stamp:
            return self._told(path, stamp, age_us)
        was_replaced = before is not None and before.inode != stamp.inode
        if age_us < _SETTLED_US and not was_replaced:
            return None
        self._read[path] = stamp
        self._waiting.pop(path, None)
        if stamp.size > MOST_BYTES:
            words = f"{path}: {stamp.size} bytes are more than {MOST_BYTES}: export only this node's jobs, or a day's"
            return Document((), (finding("file_too_large", words),), is_whole=False)
        try:
            with open(path, "rb") as file:
                data = file.read(MOST_BYTES + 1)
                after = os.fstat(file.fileno())
        except OSError as error:
            words = f"{path}: {error.strerror}: let the agent's user read it"
            return Document((), (finding("unreadable_file", words),), is_whole=False)
        if (after.st_mtime_ns, after.st_size) != (stamp.changed_ns, len(data)):
            del self._read[path]
            return None
        return self._document(path, stamp, data, age_us)

    def _document(self, path: str, stamp: _Stamp, data: bytes, age_us: int) -> Document:
        document = parse_document(data, self._site, stamp.changed_ns // 1000, path, self._fields, self._shards)
        document = replace(document, source=path, at_us=stamp.changed_ns // 1000)
        self._shards = self._shards if document.shards is None else document.shards
        late = tuple(one for one in document.findings if one.reason in _HALF_WRITTEN)
        if late and age_us < _BROKEN_AFTER_US:
            self._waiting[path] = (stamp, late)
            told = tuple(one for one in document.findings if one not in late)
            return replace(document, findings=told, is_whole=False)
        return document

    def _told(self, path: str, stamp: _Stamp, age_us: int) -> Document | None:
        """The findings of a file that has been left broken for long enough."""
        held = self._waiting.get(path)
        if held is None or held[0] != stamp or age_us < _BROKEN_AFTER_US:
            return None
        with suppress(KeyError):
            del self._waiting[path]
        return Document((), held[1], is_whole=False)
