"""Making room: which records go when the log is full. Sample records are thinned first, then the oldest go."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from wattledger_agent.wal_gap import GAP_TOPIC, Lost
from wattledger_agent.wal_record import Kept, Stored, WalRecord
from wattledger_agent.wal_rows import RECORD_COLUMNS, Rows

Thin = Callable[[WalRecord], WalRecord | None]
"""A smaller record that says the same with less detail; None when there is none."""
_PAGE = 200


@dataclass(slots=True)
class Room:
    """What to thin and what to drop; nothing is done yet."""

    tried_through: int
    thinned: list[Stored] = field(default_factory=list)
    dropped: list[Lost] = field(default_factory=list)
    freed_bytes: int = 0


def plan_room(
    db: sqlite3.Connection, rows: Rows, need_bytes: int, thin: Thin | None, tried_through: int, in_hand: int
) -> Room:
    """Find `need_bytes` to free, if there are that many.

    Only what lies above `tried_through` is thinned: what was tried before, and what was ever handed to the producer,
    for two records of one batch with different contents would otherwise be in the topic. What the producer has in
    hand (up to `in_hand`) is dropped last, because it may yet be delivered. Gap records stay.
    """
    room = Room(tried_through)
    if thin is not None:
        _thin_oldest(db, rows, room, need_bytes, thin)
    if room.freed_bytes < need_bytes:
        _drop_oldest(db, room, need_bytes, in_hand)
    return room


def write_room(db: sqlite3.Connection, room: Room) -> None:
    """Carry a plan out, inside the caller's transaction."""
    db.executemany(
        "UPDATE records SET value=?, crc=?, key_id=?, size=? WHERE seq=?",
        [(t.record.value, t.crc, t.key_id, t.record.size_bytes, t.seq) for t in room.thinned],
    )
    db.executemany("DELETE FROM records WHERE seq=?", [(lost.seq,) for lost in room.dropped])


def _thin_oldest(db: sqlite3.Connection, rows: Rows, room: Room, need_bytes: int, thin: Thin) -> None:
    for kept, size in _records(db, rows, room.tried_through):
        if room.freed_bytes >= need_bytes:
            return
        room.tried_through = kept.seq
        smaller = thin(kept.record)
        if smaller is not None and rows.size_bytes(smaller) < size:
            thinned = rows.stored(Kept(kept.seq, smaller))
            room.thinned.append(thinned)
            room.freed_bytes += size - thinned.record.size_bytes


def _drop_oldest(db: sqlite3.Connection, room: Room, need_bytes: int, in_hand: int) -> None:
    thinned_bytes = {thinned.seq: thinned.record.size_bytes for thinned in room.thinned}
    for where in ("seq>?", "seq<=?"):
        sql = f"SELECT seq, topic, at_us, size FROM records WHERE {where} AND topic<>? ORDER BY seq"
        for seq, topic, at_us, size in db.execute(sql, (in_hand, GAP_TOPIC)):
            if room.freed_bytes >= need_bytes:
                return
            room.dropped.append(Lost(seq, topic, at_us))
            room.freed_bytes += thinned_bytes.get(seq, size)


def _records(db: sqlite3.Connection, rows: Rows, after_seq: int) -> Iterator[tuple[Kept, int]]:
    """Sound records, and what each counts as in the log."""
    sql = f"SELECT {RECORD_COLUMNS}, size FROM records WHERE seq>? ORDER BY seq LIMIT {_PAGE}"
    while page := db.execute(sql, (after_seq,)).fetchall():
        yield from ((kept, row[-1]) for row in page if (kept := rows.read(row[:-1])) is not None)
        after_seq = page[-1][0]
