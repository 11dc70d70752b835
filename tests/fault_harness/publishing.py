"""Records into a cluster's topics, in their order: by a plain idempotent producer, or through the agent's own log."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaError, Message, Producer
from wattledger_agent.clock import SystemClock
from wattledger_agent.player import Pace, Played, Player
from wattledger_agent.publisher import Publisher
from wattledger_agent.trace import TraceItem
from wattledger_agent.wal import Wal
from wattledger_audit.marks import MarkWatch
from wattledger_audit.settling import partitions_of
from wattledger_schemas import partition_for

LEAD_US = 3600 * 1_000_000
EVERY_PARTITION = "*"
"""As a partition key: one copy into every partition of the topic (ticks)."""
_POLL_S = 0.02
_MOST_QUEUED = 20_000


class Record(Protocol):
    """What is published. `at_us`: event time of its emission; `partition_key` is hashed as every producer of the
    product does it, `EVERY_PARTITION` copies; `value` is in wire format."""

    @property
    def at_us(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition_key(self) -> str: ...
    @property
    def key(self) -> bytes: ...
    @property
    def value(self) -> bytes: ...


class NotPublished(RuntimeError):
    """The broker refused records, or publishing did not end in time; says which."""


class Publishing:
    """One run of records into the topics, in a thread of its own; `join` waits for its end.

    Never runs further ahead of the marks than `lead_us` of event time, as a real fleet never does (only its first
    records come before any mark). `speed` is event time over wall time, None as fast as the marks allow.
    """

    def __init__(
        self,
        records: Iterable[Record],
        kafka: Mapping[str, str],
        prefix: str,
        partitions: int,
        speed: float | None = None,
        lead_us: int = LEAD_US,
        settings: Mapping[str, str | int | float | bool] | None = None,
    ) -> None:
        self.sent = 0
        self.at_us = 0
        self.delivered: dict[tuple[str, int], int] = {}
        self.stop = threading.Event()
        self._refused: list[str] = []
        self._waiting = 0
        self._is_done = False
        self._prefix, self._counts = prefix, partitions_of(partitions)
        self._speed, self._lead_us = speed, lead_us
        self._began: tuple[int, float] | None = None
        self._watch = MarkWatch(kafka, f"{prefix}allocations", self._counts["job-events"])
        config: dict[str, str | int | float | bool] = {
            "enable.idempotence": True, "acks": "all", "linger.ms": 5, "message.timeout.ms": 0,
            "message.max.bytes": 8_000_000, "reconnect.backoff.max.ms": 500, "log_level": 2,
        }  # fmt: skip
        self._producer = Producer({**kafka, **config, **(settings or {})})
        self._thread = threading.Thread(target=self._run, args=(records,), name="publishing", daemon=True)
        self._thread.start()

    def join(self, within_s: float = 300) -> int:
        """Wait until every record is on the broker; how many were. Raises NotPublished."""
        self._thread.join(within_s)
        if self._thread.is_alive():
            raise NotPublished(
                f"after {within_s:.0f} s published to {self.at_us} us ({self.sent} records), marked to "
                f"{self._watch.confirmed_us()} us, {self._waiting} not confirmed by the broker"
            )
        if self._refused:
            raise NotPublished(f"{len(self._refused)} records were refused, the first: {self._refused[0]}")
        if not self._is_done:
            raise NotPublished(f"publishing ended after {self.sent} records: stopped, or by the error printed above")
        return self.sent

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> None:
        """Give up what is not yet published."""
        self.stop.set()
        self._thread.join(10)

    def _run(self, records: Iterable[Record]) -> None:
        try:
            for record in records:
                self._wait_for(record.at_us)
                if self.stop.is_set():
                    return
                self._send(record)
                self.sent, self.at_us = self.sent + 1, record.at_us
            while self._waiting and not self.stop.is_set():
                self._producer.poll(0.05)
            self._is_done = True
        finally:
            self._watch.stop()

    def _wait_for(self, at_us: int) -> None:
        if self._began is None:
            self._began = (at_us, time.monotonic())
        first_us, began_s = self._began
        due_s = began_s + (at_us - first_us) / 1_000_000 / self._speed if self._speed else 0.0
        while not self.stop.is_set():
            marked_us = max(self._watch.confirmed_us() or 0, first_us)
            is_early = time.monotonic() < due_s or at_us > marked_us + self._lead_us or self._waiting > _MOST_QUEUED
            if not is_early:
                return
            self._producer.poll(_POLL_S)
            if not self._waiting:
                time.sleep(_POLL_S)

    def _send(self, record: Record) -> None:
        count = self._counts[record.topic]
        key = record.partition_key
        for partition in range(count) if key == EVERY_PARTITION else (partition_for(key, count),):
            self._waiting += 1
            self._producer.produce(
                self._prefix + record.topic,
                value=record.value,
                key=record.key,
                partition=partition,
                on_delivery=self._delivered,
            )
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._waiting -= 1
        if error is not None:
            self._refused.append(f"{message.topic()}[{message.partition()}]: {error}")
            return
        place = (str(message.topic()), int(message.partition() or 0))
        self.delivered[place] = max(self.delivered.get(place, -1), int(message.offset() or 0))


def publish_through_agent(
    records: Iterable[Record],
    kafka: Mapping[str, str],
    prefix: str,
    partitions: int,
    wal_file: Path,
    speed: float | None = None,
    lead_us: int = LEAD_US,
) -> Played:
    """The same through the agent's write-ahead log and publisher; returns when all is delivered.

    The agent partitions by a record's key, so `partition_key` has to be the key; raises ValueError otherwise.
    """
    watch = MarkWatch(kafka, f"{prefix}allocations", partitions_of(partitions)["job-events"])
    wal = Wal(wal_file)
    publisher = Publisher(wal, {**kafka, "reconnect.backoff.max.ms": "500"}, prefix)
    publisher.start()
    player = Player(wal, publisher, SystemClock(), Pace(speed, watch.confirmed_us, lead_us))
    try:
        return player.play(_trace_items(records))
    finally:
        watch.stop()
        wal.close()


def _trace_items(records: Iterable[Record]) -> Iterator[TraceItem]:
    for record in records:
        is_broadcast = record.partition_key == EVERY_PARTITION
        if not is_broadcast and record.key != record.partition_key.encode():
            raise ValueError(f"the agent can't send a record whose key {record.key!r} is not its partition key")
        yield TraceItem(record.at_us, record.topic, record.key.decode(), record.value, is_broadcast)
