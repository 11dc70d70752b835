"""Produced records: sent in order, settled before anything is acknowledged. Owns the worker's one producer."""

import asyncio
from collections.abc import Mapping

import structlog
from confluent_kafka import KafkaError, Message, Producer

from wattledger_streams.clock import monotonic_s
from wattledger_streams.metrics import RETRIES

log = structlog.get_logger()


class NotDelivered(RuntimeError):
    """A record was refused for good (too large, no such topic, not authorised): nothing may be acknowledged."""


class Outbox:
    """Idempotent producer with `acks=all`. `send` only queues; after `settle` every record sent is on the broker."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self._producer = Producer(
            {
                **kafka,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "compression.type": "lz4",
                "message.max.bytes": 8_000_000,
                "queue.buffering.max.messages": 1_000_000,
                "message.timeout.ms": 0,
            }
        )
        self._failed: list[str] = []
        self.unsettled = 0
        self.next_offset: dict[tuple[str, int], int] = {}

    def send(
        self, topic: str, partition: int, key: str, value: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Queue one record; the partition is always explicit (client libraries hash differently)."""
        self.unsettled += 1
        given: list[tuple[str, str | bytes | None]] = [(name, text) for name, text in (headers or {}).items()]
        while True:
            try:
                self._producer.produce(
                    topic,
                    value=value,
                    key=key.encode(),
                    partition=partition,
                    headers=given,
                    on_delivery=self._delivered,
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self.unsettled -= 1
        if error is not None:
            self._failed.append(f"{message.topic()}[{message.partition()}]: {error}")
            return
        place = (str(message.topic()), int(message.partition() or 0))
        self.next_offset[place] = max(self.next_offset.get(place, 0), int(message.offset() or 0) + 1)

    async def settle(self) -> None:
        """Wait until the broker has everything; waits for ever while it is away, raises when it refuses."""
        since_s = monotonic_s()
        while self.unsettled:
            self._producer.poll(0)
            if self.unsettled:
                await asyncio.sleep(0.001)
            if monotonic_s() - since_s > 10:
                since_s = monotonic_s()
                RETRIES.labels("broker").inc()
                log.warning("broker_not_answering", unsettled=self.unsettled)
        if self._failed:
            raise NotDelivered("; ".join(self._failed[:5]))

    def settle_blocking(self) -> None:
        """The same without an event loop (command line, tests)."""
        while self.unsettled:
            self._producer.poll(0.1)
        if self._failed:
            raise NotDelivered("; ".join(self._failed[:5]))
