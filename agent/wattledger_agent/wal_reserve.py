"""Space kept for a full disk: SQLite needs some to delete, so without it a full log could never shrink again."""

import os
import sqlite3
from pathlib import Path

import structlog

log = structlog.get_logger()
_MOST_PAGES = 1_073_741_823
_PAGES_TO_DELETE = 128
"""Rebalancing a tree takes pages before it gives some back."""
RESERVE_BYTES = 8 << 20
"""Twice what SQLite's journal grows to before it is copied into the file."""


class Reserve:
    """A file of no content beside the log. Given up only for work that frees space, never to take more records."""

    def __init__(self, path: Path, size_bytes: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size_bytes = size_bytes
        self._is_limited = False

    def hold(self, db: sqlite3.Connection) -> bool:
        """Take the space, if it is there; then the log's file may grow."""
        if not self.is_held:
            try:
                with self._path.open("wb") as file:
                    os.posix_fallocate(file.fileno(), 0, self._size_bytes)
            except OSError as error:
                self._path.unlink(missing_ok=True)
                log.warning("wal_no_reserve", path=str(self._path), error=str(error))
                return False
        if self._is_limited:
            db.execute(f"PRAGMA max_page_count={_MOST_PAGES}")
            self._is_limited = False
        return True

    @property
    def is_held(self) -> bool:
        return self._path.exists() and self._path.stat().st_size >= self._size_bytes

    def release(self, db: sqlite3.Connection) -> None:
        """Give the space to the journal. Until it is held again the file grows no more, or it would take all of it."""
        self._path.unlink(missing_ok=True)
        # what waits in the journal moves into the file, and the journal's space becomes free
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if not self._is_limited:
            [pages] = db.execute("PRAGMA page_count").fetchone()
            db.execute(f"PRAGMA max_page_count={pages + _PAGES_TO_DELETE}")
            self._is_limited = True
