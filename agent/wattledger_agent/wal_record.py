"""What the write-ahead log holds: records with a checksum of their own, and the policy for when it is full."""

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
class GapNote:
    """Records that had to go: what the gap record says."""

    topic: str
    from_seq: int
    to_seq: int
    count: int
    from_us: int
    to_us: int
    reason: str


class WalFull(RuntimeError):
    """The log has reached its cap and its policy is to block: try again when something was delivered."""


class WalUnavailable(RuntimeError):
    """The disk is full or read-only: nothing of the group was written."""


def checksum(record: WalRecord) -> int:
    """CRC-32 over everything that is published."""
    head = f"{record.topic}\0{record.key}\0{record.partition}\0{record.at_us}\0".encode()
    return crc32(record.value, crc32(head))
