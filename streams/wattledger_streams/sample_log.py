"""Batches re-read from `gpu-samples` for corrections: always from the log, never from memory."""

from collections.abc import Iterator

from wattledger_core.batch import Batch
from wattledger_core.meter import Reach
from wattledger_schemas import BadRecord, Codec

from wattledger_streams.log_reader import LogReader
from wattledger_streams.mapping import from_wire_batch
from wattledger_streams.settings import WorkerSettings


class SampleLog:
    """An index of one partition's batches (which offset covers what), so that a correction reads only those.

    The index holds positions, not samples; what lies before its first entry is indexed from the log when a late
    revision first asks.
    """

    def __init__(self, settings: WorkerSettings, codec: Codec, partition: int, first_offset: int) -> None:
        self._settings = settings
        self._codec = codec
        self._partition = partition
        self._unindexed_until = first_offset
        self._places: dict[str, list[tuple[int, int, int]]] = {}

    def note(self, batch: Batch, offset: int) -> None:
        """Remember where a written batch is."""
        self._places.setdefault(batch.node, []).append((batch.start_us, batch.end_us, offset))

    def touched(self, reach: Reach) -> Iterator[tuple[int, Batch]]:
        """Written batches that a late revision can change, in offset order, read from the log."""
        self._index_rest()
        offsets = sorted(
            {offset for start, end, offset in self._places.get(reach.node, ()) if reach.touches(start, end)}
        )
        if not offsets:
            return
        wanted = set(offsets)
        reader = self._reader()
        try:
            reader.seek(offsets[0])
            for record in reader.read_until(offsets[-1] + 1):
                if record.offset in wanted:
                    yield record.offset, from_wire_batch(self._codec.decode(record.value).record)
        finally:
            reader.close()

    def _index_rest(self) -> None:
        if self._unindexed_until == 0:
            return
        reader = self._reader()
        try:
            for record in reader.read_until(self._unindexed_until):
                try:
                    batch = from_wire_batch(self._codec.decode(record.value).record)
                except BadRecord:
                    continue  # it went to dead-letters when it was first read
                self.note(batch, record.offset)
        finally:
            reader.close()
        self._unindexed_until = 0

    def _reader(self) -> LogReader:
        return LogReader(
            self._settings.kafka(), self._settings.topic("gpu-samples"), self._partition, "wattledger-sample-log"
        )
