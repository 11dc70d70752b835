"""The write-ahead log: SQLite in WAL mode, `synchronous=FULL`, a checksum per record.

What was appended survives a kill and a power cut; it is deleted on the broker's delivery report only. A corrupt file
is put aside and counted, it never stops the agent.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any

import structlog

from wattledger_agent.wal_record import FullPolicy, GapNote, Kept, WalFull, WalRecord, WalUnavailable, checksum

log = structlog.get_logger()
DEFAULT_CAP_BYTES = 2 << 30
Thin = Callable[[WalRecord], WalRecord | None]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, key TEXT NOT NULL, partition INTEGER NOT NULL,
    at_us INTEGER NOT NULL, value BLOB NOT NULL, crc INTEGER NOT NULL, size INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS damaged(
    seq INTEGER PRIMARY KEY, topic TEXT, key TEXT, partition INTEGER, at_us INTEGER, value BLOB, crc INTEGER
);
CREATE TABLE IF NOT EXISTS last_ticks(node TEXT PRIMARY KEY, value BLOB NOT NULL);
"""


class Wal:
    """One log file, one process, any thread: one connection behind one lock, for a transaction belongs to it."""

    def __init__(
        self,
        path: Path,
        cap_bytes: int = DEFAULT_CAP_BYTES,
        when_full: FullPolicy = "drop_oldest",
        thin: Thin | None = None,
    ) -> None:
        self.path = path
        self.cap_bytes = cap_bytes
        self.when_full = when_full
        self._thin = thin
        self.files_put_aside = 0
        self.records_damaged = 0
        self.gaps: list[GapNote] = []
        self._lock = RLock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = self._open()
        self._bytes = self._sum_bytes()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
                raise WalUnavailable(f"{self.path} is in use by another agent") from error
            self._put_aside(error)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=5.0, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA auto_vacuum=INCREMENTAL")
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            [verdict] = db.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)
            db.executescript(_SCHEMA)
        except sqlite3.DatabaseError:
            db.close()
            raise
        return db

    def _put_aside(self, error: Exception) -> None:
        """Rename the file and go on with a new one; whoever cares can read what is left of it."""
        self.files_put_aside += 1
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.corrupt-{number}")).exists():
            number += 1
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{self.path}{suffix}").rename(f"{aside}{suffix}")
        log.error("wal_put_aside", path=str(self.path), aside=str(aside), error=str(error))

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()

    def append(self, records: Sequence[WalRecord], last_ticks: dict[str, bytes] | None = None) -> None:
        """Append a group, and remember last ticks, in one durable transaction: all of it or nothing.

        Raises WalFull (policy block) or WalUnavailable (disk full, read-only).
        """
        incoming = sum(record.size_bytes for record in records)
        rows = [(r.topic, r.key, r.partition, r.at_us, r.value, checksum(r), r.size_bytes) for r in records]
        if self._bytes + incoming > self.cap_bytes:
            self._make_room(incoming)
        try:
            with self._transaction():
                self._db.executemany(
                    "INSERT INTO records(topic, key, partition, at_us, value, crc, size) VALUES (?,?,?,?,?,?,?)", rows
                )
                for node, value in (last_ticks or {}).items():
                    self._db.execute("INSERT OR REPLACE INTO last_ticks(node, value) VALUES (?,?)", (node, value))
                self._bytes += incoming
        except sqlite3.OperationalError as error:
            self._bytes = self._sum_bytes()
            raise WalUnavailable(f"{self.path}: {error}") from error

    def _transaction(self) -> "_Transaction":
        return _Transaction(self._db, self._lock)

    def _make_room(self, incoming: int) -> None:
        """Apply the policy: thin or drop the oldest until the group fits, and note the gap."""
        if self.when_full == "block":
            raise WalFull(f"{self.path} holds {self._bytes} bytes of {self.cap_bytes}")
        need = self._bytes + incoming - self.cap_bytes
        dropped: list[Kept] = []
        thinned: list[Kept] = []
        freed = 0
        for kept in self._oldest():
            if freed >= need:
                break
            smaller = self._thin(kept.record) if self._thin else None
            if smaller is not None and smaller.size_bytes < kept.record.size_bytes:
                thinned.append(Kept(kept.seq, smaller))
                freed += kept.record.size_bytes - smaller.size_bytes
            else:
                dropped.append(kept)
                freed += kept.record.size_bytes
        with self._transaction():
            self._db.executemany("DELETE FROM records WHERE seq=?", [(kept.seq,) for kept in dropped])
            self._db.executemany(
                "UPDATE records SET value=?, crc=?, size=? WHERE seq=?",
                [(t.record.value, checksum(t.record), t.record.size_bytes, t.seq) for t in thinned],
            )
        self._bytes -= freed
        self._note_gaps(dropped)

    def _note_gaps(self, dropped: Sequence[Kept]) -> None:
        by_topic: dict[str, list[Kept]] = {}
        for kept in dropped:
            by_topic.setdefault(kept.record.topic, []).append(kept)
        for topic, lost in by_topic.items():
            stamps = [kept.record.at_us for kept in lost]
            note = GapNote(topic, lost[0].seq, lost[-1].seq, len(lost), min(stamps), max(stamps), "cap")
            self.gaps.append(note)
            log.warning("wal_gap", topic=topic, count=len(lost), from_seq=note.from_seq, to_seq=note.to_seq)

    def take_gaps(self) -> list[GapNote]:
        """Gaps since the last call: the caller appends a gap record for each."""
        gaps, self.gaps = self.gaps, []
        return gaps

    def _oldest(self) -> Iterable[Kept]:
        after = 0
        while page := self.pending(after, 500):
            yield from page
            after = page[-1].seq

    def pending(self, after_seq: int, most: int) -> list[Kept]:
        """Records above `after_seq` in order; damaged ones are put aside and counted, the rest goes on."""
        rows = self._rows(
            "SELECT seq, topic, key, partition, at_us, value, crc FROM records WHERE seq>? ORDER BY seq LIMIT ?",
            (after_seq, most),
        )
        good: list[Kept] = []
        for seq, topic, key, partition, at_us, value, crc in rows:
            record = WalRecord(topic, key, value if isinstance(value, bytes) else b"", partition, at_us)
            if checksum(record) == crc:
                good.append(Kept(seq, record))
            else:
                self._quarantine(seq)
        if rows and not good:
            return self.pending(rows[-1][0], most)
        return good

    def _quarantine(self, seq: int) -> None:
        self.records_damaged += 1
        with self._transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO damaged "
                "SELECT seq, topic, key, partition, at_us, value, crc FROM records WHERE seq=?",
                (seq,),
            )
            self._db.execute("DELETE FROM records WHERE seq=?", (seq,))
        self._bytes = self._sum_bytes()
        log.error("wal_record_damaged", path=str(self.path), seq=seq)

    def delivered(self, seqs: Sequence[int]) -> None:
        """Delete what the broker has: only ever called from delivery reports."""
        with self._transaction():
            for start in range(0, len(seqs), 500):
                part = list(seqs[start : start + 500])
                marks = ",".join("?" * len(part))
                [freed] = self._db.execute(f"SELECT sum(size) FROM records WHERE seq IN ({marks})", part).fetchone()
                self._db.execute(f"DELETE FROM records WHERE seq IN ({marks})", part)
                self._bytes -= freed or 0

    def last_tick(self, node: str) -> bytes | None:
        """What the node's last batch ended with, for the first tick of the next one."""
        rows = self._rows("SELECT value FROM last_ticks WHERE node=?", (node,))
        return bytes(rows[0][0]) if rows else None

    def count(self) -> int:
        """Records not yet delivered."""
        return int(self._rows("SELECT count(*) FROM records")[0][0])

    @property
    def kept_bytes(self) -> int:
        return self._bytes

    def _sum_bytes(self) -> int:
        return int(self._rows("SELECT coalesce(sum(size), 0) FROM records")[0][0])

    def close(self) -> None:
        self._db.close()


class _Transaction:
    """BEGIN IMMEDIATE … COMMIT, or ROLLBACK when anything goes wrong; the connection is this thread's meanwhile."""

    def __init__(self, db: sqlite3.Connection, lock: RLock) -> None:
        self._db = db
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._db.execute("COMMIT" if kind is None else "ROLLBACK")
        finally:
            self._lock.release()
