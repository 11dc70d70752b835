"""The tables of a log file, and one connection to them. `value` comes last: what is before it is read without it."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wattledger_agent.wal_rows import StoredState, insert_state

_STATE = """
CREATE TABLE IF NOT EXISTS state(
    name TEXT PRIMARY KEY, crc INTEGER NOT NULL, key_id TEXT NOT NULL, value BLOB NOT NULL
)"""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS records(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, key TEXT NOT NULL, partition INTEGER NOT NULL,
    at_us INTEGER NOT NULL, size INTEGER NOT NULL, crc INTEGER NOT NULL, key_id TEXT NOT NULL DEFAULT '',
    value BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS set_aside(
    seq INTEGER PRIMARY KEY, topic, key, partition, at_us, size, crc, key_id, value, reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS ticks(
    number INTEGER PRIMARY KEY AUTOINCREMENT, at_us INTEGER NOT NULL, crc INTEGER NOT NULL, key_id TEXT NOT NULL,
    value BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS progress(name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
_COLUMNS = {
    "records": "seq, topic, key, partition, at_us, size, crc, key_id, value",
    "set_aside": "seq, topic, key, partition, at_us, size, crc, key_id, value, reason",
    "ticks": "number, at_us, crc, key_id, value",
    "progress": "name, value",
    "state": "name, crc, key_id, value",
}
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file raises: the binding fails at SQLite's own message where that quotes a damaged name."""
GENERATION_BITS = 40
"""Numbers of one generation of the log; the next one begins above them."""
_JOURNAL_BYTES = 64 << 20
_VERSION = 2
_MOST_SEQ = 1 << 62
LAST_TICK = "last_tick/"
"""What the names of the nodes' last ticks begin with in the state."""


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
            raise corruption(verdict)
    except UnicodeDecodeError as error:
        db.close()
        raise corruption(str(error)) from error
    except sqlite3.Error:
        db.close()
        raise
    return db


def corruption(words: str) -> sqlite3.DatabaseError:
    """An error that says that the file itself is bad."""
    found = sqlite3.DatabaseError(words)
    found.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return found


def make_tables(db: sqlite3.Connection) -> None:
    """The tables that are not there. Writes in any case, so that a file that can't be written is known at once."""
    with transaction(db):
        if is_version_1(db):
            _upgrade(db)
        for statement in (*_SCHEMA.split(";\n"), _STATE):
            db.execute(statement)
        db.execute(f"PRAGMA user_version={_VERSION}")
    for table, columns in _COLUMNS.items():
        # a damaged name of a column is found here, while the file can still be put aside
        db.execute(f"SELECT {columns} FROM {table} LIMIT 0")


def is_version_1(db: sqlite3.Connection) -> bool:
    """Told by its columns: a flipped bit in the version number must not make a log of today one of yesterday."""
    columns = {row[1] for row in db.execute("PRAGMA table_info(records)")}
    return bool(columns) and "key_id" not in columns


def _upgrade(db: sqlite3.Connection) -> None:
    """Version 1 knew no keys, and last ticks had a table of their own, without checksum."""
    db.execute("ALTER TABLE records ADD COLUMN key_id TEXT NOT NULL DEFAULT ''")
    db.execute("ALTER TABLE set_aside ADD COLUMN key_id")
    db.execute(_STATE)
    found = db.execute("SELECT node, value FROM last_ticks").fetchall()
    insert_state(db, [StoredState(f"{LAST_TICK}{node}", "", bytes(value)) for node, value in found])
    db.execute("DROP TABLE last_ticks")


def mend_numbers(db: sqlite3.Connection, least: int) -> None:
    """The next number of either kind is above all that are in use and not below `least`, also if the sequence table
    was damaged."""
    records = "SELECT seq FROM records UNION ALL SELECT seq FROM set_aside"
    wanted = [
        ("records", max(_highest(db, records, but="ticks"), least)),
        ("ticks", max(_highest(db, "SELECT number FROM ticks", but="records"), least)),
    ]
    if db.execute("SELECT name, seq FROM sqlite_sequence ORDER BY name").fetchall() != wanted:
        with transaction(db):
            db.execute("DELETE FROM sqlite_sequence")
            db.executemany("INSERT INTO sqlite_sequence VALUES (?,?)", wanted)


def _highest(db: sqlite3.Connection, in_use: str, but: str) -> int:
    """Of the sequence table all but the other kind counts: a name may be damaged too."""
    sql = (
        f"SELECT coalesce(max(seq), 0) FROM (SELECT seq FROM sqlite_sequence WHERE name<>? UNION ALL {in_use}) "
        "WHERE typeof(seq)='integer' AND seq BETWEEN 0 AND ?"
    )
    return int(db.execute(sql, (but, _MOST_SEQ)).fetchone()[0])


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


def _text(stored: bytes) -> str:
    """A damaged name must not make the whole log unreadable; its record's checksum tells."""
    return stored.decode(errors="replace")


def how_to_read(error: sqlite3.Error) -> str:
    """What to do about a log that could not be opened to read."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return "Read it as the agent's user or as root: SQLite shares a file beside it with the agent"
    return "`wattledger-agent wal export` gives what is left of it"
