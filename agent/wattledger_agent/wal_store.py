"""The open file of a log: one connection behind one lock, its sums, and what happens when file or disk fail.

What is written, and what goes when the log is full, is decided above it.
"""

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TypeVar

from wattledger_agent import wal_ticks
from wattledger_agent.metrics import WAL_FILES_PUT_ASIDE
from wattledger_agent.wal_file import Opened, WalFile
from wattledger_agent.wal_gap import GapRecord
from wattledger_agent.wal_import import bring_over, note_lost_tail
from wattledger_agent.wal_keys import check_keys, seal_state_again
from wattledger_agent.wal_record import WalUnavailable
from wattledger_agent.wal_reserve import Reserve
from wattledger_agent.wal_rows import Rows
from wattledger_agent.wal_salvage import Salvage
from wattledger_agent.wal_schema import corruption, is_corruption, is_disk_full

_VACUUM_FREE_PAGES = 16_384
T = TypeVar("T")


class Store:
    """Opens, or raises WalUnavailable (WalKeyMissing when rows need a key that `rows` does not have)."""

    def __init__(self, path: Path, rows: Rows, gap_record: GapRecord) -> None:
        self.path = path
        self.lock = RLock()
        self.files_put_aside = 0
        self.count = self.bytes = self.ticks_bytes = 0
        self.sent_through = self.tried_through = 0
        self._rows = rows
        self._gap_record = gap_record
        self._file = WalFile(path)
        self._reserve = Reserve(path.with_name(f"{path.name}.reserve"))
        try:
            self._take(self._file.open())
            self._begin()
        except BaseException:
            self._file.close()
            raise

    def _begin(self) -> None:
        try:
            check_keys(self.db, self.path, self._rows.key_ids)
            self.do(partial(seal_state_again, rows=self._rows))
            self._reserve.hold(self.db)
        except BaseException:
            self.db.close()
            raise

    def _take(self, opened: Opened) -> None:
        """Use an opened file; bring over what can be read of the one that it replaces."""
        self.db = opened.db
        if opened.aside is not None or opened.tail_lost:
            self.files_put_aside += 1
            WAL_FILES_PUT_ASIDE.inc()
        if opened.aside is not None:
            bring_over(self.db, Salvage(opened.aside), self._gap_record)
        if opened.tail_lost:
            note_lost_tail(self.db, self._gap_record)
        self.tried_through = 0
        self.load_sums()

    def load_sums(self) -> None:
        """Ask the file for what is otherwise counted along."""
        [self.count, self.bytes] = self.db.execute("SELECT count(*), coalesce(sum(size), 0) FROM records").fetchone()
        _, self.ticks_bytes = wal_ticks.count_and_bytes(self.db)
        row = self.db.execute("SELECT value FROM progress WHERE name='sent_through'").fetchone()
        self.sent_through = row[0] if row else 0

    def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work under the lock. A file found corrupt is replaced and the work done again, once."""
        with self.lock:
            try:
                return work(self.db)
            except sqlite3.OperationalError as error:
                raise WalUnavailable(f"{self.path}: {error}") from error
            except sqlite3.DatabaseError as error:
                if not is_corruption(error):
                    raise
                return self._again(work, error)
            except UnicodeDecodeError as error:
                return self._again(work, corruption(str(error)))

    def _again(self, work: Callable[[sqlite3.Connection], T], error: sqlite3.Error) -> T:
        self.db.close()
        self._take(self._file.replace(error))
        return work(self.db)

    def do_freeing(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The same for work that makes the log smaller: on a full disk it may use the reserve."""
        with self.lock:
            try:
                return self.do(work)
            except WalUnavailable as error:
                if not is_disk_full(error.__cause__):
                    raise
                self.do(self._reserve.release)
                return self.do(work)

    def hold_reserve(self) -> None:
        """Take the reserve, and let the file grow, if the disk has space again."""
        self.do(self._reserve.hold)

    def tidy(self) -> None:
        """The log is empty: give space back to the disk, and take the reserve again if it was used."""
        self.do(self._tidy)

    def _tidy(self, db: sqlite3.Connection) -> None:
        if not self._reserve.is_held or db.execute("PRAGMA freelist_count").fetchone()[0] > _VACUUM_FREE_PAGES:
            db.execute("PRAGMA incremental_vacuum").fetchall()
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._reserve.hold(db)

    def close(self) -> None:
        """Let go of the file, so that another agent may open it."""
        with self.lock:
            self.db.close()
            self._file.close()
