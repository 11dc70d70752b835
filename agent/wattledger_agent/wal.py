"""The write-ahead log: SQLite in WAL mode, `synchronous=FULL`, a checksum per row.

What was appended survives a kill and a power cut; it is deleted on the broker's delivery report only. A corrupt file
is put aside and counted, it never stops the agent.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from wattledger_agent import wal_ticks
from wattledger_agent.metrics import SET_ASIDE, WAL_DROPPED, WAL_THINNED
from wattledger_agent.wal_cipher import WalCipher
from wattledger_agent.wal_gap import STATE, GapNote, GapRecord, gap_encoder, gap_notes
from wattledger_agent.wal_record import FullPolicy, Kept, WalFull, WalRecord, WalUnavailable
from wattledger_agent.wal_room import Room, Thin, plan_room, write_room
from wattledger_agent.wal_rows import RECORD_COLUMNS, Rows, state_row
from wattledger_agent.wal_schema import LAST_TICK, is_disk_full, transaction
from wattledger_agent.wal_store import Store

log = structlog.get_logger()
DEFAULT_CAP_BYTES = 2 << 30
_ROOM_SHARE = 20
_ROOM_ON_DISK_BYTES = 1 << 20
_DELETE_PAGE = 500
_SET_ASIDE_COLUMNS = "seq, topic, key, partition, at_us, size, crc, key_id, value"
_KEPT_FROM = (
    "INSERT OR REPLACE INTO progress SELECT 'kept_from', coalesce((SELECT min(seq) FROM records), "
    "(SELECT seq + 1 FROM sqlite_sequence WHERE name='records'))"
)
"""Where the log begins, for whoever must read it when its tree is damaged."""
T = TypeVar("T")


class Wal:
    """One log file, one process, any thread.

    Every method raises WalUnavailable when the disk refuses; then nothing was changed. With a cipher what is written
    is encrypted; opening raises WalKeyMissing when something is there that its keys can't read.
    """

    def __init__(
        self,
        path: Path,
        cap_bytes: int = DEFAULT_CAP_BYTES,
        when_full: FullPolicy = "drop_oldest",
        thin: Thin | None = None,
        gap_record: GapRecord | None = None,
        cipher: WalCipher | None = None,
    ) -> None:
        self.path = path
        self.cap_bytes = cap_bytes
        self.when_full = when_full
        self.records_damaged = self.ticks_damaged = 0
        self.in_hand = 0
        """Highest number that the publisher holds now; 0 when it will read again from the start."""
        self.appended_bytes = 0
        """Bytes of records appended since this log was opened, for the rate at which it is drained."""
        self._thin = thin
        self._gap_record = gap_record or gap_encoder("", path.stem)
        self._rows = Rows(cipher)
        self._store = Store(path, self._rows, self._gap_record)

    def append(
        self,
        records: Sequence[WalRecord],
        last_ticks: Mapping[str, bytes] | None = None,
        ticks_before: int | None = None,
        state: Mapping[str, bytes] | None = None,
    ) -> None:
        """Append a group in one durable transaction, all of it or nothing: with it remember last ticks by node and
        other named values, and forget the ticks of the journal below `ticks_before`, which the records now hold.

        Raises WalFull (policy `block`) or WalUnavailable (disk full, read-only, failing). An empty log takes a group
        of any size.
        """
        incoming = sum(self._rows.size_bytes(record) for record in records)
        named = {**(state or {}), **{f"{LAST_TICK}{node}": value for node, value in (last_ticks or {}).items()}}
        freed = partial(wal_ticks.count_and_bytes, before=ticks_before or 0)

        def write(db: sqlite3.Connection) -> None:
            _, freed_bytes = freed(db)
            with transaction(db):
                self._rows.insert(db, records)
                self._rows.put_state(db, named)
                if ticks_before is not None:
                    wal_ticks.drop_before(db, ticks_before)
            self._store.count += len(records)
            self._store.bytes += incoming
            self._store.ticks_bytes -= freed_bytes
            self.appended_bytes += incoming

        with self._store.lock:
            self._write(write, incoming - self._store.do(freed)[1])

    def note_tick(self, value: bytes, at_us: int) -> int:
        """Keep one tick, read at `at_us` (µs since the epoch), until the batch that holds it is appended; its number.

        Durable when this returns. Numbers grow and are never used twice. Raises as `append` does.
        """
        incoming = len(value) + self._rows.overhead_bytes

        def write(db: sqlite3.Connection) -> int:
            with transaction(db):
                number = wal_ticks.note(db, self._rows, value, at_us)
            self._store.ticks_bytes += incoming
            return number

        return self._write(write, incoming)

    def open_ticks(self) -> list[tuple[int, bytes]]:
        """Ticks that no batch holds yet, in order, with their numbers. Damaged ones are left out and counted, and
        leave a gap record; they are forgotten."""
        with self._store.lock:
            journal = self._store.do(lambda db: wal_ticks.read(db, self._rows))
            if journal.damaged:
                self._forget(
                    wal_ticks.damage_notes(journal.damaged), partial(wal_ticks.drop_damaged, damaged=journal.damaged)
                )
                self.ticks_damaged += len(journal.damaged)
        return journal.ticks

    def _write(self, write: Callable[[sqlite3.Connection], T], incoming: int) -> T:
        """Do work that adds `incoming` bytes, after making room as the policy says."""
        with self._store.lock:
            over_bytes = self.kept_bytes + incoming - self.cap_bytes
            if self._store.count and over_bytes > 0 and incoming > 0:
                # a twentieth more than needed, so that not every append leaves a gap record
                self._make_room(over_bytes, max(over_bytes, self.cap_bytes // _ROOM_SHARE), "cap")
            try:
                return self._store.do(write)
            except WalUnavailable as error:
                if not is_disk_full(error.__cause__):
                    raise
                return self._write_on_full_disk(write, incoming)

    def _write_on_full_disk(self, write: Callable[[sqlite3.Connection], T], incoming: int) -> T:
        """Take it if the disk has space again, else as the policy says."""
        self._store.hold_reserve()
        try:
            return self._store.do(write)
        except WalUnavailable as error:
            if self.when_full == "block" or not self._store.count or not is_disk_full(error.__cause__):
                raise
            # pages that this frees in the file are used again
            self._make_room(incoming, incoming + _ROOM_ON_DISK_BYTES, "disk_full")
            return self._store.do(write)

    def _make_room(self, over_bytes: int, need_bytes: int, reason: str) -> None:
        """Apply the policy; what is thinned and dropped and the gap records that say so are one transaction."""
        if self.when_full == "block":
            raise WalFull(f"{self.path} is {over_bytes} bytes over its cap of {self.cap_bytes}; deliver some first")

        def free(db: sqlite3.Connection) -> None:
            tried_through = max(self._store.tried_through, self._store.sent_through)
            room = plan_room(db, self._rows, need_bytes, self._thin, tried_through, self.in_hand)
            notes = gap_notes(room.dropped, reason)
            gaps = [self._gap_record(note) for note in notes]
            with transaction(db):
                write_room(db, room)
                self._rows.insert(db, gaps)
            self._store.tried_through = room.tried_through
            self._store.bytes += sum(self._rows.size_bytes(gap) for gap in gaps) - room.freed_bytes
            self._store.count += len(gaps) - len(room.dropped)
            _tell(room, notes)

        self._store.do_freeing(free)

    def pending(self, after_seq: int, most: int) -> list[Kept]:
        """Records above `after_seq` in order; damaged ones are set aside and counted, the rest goes on."""

        def read(db: sqlite3.Connection) -> tuple[list[Kept], list[int], int]:
            sql = f"SELECT {RECORD_COLUMNS} FROM records WHERE seq>? ORDER BY seq LIMIT ?"
            good: list[Kept] = []
            damaged: list[int] = []
            seq = after_seq
            for row in db.execute(sql, (after_seq, most)):
                seq, kept = row[0], self._rows.read(row)
                if kept is None:
                    damaged.append(seq)
                else:
                    good.append(kept)
            return good, damaged, seq

        while True:
            good, damaged, last = self._store.do(read)
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
                    f"INSERT OR REPLACE INTO set_aside({_SET_ASIDE_COLUMNS}, reason) "
                    f"SELECT {_SET_ASIDE_COLUMNS}, ? FROM records WHERE seq=?",
                    (reason, seq),
                )
                db.execute("DELETE FROM records WHERE seq=?", (seq,))
                self._rows.insert(db, [gap])
            self._store.load_sums()
            SET_ASIDE.labels(reason).inc()
            log.error("wal_record_set_aside", path=str(self.path), topic=topic, seq=seq, reason=reason)

        self._store.do_freeing(move)

    def settle(self, delivered: Sequence[int], sent_through: int = 0) -> None:
        """Delete what the broker has, known from delivery reports only; and remember, before it is handed to the
        producer, up to where records were sent."""

        # small transactions: the journal must find room for each, also on a full disk
        for part in _pages(delivered):
            self._store.do_freeing(partial(self._delete, part))
        if sent_through > self._store.sent_through:
            self._store.do_freeing(partial(self._remember_sent, sent_through))
        if delivered and not self._store.count:
            self._store.tidy()

    def _delete(self, seqs: Sequence[int], db: sqlite3.Connection) -> None:
        marks = ",".join("?" * len(seqs))
        with transaction(db):
            sums = f"SELECT count(*), coalesce(sum(size), 0) FROM records WHERE seq IN ({marks})"
            count, size = db.execute(sums, seqs).fetchone()
            db.execute(f"DELETE FROM records WHERE seq IN ({marks})", seqs)
            db.execute(_KEPT_FROM)
        self._store.count -= count
        self._store.bytes -= size

    def _remember_sent(self, through: int, db: sqlite3.Connection) -> None:
        with transaction(db):
            db.execute("INSERT OR REPLACE INTO progress VALUES ('sent_through', ?)", (through,))
        self._store.sent_through = through

    def last_tick(self, node: str) -> bytes | None:
        """What the node's last batch ended with, for the first tick of the next one."""
        return self.state(f"{LAST_TICK}{node}")

    def state(self, name: str) -> bytes | None:
        """A named value; None when there is none, or when it was damaged: then it is forgotten, with a gap record."""
        with self._store.lock:
            row = self._store.do(lambda db: state_row(db, name))
            value = None if row is None else self._rows.state(row)
            if row is not None and value is None:
                self._forget([GapNote(STATE, 0, 0, 1, None, None, "damaged")], partial(_forget_state, name=name))
        return value

    def _forget(self, notes: Sequence[GapNote], forget: Callable[[sqlite3.Connection], None]) -> None:
        """Forget damaged rows of journal or state and leave gap records, in one transaction."""

        def write(db: sqlite3.Connection) -> None:
            with transaction(db):
                forget(db)
                self._rows.insert(db, [self._gap_record(one) for one in notes])
            self._store.load_sums()

        self._store.do_freeing(write)
        for one in notes:
            log.error("wal_rows_damaged", path=str(self.path), rows=one.topic, from_seq=one.from_seq, count=one.count)

    def count(self) -> int:
        """Records not yet delivered."""
        return self._store.count

    @property
    def kept_bytes(self) -> int:
        """Bytes that count in the cap: of records not yet delivered, and of the journal of ticks."""
        return self._store.bytes + self._store.ticks_bytes

    @property
    def files_put_aside(self) -> int:
        """Corrupt files and journals put aside since this log was opened."""
        return self._store.files_put_aside

    def close(self) -> None:
        """Let go of the file, so that another agent may open it."""
        self._store.close()


def _pages(seqs: Sequence[int]) -> Iterable[list[int]]:
    for start in range(0, len(seqs), _DELETE_PAGE):
        yield list(seqs[start : start + _DELETE_PAGE])


def _forget_state(db: sqlite3.Connection, name: str) -> None:
    db.execute("DELETE FROM state WHERE name=?", (name,))


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
