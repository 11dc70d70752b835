"""The log's file on disk: one agent at a time, opened and checked, put aside when it is corrupt."""

import fcntl
import os
import shutil
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from wattledger_agent.wal_journal import lost_commits
from wattledger_agent.wal_record import WalUnavailable
from wattledger_agent.wal_schema import GENERATION_BITS, connect, is_corruption_at_open, make_tables, mend_numbers

log = structlog.get_logger()
_SUFFIXES = ("", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file. `aside`: the corrupt one that it replaces. `tail_lost`: commits that its journal did not give."""

    db: sqlite3.Connection
    aside: Path | None = None
    tail_lost: int = 0


class WalFile:
    """Holds the lock file `PATH.lock` while open. That file counts the generations of the log: each has numbers of
    its own, so that a number is never used for two records."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock_fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock_fd)
            raise WalUnavailable(f"{path} is in use: stop the other agent, or give this one another path") from error

    def open(self) -> Opened:
        """Open, or put aside and start anew. Raises WalUnavailable when the disk does not let it."""
        try:
            return self._open()
        except sqlite3.DatabaseError as error:
            if not is_corruption_at_open(error, self.path):
                raise WalUnavailable(f"{self.path} can't be opened: {error}") from error
            return self.replace(error)

    def _open(self) -> Opened:
        is_empty = not self.path.exists() or self.path.stat().st_size == 0
        if is_empty and self._generation() is not None:
            # SQLite would take it for a new one
            return self.replace(sqlite3.DatabaseError("the log was emptied or removed"))
        db = connect(self.path)
        try:
            return self._use(db, is_empty)
        except BaseException:
            db.close()
            raise

    def _use(self, db: sqlite3.Connection, is_empty: bool) -> Opened:
        lost = 0 if is_empty else lost_commits(db, self.path)
        if lost:
            aside = self._next_aside()
            # before the first write, which uses the journal again
            shutil.copyfile(f"{self.path}-wal", f"{aside}-wal")
            log.error("wal_journal_damaged", path=str(self.path), aside=f"{aside}-wal", commits_lost=lost)
        make_tables(db)
        if is_empty or lost:
            self._begin_generation(db)
        mend_numbers(db, (self._generation() or 0) << GENERATION_BITS)
        return Opened(db, tail_lost=lost)

    def replace(self, error: sqlite3.Error) -> Opened:
        """Rename the corrupt file and go on with a new one; whoever cares can read what is left of it."""
        aside = self._next_aside()
        for suffix in _SUFFIXES:
            with suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
        log.error("wal_put_aside", path=str(self.path), aside=str(aside), error=str(error))
        db = connect(self.path)
        make_tables(db)
        self._begin_generation(db)
        return Opened(db, aside)

    def _next_aside(self) -> Path:
        number = 1
        while any(Path(f"{self._aside(number)}{suffix}").exists() for suffix in _SUFFIXES):
            number += 1
        return self._aside(number)

    def _aside(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.corrupt-{number}")

    def _generation(self) -> int | None:
        """The generation in use; None when there never was a log here."""
        written = os.pread(self._lock_fd, 20, 0).strip()
        return int(written) if written.isdigit() else None

    def _begin_generation(self, db: sqlite3.Connection) -> None:
        """Number on from a place that no earlier generation reached."""
        last = self._generation()
        generation = 0 if last is None else last + 1
        os.pwrite(self._lock_fd, b"%-20d" % generation, 0)
        os.fsync(self._lock_fd)
        mend_numbers(db, generation << GENERATION_BITS)

    def close(self) -> None:
        os.close(self._lock_fd)
