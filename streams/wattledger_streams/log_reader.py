"""Reading a partition by hand: the log is the state. Owns assignment by offset and positions kept in a group."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from wattledger_streams.clock import monotonic_s
from wattledger_streams.lost_records import Lost, OnLost, say_lost

_TIMEOUT_S = 30.0
_PASSING_WAIT_S = 0.1
_SHORT_S = 30.0
_PASSING = (
    KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR,
)  # fmt: skip
T = TypeVar("T")


def patiently(ask: Callable[[float], T]) -> T:
    """The broker's answer; asked again, until the time is up, while a leader or a coordinator is just changing (or
    the topic or the broker was just made). `ask` is given the seconds that are left."""
    until_s = monotonic_s() + _TIMEOUT_S
    while True:
        try:
            return ask(max(until_s - monotonic_s(), 0.1))
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or monotonic_s() > until_s:
                raise
            time.sleep(_PASSING_WAIT_S)


class LogShort(RuntimeError):
    """A log ends below a position that was kept of it: the topic was made again, or the broker lost data."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record as raw bytes."""

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes


class LogReader:
    """A consumer of one partition, assigned by hand, that starts at the beginning of what is kept.

    Records that retention took from under it, after its first record or after a `seek`, are told to `on_lost`.
    """

    def __init__(
        self, kafka: Mapping[str, str], topic: str, partition: int, group: str, on_lost: OnLost = say_lost
    ) -> None:
        self.topic, self.partition = topic, partition
        self._group = group
        self._on_lost = on_lost
        self._expected: int | None = None
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
        self._ahead, self.next_offset, self._expected = [], offset, offset
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
            if self._expected is not None and offset != self._expected:
                self._jumped(self._expected, offset)
            self._expected = self.next_offset = offset + 1
            records.append(LogRecord(self.topic, self.partition, offset, message.key() or b"", message.value() or b""))
        return records

    def _jumped(self, expected: int, offset: int) -> None:
        if offset < expected:
            raise LogShort(
                f"{self.topic}[{self.partition}] was read up to {expected} and now begins again at {offset}: the "
                "topic was made again, or the broker lost data"
            )
        self.must_follow(expected, offset)

    def must_follow(self, expected: int, offset: int | None = None) -> None:
        """Tell what is no longer kept between `expected` and `offset`, or the start of the log."""
        start = self.start_offset()
        end = start if offset is None else min(start, offset)
        if end > expected:
            self._on_lost(Lost(self.topic, self.partition, expected, end, self._group))

    def read_until(self, end_offset: int) -> Iterator[LogRecord]:
        """Records below `end_offset`, which must exist (retention may have taken earlier ones).

        Raises LogShort when the log has ended below it for 30 s.
        """
        until_s = monotonic_s() + _SHORT_S
        while self.next_offset < end_offset:
            records = self.poll(timeout_s=0.1)
            if records:
                until_s = monotonic_s() + _SHORT_S
            else:
                low, high = self._ends()
                if low >= end_offset:
                    return
                if high < end_offset and monotonic_s() > until_s:
                    raise LogShort(
                        f"{self.topic}[{self.partition}] ends at {high}, and {self._group!r} kept a position of "
                        f"{end_offset}: the topic was made again, or the broker lost data"
                    )
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
        place = TopicPartition(self.topic, self.partition)
        low, high = patiently(lambda left_s: self._consumer.get_watermark_offsets(place, left_s))
        return int(low), int(high)

    def close(self) -> None:
        self._consumer.close()
