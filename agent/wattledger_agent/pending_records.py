"""Records that wait for the next transaction of the sampler: inventories and gaps. Bounded, and never silently so."""

from collections.abc import Sequence

from wattledger_agent.wal_gap import GapNote, GapRecord, Lost, gap_notes
from wattledger_agent.wal_record import WalRecord

_MOST_KEPT = 500


class PendingRecords:
    """In the order in which they came. While the log takes nothing the oldest go, with a gap record that says so."""

    def __init__(self, gap_record: GapRecord) -> None:
        self._gap_record = gap_record
        self.records: list[WalRecord] = []

    def add(self, records: Sequence[WalRecord]) -> None:
        self.records += records
        if len(self.records) > _MOST_KEPT:
            gone, kept = self.records[: _MOST_KEPT // 2], self.records[_MOST_KEPT // 2 :]
            notes = gap_notes([Lost(0, record.topic, record.at_us) for record in gone], "log_not_taking")
            self.records = [*map(self._gap_record, notes), *kept]

    def note(self, gap: GapNote) -> None:
        """A gap record."""
        self.add([self._gap_record(gap)])

    def clear(self) -> None:
        """The log has them."""
        self.records = []
