"""The tables of a log file, and one connection to them. `value` comes last: what is before it is read without it."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from wattledger_agent.wal_record import Kept, WalRecord, checksum

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, key TEXT NOT NULL, partition INTEGER NOT NULL,
    at_us INTEGER NOT NULL, size INTEGER NOT NULL, crc INTEGER NOT NULL, value BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS set_aside(
    seq INTEGER PRIMARY KEY, topic, key, partition, at_us, size, crc, value, reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS last_ticks(node TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS progress(name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
RECORD_COLUMNS = "seq, topic, key, partition, at_us, crc, value"
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
GENERATION_BITS = 40
"""Numbers of one generation of the log; the next one begins above them."""
_JOURNAL_BYTES = 64 << 20
_VERSION = 1
_MOST_SEQ = 1 << 62


def is_corruption(error: sqlite3.Error) -> bool:
    """Whether the file itself is bad: not a full disk, not a lock, not a bug."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _CORRUPT


def is_corruption_at_open(error: sqlite3.Error, path: Path) -> bool:
    """While opening, a header that SQLite does not know, or takes for one of a newer SQLite, is corruption too."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    is_header = code == sqlite3.SQLITE_ERROR or (code == sqlite3.SQLITE_READONLY and os.access(path, os.W_OK))
    return is_header or is_corruption(error)


def is_disk_full(error: BaseException | None) -> bool:
    """Whether SQLite said that there is no space."""
    return isinstance(error, sqlite3.Error) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_FULL


def connect(path: Path) -> sqlite3.Connection:
    """Open a log file and check it whole, writing nothing if it is not new; then `make_tables`. Raises
    sqlite3.DatabaseError when it is corrupt."""
    db = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
    db.text_factory = _text
    try:
        if db.execute("PRAGMA page_count").fetchone()[0] == 0:
            # only then: it has no effect later, but writes, over a journal that is yet to be looked at
            db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute(f"PRAGMA journal_size_limit={_JOURNAL_BYTES}")
        [verdict] = db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            found = sqlite3.DatabaseError(verdict)
            found.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise found
    except sqlite3.Error:
        db.close()
        raise
    return db


def make_tables(db: sqlite3.Connection) -> None:
    """The tables that are not there. Writes in any case, so that a file that can't be written is known at once."""
    db.executescript(_SCHEMA)
    with transaction(db):
        db.execute(f"PRAGMA user_version={_VERSION}")


def mend_numbers(db: sqlite3.Connection, least: int) -> None:
    """The next number is above all that are in use and not below `least`, also if the sequence table was damaged."""
    in_use = "SELECT seq FROM records UNION ALL SELECT seq FROM set_aside UNION ALL SELECT seq FROM sqlite_sequence"
    where = "typeof(seq)='integer' AND seq BETWEEN 0 AND ?"
    [highest] = db.execute(f"SELECT coalesce(max(seq), 0) FROM ({in_use}) WHERE {where}", (_MOST_SEQ,)).fetchone()
    rows = db.execute("SELECT seq FROM sqlite_sequence WHERE name='records'").fetchall()
    if rows != [(max(highest, least),)]:
        with transaction(db):
            db.execute("DELETE FROM sqlite_sequence")
            db.execute("INSERT INTO sqlite_sequence VALUES ('records', ?)", (max(highest, least),))


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a log file without changing it, also one that an agent is writing."""
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=5.0, isolation_level=None, uri=True)
    db.text_factory = _text
    return db


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE … COMMIT; on any error, also one of the COMMIT itself, nothing of it stays."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


def insert_records(db: sqlite3.Connection, records: Sequence[WalRecord]) -> None:
    """Insert records under the next numbers, inside the caller's transaction."""
    [last] = db.execute("SELECT seq FROM sqlite_sequence WHERE name='records'").fetchone()
    insert_kept(db, [Kept(seq, record) for seq, record in enumerate(records, start=last + 1)])


def insert_kept(db: sqlite3.Connection, kept: Sequence[Kept]) -> None:
    """Insert records under their own numbers, inside the caller's transaction."""
    db.executemany(
        "INSERT INTO records(seq, topic, key, partition, at_us, size, crc, value) VALUES (?,?,?,?,?,?,?,?)",
        [
            (seq, r.topic, r.key, r.partition, r.at_us, r.size_bytes, checksum(seq, r), r.value)
            for seq, r in ((one.seq, one.record) for one in kept)
        ],
    )


def _text(stored: bytes) -> str:
    """A damaged name must not make the whole log unreadable; its record's checksum tells."""
    return stored.decode(errors="replace")
