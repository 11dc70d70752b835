"""What the write-ahead log holds: records with a checksum of their own, and what stops it from taking more."""

from dataclasses import dataclass
from typing import Literal
from zlib import crc32

BROADCAST = -2
"""Partition of a record that goes to every partition of its topic."""
BY_KEY = -1
"""Partition of a record that goes where its key says."""
FullPolicy = Literal["drop_oldest", "block"]


@dataclass(frozen=True, slots=True)
class WalRecord:
    """One record to publish. `at_us` is its event time, for gap records."""

    topic: str
    key: str
    value: bytes
    partition: int = BY_KEY
    at_us: int = 0

    @property
    def size_bytes(self) -> int:
        return len(self.topic) + len(self.key) + len(self.value)


@dataclass(frozen=True, slots=True)
class Kept:
    """A record with its number in the log."""

    seq: int
    record: WalRecord


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as its row holds it: with a key id, the value is encrypted."""

    seq: int
    record: WalRecord
    key_id: str = ""

    @property
    def crc(self) -> int:
        return checksum(self.seq, self.record, self.key_id)


class WalFull(RuntimeError):
    """The log has reached its cap and its policy is to block: try again when something was delivered."""


class WalUnavailable(RuntimeError):
    """The disk is full, read-only or failing, or another agent has the log: nothing of the group was written."""


class WalKeyMissing(WalUnavailable):
    """The log holds rows encrypted with a key that was not given. The file is as it was; says what to do."""


def checksum(seq: int, record: WalRecord, key_id: str = "") -> int:
    """CRC-32 over the stored row: everything that is published, and the number, for a changed number is damage too."""
    head = f"{seq}\0{record.topic}\0{record.key}\0{record.partition}\0{record.at_us}\0{key_id}".encode()
    return crc32(record.value, crc32(head))


def sound_row(
    seq: object,
    topic: object,
    key: object,
    partition: object,
    at_us: object,
    crc: object,
    key_id: object,
    value: object,
) -> Stored | None:
    """A row as it was stored; None when it is not what was stored. A flipped bit may have changed any type."""
    if not (isinstance(seq, int) and isinstance(topic, str) and isinstance(key, str) and isinstance(value, bytes)):
        return None
    if not (isinstance(partition, int) and isinstance(at_us, int) and isinstance(key_id, str)):
        return None
    stored = Stored(seq, WalRecord(topic, key, value, partition, at_us), key_id)
    return stored if stored.crc == crc else None
