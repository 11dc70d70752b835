"""What can still be read of a corrupt log file: every row with a right checksum, and where rows are missing.

Nothing is decrypted: rows are brought over as they are, so that no key is needed.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from wattledger_agent.wal_record import Stored, sound_row
from wattledger_agent.wal_rows import (
    RECORD_COLUMNS,
    TICK_COLUMNS,
    StoredState,
    StoredTick,
    all_state,
    sound_tick,
)
from wattledger_agent.wal_schema import GENERATION_BITS, LAST_TICK, UNREADABLE, connect_to_read, is_version_1

_MOST_PROBED = 1_000_000
_MOST_TICKS_PROBED = 20_000


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
    state: list[StoredState] = field(default_factory=list)
    state_damaged: int = 0
    ticks: list[StoredTick] = field(default_factory=list)
    tick_holes: list[Hole] = field(default_factory=list)
    sent_through: int = 0
    ticks_before: int = 0
    _kept_from: int = 0
    _columns: str = RECORD_COLUMNS

    def records(self) -> Iterator[Stored | Hole]:
        """Records in the order of their numbers, and the holes between them; what else the file holds is read first."""
        with suppress(*UNREADABLE):
            db = connect_to_read(self.path)
            try:
                for read in (self._read_progress, self._read_columns, self._read_state, self._read_ticks):
                    with suppress(*UNREADABLE):
                        read(db)
                yield from self._walk(db)
            finally:
                db.close()

    def _read_progress(self, db: sqlite3.Connection) -> None:
        for name, value in db.execute("SELECT name, value FROM progress"):
            if name == "sent_through" and isinstance(value, int):
                self.sent_through = value
            if name == "kept_from" and isinstance(value, int):
                self._kept_from = value
            if name == "ticks_before" and isinstance(value, int):
                self.ticks_before = value

    def _read_columns(self, db: sqlite3.Connection) -> None:
        if is_version_1(db):
            self._columns = RECORD_COLUMNS.replace("key_id", "'' AS key_id")

    def _read_state(self, db: sqlite3.Connection) -> None:
        if self._columns != RECORD_COLUMNS:
            for node, value in db.execute("SELECT node, value FROM last_ticks"):
                if isinstance(node, str) and isinstance(value, bytes):
                    self.state.append(StoredState(f"{LAST_TICK}{node}", "", value))
            return
        found = all_state(db)
        self.state = [one for one in found if one is not None]
        self.state_damaged = len(found) - len(self.state)

    def _read_ticks(self, db: sqlite3.Connection) -> None:
        """The journal is short, a row for each tick of one flush: each number is asked for by itself."""
        last = self._number(db, "SELECT seq FROM sqlite_sequence WHERE name='ticks'", "SELECT max(number) FROM ticks")
        if last is None:
            return
        begun = max(self.ticks_before, (last >> GENERATION_BITS << GENERATION_BITS) + 1, last - _MOST_TICKS_PROBED)
        numbers = set(range(begun, last + 1))
        with suppress(*UNREADABLE):
            # also those that an earlier salvage brought over, from before this generation
            numbers.update(row[0] for row in db.execute("SELECT number FROM ticks") if isinstance(row[0], int))
        expected = min(numbers, default=last + 1)
        after_us: int | None = None
        for number in sorted(numbers):
            tick = self._tick(db, number)
            if tick is not None:
                self.tick_holes += _hole(expected, number - 1, after_us, tick.at_us)
                self.ticks.append(tick)
                expected, after_us = number + 1, tick.at_us
            elif number == begun:
                # what is missing at the end of an earlier generation can't be known
                expected, after_us = begun, None
        self.tick_holes += _hole(expected, last, after_us, None)

    def _tick(self, db: sqlite3.Connection, number: int) -> StoredTick | None:
        with suppress(*UNREADABLE):
            row = db.execute(f"SELECT {TICK_COLUMNS} FROM ticks WHERE number=?", (number,)).fetchone()
            return None if row is None else sound_tick(*row)
        return None

    def _walk(self, db: sqlite3.Connection) -> Iterator[Stored | Hole]:
        seq, last = self._ends(db)
        expected = seq
        after_us: int | None = None
        while seq <= last:
            for stored in self._run(db, seq):
                yield from _hole(expected, stored.seq - 1, after_us, stored.record.at_us)
                yield stored
                seq = expected = stored.seq + 1
                after_us = stored.record.at_us
            if seq <= last:
                seq = self._next_readable(db, seq + 1, last)
        yield from _hole(expected, last, after_us, None)

    def _run(self, db: sqlite3.Connection, seq: int) -> Iterator[Stored]:
        """Records from `seq` on, up to the first that can't be read or has a wrong checksum."""
        with suppress(*UNREADABLE):
            for row in db.execute(f"SELECT {self._columns} FROM records WHERE seq>=? ORDER BY seq", (seq,)):
                stored = sound_row(*row)
                # a page that is pointed at twice gives its records twice
                if stored is None or stored.seq < seq:
                    return
                yield stored
                seq = stored.seq + 1

    def _next_readable(self, db: sqlite3.Connection, seq: int, last: int) -> int:
        next_generation = ((seq >> GENERATION_BITS) + 1) << GENERATION_BITS
        for number in range(seq, min(last, seq + _MOST_PROBED, next_generation) + 1):
            with suppress(*UNREADABLE):
                row = db.execute(f"SELECT {self._columns} FROM records WHERE seq=?", (number,)).fetchone()
                if row is not None and sound_row(*row) is not None:
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
            with suppress(*UNREADABLE):
                row = db.execute(sql).fetchone()
                self.readable = True
                if row and isinstance(row[0], int):
                    return row[0]
        return None


def _hole(first: int, last: int, after_us: int | None, before_us: int | None) -> Iterator[Hole]:
    """Between two generations no numbers were used."""
    if first <= last and first >> GENERATION_BITS == last >> GENERATION_BITS:
        yield Hole(first, last, after_us, before_us)
