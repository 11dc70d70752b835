"""Rows of the log's tables: written with a checksum, encrypted when there is a key, read back or found damaged."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from wattledger_agent.wal_cipher import WalCipher
from wattledger_agent.wal_record import Kept, Stored, WalRecord, sound_row

RECORD_COLUMNS = "seq, topic, key, partition, at_us, crc, key_id, value"
TICK_COLUMNS = "number, at_us, crc, key_id, value"
STATE_COLUMNS = "name, crc, key_id, value"


@dataclass(frozen=True, slots=True)
class StoredTick:
    """A row of the journal of ticks as it is stored."""

    number: int
    at_us: int
    key_id: str
    value: bytes

    @property
    def crc(self) -> int:
        return crc32(self.value, crc32(f"tick\0{self.number}\0{self.at_us}\0{self.key_id}".encode()))


@dataclass(frozen=True, slots=True)
class StoredState:
    """A named value as it is stored."""

    name: str
    key_id: str
    value: bytes

    @property
    def crc(self) -> int:
        return crc32(self.value, crc32(f"state\0{self.name}\0{self.key_id}".encode()))


def sound_tick(number: object, at_us: object, crc: object, key_id: object, value: object) -> StoredTick | None:
    """A row as it was stored; None when it is damaged."""
    if not (
        isinstance(number, int) and isinstance(at_us, int) and isinstance(key_id, str) and isinstance(value, bytes)
    ):
        return None
    stored = StoredTick(number, at_us, key_id, value)
    return stored if stored.crc == crc else None


def sound_state(name: object, crc: object, key_id: object, value: object) -> StoredState | None:
    """A row as it was stored; None when it is damaged."""
    if not (isinstance(name, str) and isinstance(key_id, str) and isinstance(value, bytes)):
        return None
    stored = StoredState(name, key_id, value)
    return stored if stored.crc == crc else None


class Rows:
    """Seals and unseals for one log. What can't be unsealed reads as damaged; that its key is known was checked when
    the log was opened."""

    def __init__(self, cipher: WalCipher | None = None) -> None:
        self._cipher = cipher
        self._key_id = "" if cipher is None else cipher.key_id

    @property
    def key_id(self) -> str:
        """The key that is written with; '' for none."""
        return self._key_id

    @property
    def key_ids(self) -> frozenset[str]:
        """Keys that can be read."""
        return frozenset() if self._cipher is None else self._cipher.key_ids

    def size_bytes(self, record: WalRecord) -> int:
        """What the record will count as in the log."""
        return record.size_bytes + self.overhead_bytes

    @property
    def overhead_bytes(self) -> int:
        return 0 if self._cipher is None else self._cipher.overhead_bytes

    def stored(self, kept: Kept) -> Stored:
        """The row that keeps a record."""
        record = kept.record
        value = self._seal(record.value, _bound_record(kept.seq, record))
        return Stored(kept.seq, record if value is record.value else replace(record, value=value), self._key_id)

    def kept(self, stored: Stored | None) -> Kept | None:
        """The record that a row keeps; None when it is damaged."""
        if stored is None:
            return None
        value = self._unseal(stored.key_id, stored.record.value, _bound_record(stored.seq, stored.record))
        if value is None:
            return None
        return Kept(stored.seq, replace(stored.record, value=value) if stored.key_id else stored.record)

    def read(self, row: Sequence[object]) -> Kept | None:
        """The record of a row of RECORD_COLUMNS; None when it is damaged."""
        return self.kept(sound_row(*row))

    def insert(self, db: sqlite3.Connection, records: Sequence[WalRecord]) -> None:
        """Insert records under the next numbers, inside the caller's transaction."""
        last = last_number(db, "records")
        insert_stored(db, [self.stored(Kept(seq, record)) for seq, record in enumerate(records, start=last + 1)])

    def stored_tick(self, number: int, at_us: int, value: bytes) -> StoredTick:
        return StoredTick(number, at_us, self._key_id, self._seal(value, f"tick\0{number}\0{at_us}".encode()))

    def tick(self, stored: StoredTick | None) -> bytes | None:
        """What was noted; None when it is damaged."""
        if stored is None:
            return None
        return self._unseal(stored.key_id, stored.value, f"tick\0{stored.number}\0{stored.at_us}".encode())

    def put_state(self, db: sqlite3.Connection, state: Mapping[str, bytes]) -> None:
        """Set named values, inside the caller's transaction."""
        sealed = [StoredState(name, self._key_id, self._seal(state[name], _bound_state(name))) for name in state]
        insert_state(db, sealed)

    def state(self, row: Sequence[object]) -> bytes | None:
        """The value of a row of the state; None when it is damaged."""
        stored = sound_state(*row)
        return None if stored is None else self._unseal(stored.key_id, stored.value, _bound_state(stored.name))

    def _seal(self, plain: bytes, bound: bytes) -> bytes:
        return plain if self._cipher is None else self._cipher.seal(plain, bound)

    def _unseal(self, key_id: str, value: bytes, bound: bytes) -> bytes | None:
        if not key_id:
            return value
        return None if self._cipher is None else self._cipher.unseal(key_id, value, bound)


def last_number(db: sqlite3.Connection, table: str) -> int:
    """The highest number that a table has given."""
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name=?", (table,)).fetchone()
    return int(row[0]) if row else 0


def insert_stored(db: sqlite3.Connection, rows: Sequence[Stored]) -> None:
    """Insert records under their own numbers, as they are, inside the caller's transaction."""
    sql = "INSERT INTO records(seq, topic, key, partition, at_us, size, crc, key_id, value) VALUES (?,?,?,?,?,?,?,?,?)"
    db.executemany(
        sql,
        [
            (one.seq, r.topic, r.key, r.partition, r.at_us, r.size_bytes, one.crc, one.key_id, r.value)
            for one, r in ((one, one.record) for one in rows)
        ],
    )


def insert_ticks(db: sqlite3.Connection, ticks: Sequence[StoredTick]) -> None:
    """Insert rows of the journal under their own numbers, inside the caller's transaction."""
    rows = [(one.number, one.at_us, one.crc, one.key_id, one.value) for one in ticks]
    db.executemany(f"INSERT INTO ticks({TICK_COLUMNS}) VALUES (?,?,?,?,?)", rows)


def insert_state(db: sqlite3.Connection, state: Sequence[StoredState]) -> None:
    """Set named values as they are, inside the caller's transaction."""
    rows = [(one.name, one.crc, one.key_id, one.value) for one in state]
    db.executemany(f"INSERT OR REPLACE INTO state({STATE_COLUMNS}) VALUES (?,?,?,?)", rows)


def all_state(db: sqlite3.Connection) -> list[StoredState | None]:
    """Every named value, damaged ones as None."""
    return [sound_state(*row) for row in db.execute(f"SELECT {STATE_COLUMNS} FROM state ORDER BY name")]


def state_row(db: sqlite3.Connection, name: str) -> Sequence[object] | None:
    """One named value's row; None when there is none."""
    found: Sequence[object] | None = db.execute(f"SELECT {STATE_COLUMNS} FROM state WHERE name=?", (name,)).fetchone()
    return found


def _bound_record(seq: int, record: WalRecord) -> bytes:
    return f"record\0{seq}\0{record.topic}\0{record.key}\0{record.partition}\0{record.at_us}".encode()


def _bound_state(name: str) -> bytes:
    return f"state\0{name}".encode()
