"""Gaps: what had to go, as a record of its own in the same log, so that a loss is never silent."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wattledger_schemas import Codec

from wattledger_agent.wal_record import WalRecord

GAP_TOPIC = "dead-letters"
TICKS = "ticks"
"""In a gap record instead of a topic: rows of the journal of ticks, which have numbers of their own."""
STATE = "state"
"""In a gap record instead of a topic: named values, of which the last tick of a node is one; they have no numbers."""


@dataclass(frozen=True, slots=True)
class GapNote:
    """Records that had to go. Both numbers are inclusive; a time is None when it can't be known."""

    topic: str
    from_seq: int
    to_seq: int
    count: int
    from_us: int | None
    to_us: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """One record that had to go: its number, topic and event time."""

    seq: int
    topic: str
    at_us: int


GapRecord = Callable[[GapNote], WalRecord]


def gap_encoder(node: str, agent: str, codec: Codec | None = None) -> GapRecord:
    """What makes gap records of this agent: topic `dead-letters`, key the node."""
    used = codec or Codec()

    def encode(note: GapNote) -> WalRecord:
        record = {
            "node": node,
            "agent": agent,
            "topic": note.topic,
            "from_seq": note.from_seq,
            "to_seq": note.to_seq,
            "count": note.count,
            "from_us": note.from_us,
            "to_us": note.to_us,
            "reason": note.reason,
        }
        return WalRecord(GAP_TOPIC, node, used.encode("gap", record), at_us=note.to_us or 0)

    return encode


def gap_notes(lost: Iterable[Lost], reason: str) -> list[GapNote]:
    """One note a topic, in the order in which the topics first appear."""
    by_topic: dict[str, list[Lost]] = {}
    for one in lost:
        by_topic.setdefault(one.topic, []).append(one)
    notes = []
    for topic, group in by_topic.items():
        seqs = [one.seq for one in group]
        stamps = [one.at_us for one in group]
        notes.append(GapNote(topic, min(seqs), max(seqs), len(group), min(stamps), max(stamps), reason))
    return notes
