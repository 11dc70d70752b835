"""Rows of a corrupt log file into the new one: with their numbers, and a gap record for what is missing."""

import sqlite3
from collections.abc import Sequence

import structlog

from wattledger_agent.wal_gap import STATE, TICKS, GapNote, GapRecord
from wattledger_agent.wal_record import Stored
from wattledger_agent.wal_rows import Rows, insert_state, insert_stored, insert_ticks
from wattledger_agent.wal_salvage import Hole, Salvage
from wattledger_agent.wal_schema import transaction

log = structlog.get_logger()
_GROUP = 500
_PLAIN = Rows()
"""Gap records of this file are not encrypted, and tell nothing that rows do not: the key at hand may be the wrong one,
which is looked at only when all is brought over."""


def bring_over(db: sqlite3.Connection, salvage: Salvage, gap_record: GapRecord) -> None:
    """Copy what can be read; new records are numbered above all that may have been there."""
    group: list[Stored] = []
    holes: list[Hole] = []
    saved = 0
    for found in salvage.records():
        if isinstance(found, Hole):
            holes.append(found)
        else:
            group.append(found)
            saved += 1
        if len(group) >= _GROUP:
            _insert(db, group)
            group = []
    _insert(db, group)
    with transaction(db):
        _PLAIN.insert(db, [gap_record(note) for note in _notes(salvage, holes)])
        insert_ticks(db, salvage.ticks)
        insert_state(db, salvage.state)
        progress = [("sent_through", salvage.sent_through), ("ticks_before", salvage.ticks_before)]
        db.executemany("INSERT OR REPLACE INTO progress VALUES (?,?)", progress)
    log.warning(
        "wal_salvaged",
        path=str(salvage.path),
        records=saved,
        holes=len(holes),
        ticks=len(salvage.ticks),
        readable=salvage.readable,
    )


def _notes(salvage: Salvage, holes: Sequence[Hole]) -> list[GapNote]:
    if not salvage.readable:
        return [GapNote("", 0, 0, 0, None, None, "corrupt_count_unknown")]
    notes = [_note("", hole) for hole in holes] + [_note(TICKS, hole) for hole in salvage.tick_holes]
    if salvage.state_damaged:
        notes.append(GapNote(STATE, 0, 0, salvage.state_damaged, None, None, "corrupt"))
    return notes


def _note(topic: str, hole: Hole) -> GapNote:
    count = hole.to_seq - hole.from_seq + 1
    return GapNote(topic, hole.from_seq, hole.to_seq, count, hole.after_us, hole.before_us, "corrupt")


def note_lost_tail(db: sqlite3.Connection, gap_record: GapRecord) -> None:
    """Leave a gap record for the end of a journal that SQLite could not use. The last ticks of those commits went
    with their records, so the node's next batch begins where its last surviving one ended."""
    seq, at_us = db.execute("SELECT coalesce(max(seq), 0) + 1, max(at_us) FROM records").fetchone()
    with transaction(db):
        _PLAIN.insert(db, [gap_record(GapNote("", seq, seq, 0, at_us, None, "journal_damaged_count_unknown"))])


def _insert(db: sqlite3.Connection, group: Sequence[Stored]) -> None:
    with transaction(db):
        insert_stored(db, group)
