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


class WalFull(RuntimeError):
    """The log has reached its cap and its policy is to block: try again when something was delivered."""


class WalUnavailable(RuntimeError):
    """The disk is full, read-only or failing, or another agent has the log: nothing of the group was written."""


def checksum(seq: int, record: WalRecord) -> int:
    """CRC-32 over everything that is published and the record's number: a number that was changed is damage too."""
    head = f"{seq}\0{record.topic}\0{record.key}\0{record.partition}\0{record.at_us}\0".encode()
    return crc32(record.value, crc32(head))


def sound_record(
    seq: object, topic: object, key: object, partition: object, at_us: object, crc: object, value: object
) -> Kept | None:
    """A stored row as a record; None when it is not what was stored. A flipped bit may have changed any type."""
    if not (isinstance(seq, int) and isinstance(topic, str) and isinstance(key, str) and isinstance(value, bytes)):
        return None
    if not (isinstance(partition, int) and isinstance(at_us, int)):
        return None
    record = WalRecord(topic, key, value, partition, at_us)
    return Kept(seq, record) if checksum(seq, record) == crc else None
