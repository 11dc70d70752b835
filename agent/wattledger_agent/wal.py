"""The write-ahead log: SQLite in WAL mode, `synchronous=FULL`, a checksum per record.

What was appended survives a kill and a power cut; it is deleted on the broker's delivery report only. A corrupt file
is put aside and counted, it never stops the agent.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TypeVar

import structlog

from wattledger_agent.metrics import SET_ASIDE, WAL_DROPPED, WAL_FILES_PUT_ASIDE, WAL_THINNED
from wattledger_agent.wal_file import Opened, WalFile
from wattledger_agent.wal_gap import GapNote, GapRecord, gap_encoder, gap_notes
from wattledger_agent.wal_import import bring_over, note_lost_tail
from wattledger_agent.wal_record import FullPolicy, Kept, WalFull, WalRecord, WalUnavailable, sound_record
from wattledger_agent.wal_reserve import Reserve
from wattledger_agent.wal_room import Room, Thin, plan_room, write_room
from wattledger_agent.wal_salvage import Salvage
from wattledger_agent.wal_schema import RECORD_COLUMNS, insert_records, is_corruption, is_disk_full, transaction

log = structlog.get_logger()
DEFAULT_CAP_BYTES = 2 << 30
_ROOM_SHARE = 20
_ROOM_ON_DISK_BYTES = 1 << 20
_VACUUM_FREE_PAGES = 16_384
_DELETE_PAGE = 500
_KEPT_FROM = (
    "INSERT OR REPLACE INTO progress SELECT 'kept_from', coalesce((SELECT min(seq) FROM records), "
    "(SELECT seq + 1 FROM sqlite_sequence WHERE name='records'))"
)
"""Where the log begins, for whoever must read it when its tree is damaged."""
T = TypeVar("T")


class Wal:
    """One log file, one process, any thread: one connection behind one lock, for a transaction belongs to it.

    Every method raises WalUnavailable when the disk refuses; then nothing was changed.
    """

    def __init__(
        self,
        path: Path,
        cap_bytes: int = DEFAULT_CAP_BYTES,
        when_full: FullPolicy = "drop_oldest",
        thin: Thin | None = None,
        gap_record: GapRecord | None = None,
    ) -> None:
        self.path = path
        self.cap_bytes = cap_bytes
        self.when_full = when_full
        self.files_put_aside = 0
        self.records_damaged = 0
        self.in_hand = 0
        """Highest number that the publisher holds now; 0 when it will read again from the start."""
        self._thin = thin
        self._gap_record = gap_record or gap_encoder("", path.stem)
        self._count = self._bytes = self._sent_through = self._tried_through = 0
        self._lock = RLock()
        self._file = WalFile(path)
        self._reserve = Reserve(path.with_name(f"{path.name}.reserve"))
        try:
            self._take(self._file.open())
            self._reserve.hold(self._db)
        except BaseException:
            self._file.close()
            raise

    def _take(self, opened: Opened) -> None:
        """Use an opened file; bring over what can be read of the one that it replaces."""
        self._db = opened.db
        if opened.aside is not None or opened.tail_lost:
            self.files_put_aside += 1
            WAL_FILES_PUT_ASIDE.inc()
        if opened.aside is not None:
            bring_over(self._db, Salvage(opened.aside), self._gap_record)
        if opened.tail_lost:
            note_lost_tail(self._db, self._gap_record)
        self._tried_through = 0
        self._load_sums()

    def _load_sums(self) -> None:
        [self._count, self._bytes] = self._db.execute("SELECT count(*), coalesce(sum(size), 0) FROM records").fetchone()
        row = self._db.execute("SELECT value FROM progress WHERE name='sent_through'").fetchone()
        self._sent_through = row[0] if row else 0

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work under the lock. A file found corrupt is replaced and the work done again, once."""
        with self._lock:
            try:
                return work(self._db)
            except sqlite3.OperationalError as error:
                raise WalUnavailable(f"{self.path}: {error}") from error
            except sqlite3.DatabaseError as error:
                if not is_corruption(error):
                    raise
                self._db.close()
                self._take(self._file.replace(error))
                return work(self._db)

    def _do_freeing(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The same for work that makes the log smaller: on a full disk it may use the reserve."""
        with self._lock:
            try:
                return self._do(work)
            except WalUnavailable as error:
                if not is_disk_full(error.__cause__):
                    raise
                self._do(self._reserve.release)
                return self._do(work)

    def append(self, records: Sequence[WalRecord], last_ticks: Mapping[str, bytes] | None = None) -> None:
        """Append a group, and remember last ticks, in one durable transaction: all of it or nothing.

        Raises WalFull (policy `block`) or WalUnavailable (disk full, read-only, failing). An empty log takes a group
        of any size.
        """
        incoming = sum(record.size_bytes for record in records)

        def write(db: sqlite3.Connection) -> None:
            with transaction(db):
                insert_records(db, records)
                db.executemany("INSERT OR REPLACE INTO last_ticks VALUES (?,?)", list((last_ticks or {}).items()))
            self._count, self._bytes = self._count + len(records), self._bytes + incoming

        with self._lock:
            over_bytes = self._bytes + incoming - self.cap_bytes
            if self._count and over_bytes > 0:
                # a twentieth more than needed, so that not every append leaves a gap record
                self._make_room(over_bytes, max(over_bytes, self.cap_bytes // _ROOM_SHARE), "cap")
            try:
                self._do(write)
            except WalUnavailable as error:
                if not is_disk_full(error.__cause__):
                    raise
                self._append_on_full_disk(write, incoming)

    def _append_on_full_disk(self, write: Callable[[sqlite3.Connection], None], incoming: int) -> None:
        """Take the group if the disk has space again, else as the policy says."""
        self._do(self._reserve.hold)
        try:
            self._do(write)
        except WalUnavailable as error:
            if self.when_full == "block" or not self._count or not is_disk_full(error.__cause__):
                raise
            # pages that this frees in the file are used again
            self._make_room(incoming, incoming + _ROOM_ON_DISK_BYTES, "disk_full")
            self._do(write)

    def _make_room(self, over_bytes: int, need_bytes: int, reason: str) -> None:
        """Apply the policy; what is thinned and dropped and the gap records that say so are one transaction."""
        if self.when_full == "block":
            raise WalFull(f"{self.path} is {over_bytes} bytes over its cap of {self.cap_bytes}; deliver some first")

        def free(db: sqlite3.Connection) -> None:
            tried_through = max(self._tried_through, self._sent_through)
            room = plan_room(db, need_bytes, self._thin, tried_through, self.in_hand)
            notes = gap_notes(room.dropped, reason)
            gaps = [self._gap_record(note) for note in notes]
            with transaction(db):
                write_room(db, room)
                insert_records(db, gaps)
            self._tried_through = room.tried_through
            self._bytes += sum(gap.size_bytes for gap in gaps) - room.freed_bytes
            self._count += len(gaps) - len(room.dropped)
            _tell(room, notes)

        self._do_freeing(free)

    def pending(self, after_seq: int, most: int) -> list[Kept]:
        """Records above `after_seq` in order; damaged ones are set aside and counted, the rest goes on."""

        def read(db: sqlite3.Connection) -> tuple[list[Kept], list[int], int]:
            sql = f"SELECT {RECORD_COLUMNS} FROM records WHERE seq>? ORDER BY seq LIMIT ?"
            good: list[Kept] = []
            damaged: list[int] = []
            seq = after_seq
            for row in db.execute(sql, (after_seq, most)):
                seq, kept = row[0], sound_record(*row)
                if kept is None:
                    damaged.append(seq)
                else:
                    good.append(kept)
            return good, damaged, seq

        while True:
            good, damaged, last = self._do(read)
            self.records_damaged += len(damaged)
            for seq in damaged:
                self.set_aside(seq, "damaged")
            if good or not damaged:
                return good
            after_seq = last

    def set_aside(self, seq: int, reason: str) -> None:
        """Move a record that can't be published out of the way; it stays in the file, and leaves a gap record."""

        def move(db: sqlite3.Connection) -> None:
            row = db.execute("SELECT topic, at_us FROM records WHERE seq=?", (seq,)).fetchone()
            if row is None:
                return
            topic = row[0] if isinstance(row[0], str) else ""
            # with a wrong checksum the stored time means nothing
            at_us = None if reason == "damaged" else row[1]
            gap = self._gap_record(GapNote(topic, seq, seq, 1, at_us, at_us, reason))
            with transaction(db):
                db.execute(
                    "INSERT OR REPLACE INTO set_aside "
                    "SELECT seq, topic, key, partition, at_us, size, crc, value, ? FROM records WHERE seq=?",
                    (reason, seq),
                )
                db.execute("DELETE FROM records WHERE seq=?", (seq,))
                insert_records(db, [gap])
            self._load_sums()
            SET_ASIDE.labels(reason).inc()
            log.error("wal_record_set_aside", path=str(self.path), topic=topic, seq=seq, reason=reason)

        self._do_freeing(move)

    def settle(self, delivered: Sequence[int], sent_through: int = 0) -> None:
        """Delete what the broker has, known from delivery reports only; and remember, before it is handed to the
        producer, up to where records were sent."""

        # small transactions: the journal must find room for each, also on a full disk
        for part in _pages(delivered):
            self._do_freeing(partial(self._delete, part))
        if sent_through > self._sent_through:
            self._do_freeing(partial(self._remember_sent, sent_through))
        if delivered and not self._count:
            self._do(self._tidy)

    def _delete(self, seqs: Sequence[int], db: sqlite3.Connection) -> None:
        marks = ",".join("?" * len(seqs))
        with transaction(db):
            sums = f"SELECT count(*), coalesce(sum(size), 0) FROM records WHERE seq IN ({marks})"
            count, size = db.execute(sums, seqs).fetchone()
            db.execute(f"DELETE FROM records WHERE seq IN ({marks})", seqs)
            db.execute(_KEPT_FROM)
        self._count, self._bytes = self._count - count, self._bytes - size

    def _remember_sent(self, through: int, db: sqlite3.Connection) -> None:
        with transaction(db):
            db.execute("INSERT OR REPLACE INTO progress VALUES ('sent_through', ?)", (through,))
        self._sent_through = through

    def _tidy(self, db: sqlite3.Connection) -> None:
        """The log is empty: give space back to the disk, and take the reserve again if it was used."""
        if not self._reserve.is_held or db.execute("PRAGMA freelist_count").fetchone()[0] > _VACUUM_FREE_PAGES:
            db.execute("PRAGMA incremental_vacuum").fetchall()
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._reserve.hold(db)

    def last_tick(self, node: str) -> bytes | None:
        """What the node's last batch ended with, for the first tick of the next one."""
        row = self._do(lambda db: db.execute("SELECT value FROM last_ticks WHERE node=?", (node,)).fetchone())
        return None if row is None else bytes(row[0])

    def count(self) -> int:
        """Records not yet delivered."""
        return self._count

    @property
    def kept_bytes(self) -> int:
        return self._bytes

    def close(self) -> None:
        """Let go of the file, so that another agent may open it."""
        with self._lock:
            self._db.close()
            self._file.close()


def _pages(seqs: Sequence[int]) -> Iterable[list[int]]:
    for start in range(0, len(seqs), _DELETE_PAGE):
        yield list(seqs[start : start + _DELETE_PAGE])


def _tell(room: Room, notes: Sequence[GapNote]) -> None:
    WAL_THINNED.inc(len(room.thinned))
    for note in notes:
        WAL_DROPPED.labels(note.topic, note.reason).inc(note.count)
        log.warning(
            "wal_gap",
            topic=note.topic,
            count=note.count,
            from_seq=note.from_seq,
            to_seq=note.to_seq,
            reason=note.reason,
        )
