"""Which keys the rows of a log need, and the refusal to open it without them: never by putting the file aside."""

import sqlite3
from collections.abc import Callable, Set
from pathlib import Path

from wattledger_agent.wal_record import WalKeyMissing, sound_row
from wattledger_agent.wal_rows import RECORD_COLUMNS, STATE_COLUMNS, TICK_COLUMNS, Rows, sound_state, sound_tick
from wattledger_agent.wal_schema import transaction

_TABLES: tuple[tuple[str, str, Callable[..., object]], ...] = (
    ("records", RECORD_COLUMNS, sound_row),
    ("ticks", TICK_COLUMNS, sound_tick),
    ("state", STATE_COLUMNS, sound_state),
)


def rows_by_key(db: sqlite3.Connection) -> dict[str, int]:
    """How many rows are encrypted with each key; those that are not have the key id ''."""
    found: dict[str, int] = {}
    for table, _, _ in _TABLES:
        for key_id, count in db.execute(f"SELECT key_id, count(*) FROM {table} GROUP BY key_id"):
            found[str(key_id)] = found.get(str(key_id), 0) + count
    return found


def check_keys(db: sqlite3.Connection, path: Path, known: Set[str]) -> None:
    """Raises WalKeyMissing when a row needs a key that is not known. Only rows with a right checksum count: a flipped
    bit in a key's name is damage, and damage stops no agent."""
    unknown = [key_id for key_id in rows_by_key(db) if key_id and key_id not in known]
    missing = [key_id for key_id in unknown if _is_used(db, key_id)]
    if not missing:
        return
    given = f"the key file has {', '.join(sorted(known))}" if known else "no key file was given"
    raise WalKeyMissing(
        f"{path} holds rows encrypted with key {', '.join(sorted(missing))}; {given}. Give the key file with that key "
        "(older keys stand in the lines below the first one). If it is lost, move the log away: what it holds is lost"
    )


def seal_state_again(db: sqlite3.Connection, rows: Rows) -> None:
    """Named values stay for long, and must not hold on to an old key or to none: encrypt them with the key in use."""
    if not rows.key_id:
        return
    found = db.execute(f"SELECT {STATE_COLUMNS} FROM state WHERE key_id<>?", (rows.key_id,)).fetchall()
    values = {str(row[0]): value for row in found if (value := rows.state(row)) is not None}
    if values:
        with transaction(db):
            rows.put_state(db, values)


def _is_used(db: sqlite3.Connection, key_id: str) -> bool:
    for table, columns, sound in _TABLES:
        for row in db.execute(f"SELECT {columns} FROM {table} WHERE key_id=?", (key_id,)):
            if sound(*row) is not None:
                return True
    return False
