"""What a log file holds, read without touching it: also while an agent writes it."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from wattledger_agent.wal_keys import rows_by_key
from wattledger_agent.wal_record import WalUnavailable
from wattledger_agent.wal_schema import GENERATION_BITS, connect_to_read, how_to_read, is_version_1


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """Records of one topic not yet delivered; times in µs since the epoch."""

    topic: str
    count: int
    size_bytes: int
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class JournalStatus:
    """Ticks that no batch holds yet."""

    count: int = 0
    size_bytes: int = 0
    first_us: int | None = None
    last_us: int | None = None


@dataclass(frozen=True, slots=True)
class WalStatus:
    """A log file: what waits, by topic; the journal; what was set aside, by reason; corrupt files beside it.

    `first_seq` and `last_seq` are of the records that wait; `sent_through` is the number up to which records were ever
    handed to the producer; `generation` counts the files that this log had before. `rows_by_key` says how many rows
    each key encrypts, '' those that are not encrypted.
    """

    topics: tuple[TopicStatus, ...]
    set_aside: tuple[tuple[str, int], ...]
    files_put_aside: tuple[Path, ...]
    journal: JournalStatus = JournalStatus()
    first_seq: int | None = None
    last_seq: int | None = None
    sent_through: int = 0
    generation: int = 0
    rows_by_key: tuple[tuple[str, int], ...] = ()

    @property
    def records(self) -> int:
        return sum(topic.count for topic in self.topics)

    @property
    def size_bytes(self) -> int:
        """Of the records, without the journal."""
        return sum(topic.size_bytes for topic in self.topics)

    @property
    def key_ids(self) -> tuple[str, ...]:
        return tuple(key_id for key_id, _ in self.rows_by_key if key_id)


def read_status(path: Path) -> WalStatus:
    """Read a log file. Raises WalUnavailable when it can't be read as one."""
    try:
        db = connect_to_read(path)
        try:
            # one transaction: all of it is of one moment
            db.execute("BEGIN")
            return _read(db, path)
        finally:
            db.close()
    except sqlite3.Error as error:
        raise WalUnavailable(f"{path} can't be read as a log: {error}. {how_to_read(error)}") from error


def _read(db: sqlite3.Connection, path: Path) -> WalStatus:
    topics = db.execute(
        "SELECT topic, count(*), sum(size), min(at_us), max(at_us) FROM records GROUP BY topic ORDER BY topic"
    ).fetchall()
    aside = db.execute("SELECT reason, count(*) FROM set_aside GROUP BY reason ORDER BY reason").fetchall()
    first_seq, last_seq = db.execute("SELECT min(seq), max(seq) FROM records").fetchone()
    sent = db.execute("SELECT value FROM progress WHERE name='sent_through'").fetchone()
    given = db.execute("SELECT max(seq) FROM sqlite_sequence").fetchone()
    journal, keys = JournalStatus(), {"": sum(row[1] for row in topics)}
    if not is_version_1(db):
        ticks = "SELECT count(*), coalesce(sum(length(value)), 0), min(at_us), max(at_us) FROM ticks"
        journal, keys = JournalStatus(*db.execute(ticks).fetchone()), rows_by_key(db)
    return WalStatus(
        tuple(TopicStatus(*row) for row in topics),
        tuple(aside),
        _put_aside(path),
        journal,
        first_seq,
        last_seq,
        int(sent[0]) if sent else 0,
        int(given[0] or 0) >> GENERATION_BITS,
        tuple(sorted(keys.items())),
    )


def _put_aside(path: Path) -> tuple[Path, ...]:
    """Corrupt files beside the log; of SQLite's files that belong to one only the journal that was copied alone."""
    found = {file for file in path.parent.glob(f"{path.name}.corrupt-*") if not file.name.endswith("-shm")}
    return tuple(sorted(f for f in found if not f.name.endswith("-wal") or f.with_name(f.name[:-4]) not in found))
