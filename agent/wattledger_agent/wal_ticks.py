"""The journal of ticks in a log: what was read since the last batch. Reading, dropping and mending; no policy."""

import sqlite3
from dataclasses import dataclass
from itertools import groupby

from wattledger_agent.wal_gap import TICKS, GapNote
from wattledger_agent.wal_rows import TICK_COLUMNS, Rows, insert_ticks, last_number, sound_tick

_SIZE = "coalesce(sum(length(value)), 0)"


@dataclass(frozen=True, slots=True)
class Journal:
    """Open ticks in order, and the numbers of the damaged rows between them."""

    ticks: list[tuple[int, bytes]]
    damaged: list[int]


def note(db: sqlite3.Connection, rows: Rows, value: bytes, at_us: int) -> int:
    """Add a row, inside the caller's transaction; its number."""
    stored = rows.stored_tick(last_number(db, "ticks") + 1, at_us, value)
    insert_ticks(db, [stored])
    return stored.number


def read(db: sqlite3.Connection, rows: Rows) -> Journal:
    """All of the journal."""
    journal = Journal([], [])
    for row in db.execute(f"SELECT {TICK_COLUMNS} FROM ticks ORDER BY number"):
        value = rows.tick(sound_tick(*row))
        if value is None:
            journal.damaged.append(row[0])
        else:
            journal.ticks.append((row[0], value))
    return journal


def count_and_bytes(db: sqlite3.Connection, before: int | None = None) -> tuple[int, int]:
    """Rows, and the bytes that they count in the cap; with `before`, of those below it."""
    where = "" if before is None else f" WHERE number<{int(before)}"
    count, size = db.execute(f"SELECT count(*), {_SIZE} FROM ticks{where}").fetchone()
    return int(count), int(size)


def drop_before(db: sqlite3.Connection, before: int) -> None:
    """Forget what a batch holds, inside the caller's transaction; and where the journal begins, for whoever must read
    it when its tree is damaged."""
    db.execute("DELETE FROM ticks WHERE number<?", (before,))
    db.execute("INSERT OR REPLACE INTO progress VALUES ('ticks_before', ?)", (before,))


def drop_damaged(db: sqlite3.Connection, damaged: list[int]) -> None:
    """Forget rows that can't be read, inside the caller's transaction."""
    db.executemany("DELETE FROM ticks WHERE number=?", [(number,) for number in damaged])


def damage_notes(damaged: list[int]) -> list[GapNote]:
    """One note for each run of damaged rows. What they hold of their time means nothing."""
    notes = []
    for _, run in groupby(enumerate(damaged), key=lambda place: place[1] - place[0]):
        numbers = [number for _, number in run]
        notes.append(GapNote(TICKS, numbers[0], numbers[-1], len(numbers), None, None, "damaged"))
    return notes
