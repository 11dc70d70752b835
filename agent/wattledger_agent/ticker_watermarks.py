"""Watermarks from Kafka: reads `gpu-samples` and `job-events`, writes nothing, commits nothing, joins no group."""

from collections.abc import Callable

import structlog
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from prometheus_client import Counter, Gauge
from wattledger_schemas import BadRecord, Codec

from wattledger_agent.broker_link import Config
from wattledger_agent.clock import Clock
from wattledger_agent.ticker import Sight, WatermarksUnavailable
from wattledger_agent.ticker_book import SourceBook

log = structlog.get_logger()
READ_TOPICS = ("gpu-samples", "job-events")
TICKER_BLIND = Gauge("wattledger_agent_ticker_blind", "1 while the ticker can't read what nodes report, and is silent")
TICKER_BAD_RECORDS = Counter("wattledger_agent_ticker_bad_records_total", "Records that the ticker could not decode")
_ASK_S = 2.0
_READ_FOR_S = 5.0
_PAGE = 500
_POLL_S = 0.1
_LOOK_BACK_US = 900_000_000
"""How far back it reads at its start (in Kafka's own time): nodes that were silent for longer are not waited for."""
_NAMED_FOR_US = 86_400_000_000
"""A node that left is named as stale for a day."""
_FIXED: dict[str, str | int | bool] = {
    "group.id": "wattledger-ticker",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "log_level": 0,
}


class KafkaWatermarks:
    """Called by the ticker before each tick: reads on to the ends of all partitions as they are then, and says what
    every node has reported.

    Raises WatermarksUnavailable when the broker does not answer or there was too much to read this time; the next call
    goes on.
    """

    def __init__(
        self, kafka: Config | Callable[[], Config], topic_prefix: str, clock: Clock, codec: Codec | None = None
    ) -> None:
        self._kafka = kafka
        self._prefix = topic_prefix
        self._clock = clock
        self._codec = codec or Codec()
        self._book = SourceBook()
        self._reader: Consumer | None = None
        self._asker: Consumer | None = None
        self._next: dict[tuple[str, int], int] = {}
        self._since_us: int | None = None

    def __call__(self) -> Sight:
        """What is known now."""
        try:
            if self._reader is None or self._asker is None:
                self._reader, self._asker = self._open()
            self._read_on(self._reader, self._asker)
        except (KafkaException, OSError) as error:
            self._blind()
            raise WatermarksUnavailable(f"nodes' reports can't be read: {error}") from error
        except WatermarksUnavailable:
            self._blind()
            raise
        now_us = self._clock.wall_us()
        if self._since_us is None:
            self._since_us = now_us
            TICKER_BLIND.set(0)
        self._book.forget(now_us - _NAMED_FOR_US)
        return Sight(self._book.marks(), self._since_us, self._book.newest_tick_us)

    def _blind(self) -> None:
        self._since_us = None
        TICKER_BLIND.set(1)

    def _open(self) -> tuple[Consumer, Consumer]:
        """One connection to read, one to ask: a question would wait behind a fetch that waits for records."""
        given = self._kafka() if callable(self._kafka) else self._kafka
        reader, asker = Consumer({**given, **_FIXED}), Consumer({**given, **_FIXED})
        try:
            began_ms = max(self._clock.wall_us() - _LOOK_BACK_US, 0) // 1000
            times = [TopicPartition(topic, partition, began_ms) for topic, partition in self._places(asker)]
            for found in asker.offsets_for_times(times, timeout=_ASK_S):
                place = (found.topic, found.partition)
                # when nothing is so new: begin at the end
                self._next[place] = found.offset if found.offset >= 0 else self._ends(asker, *place)[1]
            reader.assign([TopicPartition(*place, offset) for place, offset in self._next.items()])
        except BaseException:
            reader.close()
            asker.close()
            raise
        return reader, asker

    def _places(self, consumer: Consumer) -> list[tuple[str, int]]:
        places = []
        for name in READ_TOPICS:
            topic = self._prefix + name
            found = consumer.list_topics(topic, timeout=_ASK_S).topics[topic]
            if found.error is not None or not found.partitions:
                raise WatermarksUnavailable(f"topic {topic} is not there: make it with `wattledger topics`")
            places += [(topic, partition) for partition in sorted(found.partitions)]
        return places

    def _ends(self, consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
        found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_ASK_S)
        if found is None:
            raise WatermarksUnavailable(f"the broker does not say how long partition {partition} of {topic} is")
        return int(found[0]), int(found[1])

    def _read_on(self, reader: Consumer, asker: Consumer) -> None:
        """Up to the ends as they are now. That the broker says where they are also shows that it is there."""
        ends = {}
        for topic, partition in self._next:
            low, high = self._ends(asker, topic, partition)
            # what retention has removed is read no more
            self._next[(topic, partition)] = max(self._next[(topic, partition)], low)
            ends[(topic, partition)] = high
        until_s = self._clock.monotonic_s() + _READ_FOR_S
        while any(self._next[place] < end for place, end in ends.items()):
            if self._clock.monotonic_s() > until_s:
                raise WatermarksUnavailable("there is more to read than was read this time")
            for message in reader.consume(_PAGE, timeout=_POLL_S):
                self._take(message)

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            raise KafkaException(error)
        place = (str(message.topic()), int(message.partition() or 0))
        self._next[place] = int(message.offset() or 0) + 1
        try:
            decoded = self._codec.decode(message.value() or b"")
        except BadRecord:
            TICKER_BAD_RECORDS.inc()
            return
        self._book.take(decoded.subject, decoded.record)

    def close(self) -> None:
        """Let go of the connections."""
        for consumer in (self._reader, self._asker):
            if consumer is not None:
                consumer.close()
        self._reader = self._asker = None
