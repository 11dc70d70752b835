"""Gap records: what had to be dropped is said in `dead-letters`, never silent."""

from wattledger_schemas import Codec

from wattledger_agent.wal_record import GapNote, WalRecord


def gap_records(notes: list[GapNote], node: str, agent: str, codec: Codec) -> list[WalRecord]:
    """One `gap` record for each note, to be appended to the log like any other record."""
    return [
        WalRecord("dead-letters", node, codec.encode("gap", _wire(note, node, agent)), at_us=note.to_us)
        for note in notes
    ]


def _wire(note: GapNote, node: str, agent: str) -> dict[str, object]:
    return {
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
