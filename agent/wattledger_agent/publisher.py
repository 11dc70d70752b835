"""The publisher: drains the log to Kafka in order, deletes on delivery reports only, keeps trying for ever."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from prometheus_client import Counter, Gauge
from wattledger_schemas import partition_for

from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import BROADCAST, BY_KEY, Kept

log = structlog.get_logger()
PUBLISHED = Counter("wattledger_agent_published_total", "Records that the broker has", ["topic"])
NOT_DELIVERED = Counter(
    "wattledger_agent_not_delivered_total", "Delivery reports with an error; the record stays", ["topic"]
)
WAL_BYTES = Gauge("wattledger_agent_wal_bytes", "Bytes of records not yet delivered")


class PublisherEnded(RuntimeError):
    """The publisher's thread ended while records were left in the log; they stay there."""


@dataclass(slots=True)
class _UnderWay:
    """Reports still to come for a record, and whether one of them was a failure."""

    left: int
    failed: bool = False


class Publisher:
    """Idempotent producer, `acks=all`. Call `drain` in a loop, or `start` a thread that does."""

    def __init__(self, wal: Wal, kafka: Mapping[str, str | int], topic_prefix: str = "", in_flight: int = 5000) -> None:
        self._wal = wal
        self._prefix = topic_prefix
        self._most = in_flight
        self._producer = Producer(
            {
                **kafka,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "compression.type": "lz4",
                "delivery.timeout.ms": 120_000,
                "message.max.bytes": 8_000_000,
                "log_level": 0,
            }
        )
        self._partitions: dict[str, int] = {}
        self._waiting: dict[int, _UnderWay] = {}
        self._done: list[int] = []
        self._after = 0
        self._failed = False
        self._error: BaseException | None = None
        self.last_offset: dict[tuple[str, int], int] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def drain(self, wait_s: float = 0.05) -> int:
        """Send what is pending, up to the bound in flight, and take delivery reports; how many records were sent.

        After a failed delivery everything undelivered is sent again from the log, in order.
        """
        sent = 0
        room = self._most - len(self._waiting)
        if room > 0 and not self._failed:
            for kept in self._wal.pending(self._after, room):
                if not self._send(kept):
                    break
                self._after = kept.seq
                sent += 1
        self._producer.poll(0 if sent else wait_s)
        self._delete_delivered()
        if self._failed and not self._waiting:
            self._failed = False
            self._after = 0
        WAL_BYTES.set(self._wal.kept_bytes)
        return sent

    def _send(self, kept: Kept) -> bool:
        record = kept.record
        topic = self._prefix + record.topic
        try:
            count = self._partition_count(topic)
        except KafkaException as error:
            log.warning("broker_not_available", topic=topic, error=str(error))
            return False
        if record.partition == BROADCAST:
            targets = list(range(count))
        elif record.partition == BY_KEY:
            targets = [partition_for(record.key, count)]
        else:
            targets = [record.partition]
        self._waiting[kept.seq] = _UnderWay(len(targets))
        for partition in targets:
            self._produce(kept.seq, topic, partition, record.key, record.value)
        return True

    def _produce(self, seq: int, topic: str, partition: int, key: str, value: bytes) -> None:
        def report(error: KafkaError | None, message: Message) -> None:
            self._report(seq, topic, error, message)

        while True:
            try:
                self._producer.produce(topic, value=value, key=key.encode(), partition=partition, on_delivery=report)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _report(self, seq: int, topic: str, error: KafkaError | None, message: Message) -> None:
        """One partition's report. A record is done when all its partitions have it; nothing is sent again before
        every report of the try has come, so a report never stands for another try."""
        under_way = self._waiting[seq]
        under_way.left -= 1
        if error is None:
            place = (topic, int(message.partition() or 0))
            self.last_offset[place] = max(self.last_offset.get(place, -1), int(message.offset() or 0))
            PUBLISHED.labels(topic).inc()
        else:
            NOT_DELIVERED.labels(topic).inc()
            under_way.failed = self._failed = True
            log.warning("not_delivered", topic=topic, seq=seq, error=str(error))
        if under_way.left == 0:
            del self._waiting[seq]
            if not under_way.failed:
                self._done.append(seq)

    def _delete_delivered(self) -> None:
        if self._done:
            done, self._done = self._done, []
            self._wal.delivered(done)

    def _partition_count(self, topic: str) -> int:
        if topic not in self._partitions:
            found = self._producer.list_topics(topic, timeout=10).topics[topic]
            if found.error is not None or not found.partitions:
                raise KafkaException(found.error)
            self._partitions[topic] = len(found.partitions)
        return self._partitions[topic]

    def start(self) -> None:
        """Drain in a thread until `stop`."""
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.drain()
        except BaseException as error:
            self._error = error
            raise

    def stop(self, empty: bool = True) -> None:
        """End the thread; with `empty`, after everything in the log was delivered.

        Raises PublisherEnded when the thread had ended by itself and left records behind.
        """
        while empty and self._thread is not None and self._thread.is_alive() and self._wal.count():
            self._stop.wait(0.05)
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if empty and self._error is not None and (left := self._wal.count()):
            raise PublisherEnded(f"{left} records are still in {self._wal.path}: {self._error}") from self._error
