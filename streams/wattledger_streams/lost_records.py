"""Records that retention took before they were read: counted, logged and put into `dead-letters`, never passed over."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from wattledger_schemas import BadRecord, Codec

from wattledger_streams.dead_letter import DeadLetters
from wattledger_streams.metrics import LOST_RECORDS
from wattledger_streams.outbox import Outbox
from wattledger_streams.settings import WorkerSettings

log = structlog.get_logger()
REASON = "offsets_lost"


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets [start, end) of a partition are no longer kept and were not read. `reader` names who should have;
    `known` is False where no position was left, so what of them was read before is not known."""

    topic: str
    partition: int
    start: int
    end: int
    reader: str
    known: bool = True

    def text(self) -> str:
        """For people: what, whose, and what it means."""
        text = (
            f"offsets {self.start} to {self.end - 1} of {self.topic}[{self.partition}] ({self.end - self.start} "
            f"records) were deleted from the log before {self.reader} read them; it goes on at {self.end}"
        )
        if self.known:
            return text
        return text + ". It has no position of its own (a new group, or its offsets expired): some may have been read"


OnLost = Callable[[Lost], None]


def say_lost(lost: Lost) -> None:
    """Count and log."""
    LOST_RECORDS.labels(lost.topic, str(lost.partition)).inc(lost.end - lost.start)
    log.error(
        REASON,
        topic=lost.topic,
        partition=lost.partition,
        start=lost.start,
        end=lost.end,
        reader=lost.reader,
        detail=lost.text(),
    )


class LostRecords:
    """Says each loss once a process: log, metric, and a dead letter that is on the broker when `report` returns.

    It has a producer of its own, made at the first loss, so that any thread may report.
    """

    def __init__(self, processor: str, settings: WorkerSettings, dead_letter_partitions: int) -> None:
        self._processor = processor
        self._settings = settings
        self._partitions = dead_letter_partitions
        self._lock = threading.Lock()
        self._said: set[tuple[str, int, int]] = set()
        self._outbox: Outbox | None = None

    def report(self, lost: Lost) -> None:
        """Blocks until the dead letter is written, which while the broker is away is until it is back."""
        with self._lock:
            key = (lost.topic, lost.partition, lost.start)
            if key in self._said:
                return
            self._said.add(key)
            say_lost(lost)
            if self._outbox is None:
                self._outbox = Outbox(self._settings.kafka())
            codec = Codec.for_url(self._settings.registry_url)
            letters = DeadLetters(self._processor, self._settings, codec, self._outbox, self._partitions)
            letters.put_aside(lost.topic, lost.partition, lost.start, b"", b"", BadRecord(REASON, lost.text()))
            self._outbox.settle_blocking()
