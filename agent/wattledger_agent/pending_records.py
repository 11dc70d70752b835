"""Records that wait for the next transaction of the sampler: inventories and gaps. Bounded, and never silently so."""

from collections.abc import Sequence
from dataclasses import replace

from wattledger_agent.wal_gap import GAP_TOPIC, GapNote, GapRecord, Lost, gap_notes
from wattledger_agent.wal_record import WalRecord

_MOST_KEPT = 500


class PendingRecords:
    """In the order in which they came. While the log takes nothing the oldest go, gap records last, and one gap record
    a topic says how many went."""

    def __init__(self, gap_record: GapRecord) -> None:
        self._gap_record = gap_record
        self._kept: list[WalRecord] = []
        self._gone: dict[str, GapNote] = {}

    @property
    def records(self) -> list[WalRecord]:
        """What is to be appended."""
        return [*map(self._gap_record, self._gone.values()), *self._kept]

    def add(self, records: Sequence[WalRecord]) -> None:
        self._kept += records
        if len(self._kept) > _MOST_KEPT:
            oldest = [record for record in self._kept if record.topic != GAP_TOPIC][: _MOST_KEPT // 2]
            self._give_up(oldest or self._kept[: _MOST_KEPT // 2])

    def _give_up(self, records: Sequence[WalRecord]) -> None:
        gone = set(map(id, records))
        self._kept = [record for record in self._kept if id(record) not in gone]
        for note in gap_notes([Lost(0, record.topic, record.at_us) for record in records], "log_not_taking"):
            before = self._gone.get(note.topic)
            since_us = note.from_us if before is None else before.from_us
            count = note.count + (0 if before is None else before.count)
            self._gone[note.topic] = replace(note, from_us=since_us, count=count)

    def note(self, gap: GapNote) -> None:
        """A gap record."""
        self.add([self._gap_record(gap)])

    def clear(self) -> None:
        """The log has them."""
        self._kept, self._gone = [], {}
