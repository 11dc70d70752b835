"""What can still be read of a corrupt log file: every record with a right checksum, and where records are missing."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from wattledger_agent.wal_record import Kept, sound_record
from wattledger_agent.wal_schema import GENERATION_BITS, RECORD_COLUMNS, connect_to_read

_MOST_PROBED = 1_000_000


@dataclass(frozen=True, slots=True)
class Hole:
    """Numbers at which nothing could be read. Some may have been delivered before: the count is the most it can be."""

    from_seq: int
    to_seq: int
    after_us: int | None
    before_us: int | None


@dataclass(slots=True)
class Salvage:
    """Reads one corrupt file, which stays as it is. `readable` is false when not even its tables were there."""

    path: Path
    readable: bool = False
    last_ticks: dict[str, bytes] = field(default_factory=dict)
    sent_through: int = 0
    _kept_from: int = 0

    def records(self) -> Iterator[Kept | Hole]:
        """Records in the order of their numbers, and the holes between them."""
        with suppress(sqlite3.Error):
            db = connect_to_read(self.path)
            try:
                with suppress(sqlite3.Error):
                    self._read_memory(db)
                yield from self._walk(db)
            finally:
                db.close()

    def _read_memory(self, db: sqlite3.Connection) -> None:
        for name, value in db.execute("SELECT name, value FROM progress"):
            if name == "sent_through" and isinstance(value, int):
                self.sent_through = value
            if name == "kept_from" and isinstance(value, int):
                self._kept_from = value
        for node, value in db.execute("SELECT node, value FROM last_ticks"):
            if isinstance(node, str) and isinstance(value, bytes):
                self.last_ticks[node] = value

    def _walk(self, db: sqlite3.Connection) -> Iterator[Kept | Hole]:
        seq, last = self._ends(db)
        expected = seq
        after_us: int | None = None
        while seq <= last:
            for kept in self._run(db, seq):
                yield from _hole(expected, kept.seq - 1, after_us, kept.record.at_us)
                yield kept
                seq = expected = kept.seq + 1
                after_us = kept.record.at_us
            if seq <= last:
                seq = self._next_readable(db, seq + 1, last)
        yield from _hole(expected, last, after_us, None)

    def _run(self, db: sqlite3.Connection, seq: int) -> Iterator[Kept]:
        """Records from `seq` on, up to the first that can't be read or has a wrong checksum."""
        with suppress(sqlite3.Error):
            for row in db.execute(f"SELECT {RECORD_COLUMNS} FROM records WHERE seq>=? ORDER BY seq", (seq,)):
                kept = sound_record(*row)
                # a page that is pointed at twice gives its records twice
                if kept is None or kept.seq < seq:
                    return
                yield kept
                seq = kept.seq + 1

    def _next_readable(self, db: sqlite3.Connection, seq: int, last: int) -> int:
        next_generation = ((seq >> GENERATION_BITS) + 1) << GENERATION_BITS
        for number in range(seq, min(last, seq + _MOST_PROBED, next_generation) + 1):
            with suppress(sqlite3.Error):
                row = db.execute(f"SELECT {RECORD_COLUMNS} FROM records WHERE seq=?", (number,)).fetchone()
                if row is not None and sound_record(*row) is not None:
                    return number
        return min(next_generation + 1, last + 1)

    def _ends(self, db: sqlite3.Connection) -> tuple[int, int]:
        """First and last number that may be there; (1, 0) for none. Asked of the small tables first: the tree of the
        records may have lost its ends."""
        last = self._number(db, "SELECT seq FROM sqlite_sequence WHERE name='records'", "SELECT max(seq) FROM records")
        if last is None:
            return 1, 0
        # before anything was delivered, a log begins with its generation
        begun = (last >> GENERATION_BITS << GENERATION_BITS) + 1
        return self._kept_from or min(begun, self._number(db, "SELECT min(seq) FROM records") or begun), last

    def _number(self, db: sqlite3.Connection, *queries: str) -> int | None:
        """The first answer that is a number; None where there is none."""
        for sql in queries:
            with suppress(sqlite3.Error):
                row = db.execute(sql).fetchone()
                self.readable = True
                if row and isinstance(row[0], int):
                    return row[0]
        return None


def _hole(first: int, last: int, after_us: int | None, before_us: int | None) -> Iterator[Hole]:
    """Between two generations no numbers were used."""
    if first <= last and first >> GENERATION_BITS == last >> GENERATION_BITS:
        yield Hole(first, last, after_us, before_us)
