"""Reading a partition by hand: the log is the state. Owns assignment by offset and positions kept in a group."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from wattledger_streams.clock import monotonic_s

_TIMEOUT_S = 30.0
_LEADER_WAIT_S = 0.1
_LEADER_CHANGES = (
    KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record as raw bytes."""

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes


class LogReader:
    """A consumer of one partition, assigned by hand, that starts at the beginning of what is kept."""

    def __init__(self, kafka: Mapping[str, str], topic: str, partition: int, group: str) -> None:
        self.topic, self.partition = topic, partition
        self._consumer = Consumer(
            {
                **kafka,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "queued.min.messages": 20_000,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        self.next_offset = 0
        self._ahead: list[LogRecord] = []

    def seek(self, offset: int) -> None:
        """Go on from `offset`."""
        self._ahead, self.next_offset = [], offset
        self._consumer.assign([TopicPartition(self.topic, self.partition, offset)])

    def poll(self, most: int = 1000, timeout_s: float = 0.0) -> list[LogRecord]:
        """What has arrived, in order; raises KafkaException on a real error (a broker away is not one)."""
        records, self._ahead = self._ahead, []
        if records:
            self.next_offset = records[-1].offset + 1
            return records
        for message in self._consumer.consume(most, timeout_s):
            error = message.error()
            if error is not None:
                if error.retriable() or not error.fatal():
                    continue
                raise KafkaException(error)
            offset = int(message.offset() or 0)
            self.next_offset = offset + 1
            records.append(LogRecord(self.topic, self.partition, offset, message.key() or b"", message.value() or b""))
        return records

    def read_until(self, end_offset: int) -> Iterator[LogRecord]:
        """Records below `end_offset`, which must exist (retention may have taken earlier ones)."""
        while self.next_offset < end_offset:
            records = self.poll(timeout_s=0.1)
            if not records and self.start_offset() >= end_offset:
                return
            for place, record in enumerate(records):
                if record.offset >= end_offset:
                    # What was fetched beyond the end is for the next poll.
                    self._ahead, self.next_offset = records[place:], end_offset
                    return
                yield record

    def read_until_quiet(self, quiet_polls: int = 20) -> Iterator[LogRecord]:
        """Records until nothing has come for `quiet_polls` tenths of a second: for a broker whose end offsets are
        wrong (Tansu), on a topic that nobody writes to any more."""
        empty = 0
        while empty < quiet_polls:
            records = self.poll(timeout_s=0.1)
            empty = 0 if records else empty + 1
            yield from records

    def start_offset(self) -> int:
        """The oldest offset that is kept."""
        return self._ends()[0]

    def end_offset(self) -> int:
        """One past the newest record."""
        return self._ends()[1]

    def _ends(self) -> tuple[int, int]:
        """Both ends; a partition whose leader is just changing (or just made) is asked again until the time is up."""
        until_s = monotonic_s() + _TIMEOUT_S
        while True:
            try:
                low, high = self._consumer.get_watermark_offsets(
                    TopicPartition(self.topic, self.partition), max(until_s - monotonic_s(), 0.1)
                )
                return int(low), int(high)
            except KafkaException as error:
                if error.args[0].code() not in _LEADER_CHANGES or monotonic_s() > until_s:
                    raise
                time.sleep(_LEADER_WAIT_S)

    def committed(self) -> int:
        """The position kept in the group; 0 when there is none."""
        [place] = self._consumer.committed([TopicPartition(self.topic, self.partition)], _TIMEOUT_S)
        return max(int(place.offset), 0)

    def commit(self, offset: int) -> None:
        """Keep a position; returns when the broker has it."""
        self._consumer.commit(offsets=[TopicPartition(self.topic, self.partition, offset)], asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


def committed_offset(kafka: Mapping[str, str], group: str, topic: str, partition: int) -> int:
    """What a consumer group has acknowledged of a partition (without joining it); 0 when nothing."""
    consumer = Consumer({**kafka, "group.id": group, "enable.auto.commit": False})
    try:
        [place] = consumer.committed([TopicPartition(topic, partition)], _TIMEOUT_S)
        return max(int(place.offset), 0)
    finally:
        consumer.close()
