"""Batches re-read from `gpu-samples` for corrections: always from the log, never from memory."""

from collections.abc import Callable, Iterator

import structlog
from wattledger_core.batch import Batch
from wattledger_core.meter import Reach
from wattledger_schemas import BadRecord, Codec

from wattledger_streams.log_reader import LogReader
from wattledger_streams.mapping import from_wire_batch
from wattledger_streams.metrics import UNCORRECTED_BATCHES
from wattledger_streams.settings import WorkerSettings

log = structlog.get_logger()


class SampleLog:
    """An index of one partition's written batches (which offset covers what), so that a correction reads only those.

    The index holds positions, not samples. What this worker did not write itself (before it started, or while another
    owned the partition) is indexed from the log when a late revision asks: everything that the group has acknowledged
    by then was written by somebody. `is_dead` says which offsets never were, `acknowledged` how far the group is.
    """

    def __init__(
        self, settings: WorkerSettings, codec: Codec, partition: int, is_dead: Callable[[int], bool],
        acknowledged: Callable[[], int],
    ) -> None:  # fmt: skip
        self._settings = settings
        self._codec = codec
        self._partition = partition
        self._is_dead = is_dead
        self._acknowledged = acknowledged
        self._next = 0
        self._missing: list[tuple[int, int]] = []
        self._places: dict[str, list[tuple[int, int, int]]] = {}

    def note(self, batch: Batch, offset: int) -> None:
        """Remember where a written batch is."""
        self.skip(offset)
        self._places.setdefault(batch.node, []).append((batch.start_us, batch.end_us, offset))

    def skip(self, offset: int) -> None:
        """A record that wrote nothing (a dead letter)."""
        if offset > self._next:
            self._missing.append((self._next, offset))
        self._next = max(self._next, offset + 1)

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
                    wanted.discard(record.offset)
                    yield record.offset, from_wire_batch(self._codec.decode(record.value).record)
        finally:
            reader.close()
        if wanted:
            # Retention took them: their energy stays as it was written.
            UNCORRECTED_BATCHES.inc(len(wanted))
            log.error("batches_not_corrected", node=reach.node, batches=len(wanted), first_offset=min(wanted))

    def _index_rest(self) -> None:
        acknowledged = self._acknowledged()
        if acknowledged > self._next:
            self.skip(acknowledged - 1)
            self._missing.append((acknowledged - 1, acknowledged))
        if not self._missing:
            return
        reader = self._reader()
        try:
            kept_from = reader.start_offset()
            for first, end in self._missing:
                if end > kept_from:
                    reader.seek(max(first, kept_from))
                    self._index(reader, end)
        finally:
            reader.close()
        self._missing.clear()

    def _index(self, reader: LogReader, end: int) -> None:
        for record in reader.read_until(end):
            if self._is_dead(record.offset):
                continue
            try:
                decoded = self._codec.decode(record.value)
                if decoded.subject != "sample_batch":
                    continue
                batch = from_wire_batch(decoded.record)
            except BadRecord:
                continue  # it went to dead-letters when it was first read
            self._places.setdefault(batch.node, []).append((batch.start_us, batch.end_us, record.offset))

    def _reader(self) -> LogReader:
        return LogReader(
            self._settings.kafka(), self._settings.topic("gpu-samples"), self._partition, "wattledger-sample-log",
            on_lost=lambda _: None,  # they were read long ago; what it means is said above
        )  # fmt: skip
