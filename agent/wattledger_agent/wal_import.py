"""Records of a corrupt log file into the new one: with their numbers, and a gap record for what is missing."""

import sqlite3
from collections.abc import Sequence

import structlog

from wattledger_agent.wal_gap import GapNote, GapRecord
from wattledger_agent.wal_record import Kept
from wattledger_agent.wal_salvage import Hole, Salvage
from wattledger_agent.wal_schema import insert_kept, insert_records, transaction

log = structlog.get_logger()
_GROUP = 500


def bring_over(db: sqlite3.Connection, salvage: Salvage, gap_record: GapRecord) -> None:
    """Copy what can be read; new records are numbered above all that may have been there."""
    group: list[Kept] = []
    holes: list[Hole] = []
    saved = 0
    for found in salvage.records():
        if isinstance(found, Hole):
            holes.append(found)
        else:
            group.append(found)
            saved += 1
        if len(group) >= _GROUP:
            _insert_kept(db, group)
            group = []
    _insert_kept(db, group)
    notes = [
        GapNote(
            "", hole.from_seq, hole.to_seq, hole.to_seq - hole.from_seq + 1, hole.after_us, hole.before_us, "corrupt"
        )
        for hole in holes
    ]
    if not salvage.readable:
        notes = [GapNote("", 0, 0, 0, None, None, "corrupt_count_unknown")]
    with transaction(db):
        insert_records(db, [gap_record(note) for note in notes])
        db.execute("INSERT OR REPLACE INTO progress VALUES ('sent_through', ?)", (salvage.sent_through,))
        db.executemany("INSERT OR REPLACE INTO last_ticks VALUES (?,?)", list(salvage.last_ticks.items()))
    log.warning("wal_salvaged", path=str(salvage.path), records=saved, holes=len(holes), readable=salvage.readable)


def note_lost_tail(db: sqlite3.Connection, gap_record: GapRecord) -> None:
    """Leave a gap record for the end of a journal that SQLite could not use. The last ticks of those commits went
    with their records, so the node's next batch begins where its last surviving one ended."""
    seq, at_us = db.execute("SELECT coalesce(max(seq), 0) + 1, max(at_us) FROM records").fetchone()
    with transaction(db):
        insert_records(db, [gap_record(GapNote("", seq, seq, 0, at_us, None, "journal_damaged_count_unknown"))])


def _insert_kept(db: sqlite3.Connection, group: Sequence[Kept]) -> None:
    with transaction(db):
        insert_kept(db, group)
