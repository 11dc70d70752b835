"""Records and logs for tests of the agent: each record's value says which one it is."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from wattledger_agent.wal import Wal
from wattledger_agent.wal_gap import GAP_TOPIC
from wattledger_agent.wal_record import Kept, WalRecord
from wattledger_schemas import Codec

CODEC = Codec()


def record(number: int, topic: str = "job-events", size_bytes: int = 40) -> WalRecord:
    """Record `number`, event time `number` seconds."""
    return WalRecord(topic, f"key-{number % 7}", b"%d;" % number + b"x" * size_bytes, at_us=number * 1_000_000)


def records(first: int, last: int, topic: str = "job-events", size_bytes: int = 40) -> list[WalRecord]:
    """Records `[first, last)`."""
    return [record(number, topic, size_bytes) for number in range(first, last)]


def number_of(one: WalRecord) -> int:
    return int(one.value.split(b";")[0])


def read_all(wal: Wal) -> list[Kept]:
    """Everything that waits, in order."""
    found: list[Kept] = []
    while page := wal.pending(found[-1].seq if found else 0, 100):
        found += page
    return found


def numbers(kept: Iterable[Kept]) -> list[int]:
    """Numbers of the records that are no gap records."""
    return [number_of(one.record) for one in kept if one.record.topic != GAP_TOPIC]


def gaps(kept: Iterable[Kept]) -> list[dict[str, object]]:
    """Gap records, decoded."""
    return [CODEC.decode(one.record.value).record for one in kept if one.record.topic == GAP_TOPIC]


def covered(found: Sequence[dict[str, object]]) -> set[int]:
    """Every seq that a gap record names."""
    return {seq for gap in found for seq in range(int(str(gap["from_seq"])), int(str(gap["to_seq"])) + 1)}


def log_with(path: Path, count: int, size_bytes: int = 40) -> Wal:
    """A new log that holds records `[0, count)`."""
    wal = Wal(path)
    for first in range(0, count, 50):
        wal.append(records(first, min(first + 50, count), size_bytes=size_bytes))
    return wal
