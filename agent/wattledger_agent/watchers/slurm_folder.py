"""The folder that prolog and epilog drop their records into: read, checked for who wrote them, removed when done."""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from wattledger_agent.watchers.run import Finding
from wattledger_agent.watchers.slurm_drop import BadDrop, drop_fact, drop_values
from wattledger_agent.watchers.slurm_fact import Document, Fact, finding
from wattledger_agent.watchers.slurm_site import SlurmSite, one_line
from wattledger_agent.watchers.watcher import WatcherUnavailable

FULL_AT = 10_000
"""So many records make the scripts stop writing: the folder is usually memory."""
_NAME = re.compile(r"(prolog|epilog)-(\d{1,10})-(\d{1,5})-(\d{1,20})")
_MOST_BYTES = 65_536
_SETTLED_US = 5_000_000
_ABANDONED_US = 600_000_000
_LAG_US = 1_000_000
"""A record is in the folder this long after its event, at the latest."""


class _Seen(NamedTuple):
    inode: int
    changed_ns: int
    size: int


class DropFolder:
    """Only files of `owners` that nobody else may write are read, from a folder of theirs that is not open to all.

    A file stays until `remove`: whoever starts again finds the records of what still runs. A removal that is refused
    is no harm, the file is remembered."""

    is_snapshot = False

    def __init__(
        self, path: Path, site: SlurmSite, owners: frozenset[int] = frozenset({0}), removes: bool = True
    ) -> None:
        """`removes`: False where another agent is to read the records too."""
        self._removes = removes
        self.name = str(path)
        self.reported_to_us = 0
        self._path = path
        self._site = site
        self._owners = owners
        self._seen: dict[str, _Seen] = {}

    def read(self, now_us: int) -> tuple[Document, ...]:
        """Records that are new since the last look. Raises WatcherUnavailable for a folder that can't be used."""
        try:
            entries = self._entries()
        except OSError as error:
            words = f"{self.name}: {error.strerror}: install prolog and epilog as infra/slurm/README.md says"
            raise WatcherUnavailable(words) from error
        facts: list[Fact] = []
        found: list[Finding] = []
        if len(entries) >= FULL_AT:
            words = (
                f"{self.name} holds {len(entries)} records, so prolog and epilog write no more: let the agent remove"
            )
            found.append(finding("drop_folder_full", f"{words} (folder mode 2770, its group)"))
        self._seen = {name: seen for name, seen in self._seen.items() if name in entries}
        for name, seen in sorted(entries.items()):
            if self._seen.get(name) == seen:
                continue
            made = self._take(name, seen, now_us)
            if made is None:
                continue
            self._seen[name] = seen
            if isinstance(made, Fact):
                facts.append(made)
            elif isinstance(made, Finding):
                found.append(made)
        self.reported_to_us = max(0, now_us - _LAG_US)
        return (Document(tuple(facts), tuple(found), is_whole=False, source=self.name, at_us=now_us),)

    def remove(self, names: list[str]) -> None:
        """Remove records that are done with; what can't be removed stays remembered."""
        for name in names if self._removes else ():
            with suppress(OSError):
                (self._path / name).unlink()

    def close(self) -> None:
        """Nothing is held open."""

    def _entries(self) -> dict[str, _Seen]:
        """Files by name. Raises OSError, PermissionError for a folder that others may fill."""
        folder = os.stat(self._path, follow_symlinks=False)
        if not stat.S_ISDIR(folder.st_mode):
            raise NotADirectoryError(20, "is no folder")
        if folder.st_uid not in self._owners or folder.st_mode & stat.S_IWOTH:
            raise PermissionError(
                1, f"belongs to uid {folder.st_uid}, mode {folder.st_mode & 0o7777:o}: anybody's word"
            )
        entries = {}
        with os.scandir(self._path) as listing:
            for entry in listing:
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    entries[entry.name] = _Seen(status.st_ino, status.st_mtime_ns, status.st_size)
        return entries

    def _take(self, name: str, seen: _Seen, now_us: int) -> Fact | Finding | bool | None:
        """The record; True: nothing of interest, None: look again later."""
        age_us = now_us - seen.changed_ns // 1000
        if name.startswith(".new-"):
            if age_us < _ABANDONED_US:
                return None
            self.remove([name])
            return finding("torn_drop", f"{self.name}/{one_line(name)}: a prolog or epilog ended while it wrote this")
        if name.startswith("."):
            return True
        where = f"{self.name}/{one_line(name)}"
        parts = _NAME.fullmatch(name)
        if parts is None:
            return finding("foreign_drop", f"{where}: no name of a prolog or epilog record: who put it there?")
        try:
            data, written_us = self._content(name)
            fact = drop_fact(values := drop_values(data), self._site, written_us, name)
        except FileNotFoundError:
            return True
        except OSError as error:
            return finding("unreadable_drop", f"{where}: {error.strerror}: let the agent's user read it")
        except BadDrop as error:
            if error.reason == "torn_drop" and age_us < _SETTLED_US:
                return None
            return finding(error.reason, f"{where}: {error}")
        if fact is None:
            return True
        said = (fact.kind, fact.job, values.get("SLURM_JOB_RESTART_COUNT", "") or "0")
        if said != parts.groups()[:3]:
            return finding("foreign_drop", f"{where}: it speaks of {'-'.join(said)}: it was renamed, or made by others")
        return fact

    def _content(self, name: str) -> tuple[bytes, int]:
        """What stands in a file, and when it was written. Raises OSError, BadDrop for a file of somebody else's."""
        number = os.open(self._path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
                raise BadDrop("foreign_drop", f"no regular file of at most {_MOST_BYTES} bytes")
            if status.st_uid not in self._owners or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                words = f"belongs to uid {status.st_uid}, mode {status.st_mode & 0o7777:o}; only root's are believed"
                raise BadDrop("foreign_drop", words)
            return os.read(number, _MOST_BYTES), status.st_mtime_ns // 1000
        finally:
            os.close(number)
