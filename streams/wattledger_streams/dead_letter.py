"""Bad records: put aside with a reason code and their raw bytes, so that the stream goes on and nothing is lost."""

import structlog
from wattledger_schemas import BadRecord, Codec, partition_for

from wattledger_streams.metrics import DEAD_LETTERS
from wattledger_streams.outbox import Outbox
from wattledger_streams.settings import WorkerSettings

log = structlog.get_logger()
_ROOM_BYTES = 7_900_000
"""Of a letter's key and value: the topics take records of 8,000,000 bytes, and a letter says more than its record."""
_DETAIL_CHARS = 4000


class TooManyDeadLetters(RuntimeError):
    """Most of the stream is bad: more likely a wrong deployment than wrong records, so the processor stops."""


class DeadLetters:
    """Writes to `dead-letters`; past a ratio limit it raises instead."""

    def __init__(self, processor: str, settings: WorkerSettings, codec: Codec, outbox: Outbox, partitions: int) -> None:
        self._processor = processor
        self._settings = settings
        self._codec = codec
        self._outbox = outbox
        self._partitions = partitions
        self._good = 0
        self._bad = 0

    def count_good(self) -> None:
        self._good += 1

    def put_aside(self, topic: str, partition: int, offset: int, key: bytes, raw: bytes, error: BadRecord) -> None:
        """Queue the dead letter; the caller settles the outbox before it acknowledges the record."""
        self._bad += 1
        key_kept = key[: _ROOM_BYTES // 2]
        raw_kept = raw[: _ROOM_BYTES - len(key_kept)]
        detail = error.detail[:_DETAIL_CHARS]
        if len(key_kept) + len(raw_kept) < len(key) + len(raw):
            detail = f"{detail} (cut to fit: the key has {len(key)} bytes, the value {len(raw)})"
        DEAD_LETTERS.labels(self._processor, error.reason_code).inc()
        log.warning(
            "dead_letter",
            topic=topic,
            partition=partition,
            offset=offset,
            reason=error.reason_code,
            detail=detail,
        )
        record = {
            "source_topic": topic.removeprefix(self._settings.topic_prefix),
            "source_partition": partition,
            "source_offset": offset,
            "reason_code": error.reason_code,
            "detail": detail,
            "processor": self._processor,
            "key": key_kept,
            "raw": raw_kept,
        }
        name = topic.removeprefix(self._settings.topic_prefix)
        self._outbox.send(
            self._settings.topic("dead-letters"),
            partition_for(name, self._partitions),
            name,
            self._codec.encode("dead_letter", record),
        )
        seen = self._good + self._bad
        if seen >= self._settings.dead_letter_min_records and self._bad > seen * self._settings.dead_letter_ratio_limit:
            raise TooManyDeadLetters(
                f"{self._bad} of {seen} records of {topic} were bad (last: {error.reason_code}, {error.detail}); "
                "check that the agents' and this worker's schemas belong together"
            )
