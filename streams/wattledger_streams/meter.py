"""The meter processor: both meters and pricing. Samples through Faust; the books through consumers of its own."""

import asyncio
from collections.abc import Sequence
from typing import Any

import faust
import structlog
from wattledger_core.meter import READY, TOO_FAR_AHEAD
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_schemas import BadRecord, Codec

from wattledger_streams.app import build_app, raw_topic
from wattledger_streams.crash import Watchdog, or_exit
from wattledger_streams.dead_letter import DeadLetters
from wattledger_streams.emit import Emitter
from wattledger_streams.log_reader import LogReader, LogRecord, committed_offset
from wattledger_streams.mapping import from_wire_price_record
from wattledger_streams.meter_partition import MeterPartition
from wattledger_streams.metrics import RECORDS
from wattledger_streams.outbox import Outbox
from wattledger_streams.partitions import partition_counts
from wattledger_streams.settings import WorkerSettings
from wattledger_streams.verdicts import dead_samples

log = structlog.get_logger()
PROCESSOR = "meter"
_IDLE_S = 0.02


class Meter:
    """The owned partitions. One lock: books, batches and corrections happen one after the other."""

    def __init__(self, settings: WorkerSettings, codec: Codec, outbox: Outbox) -> None:
        self.lock = asyncio.Lock()
        self._settings = settings
        self._codec = codec
        self._outbox = outbox
        self._counts = partition_counts(settings)
        self._samples_topic = settings.topic("gpu-samples")
        self._emitter = Emitter(settings, codec, outbox, self._counts)
        self._dead = DeadLetters(PROCESSOR, settings, codec, outbox, self._counts["dead-letters"])
        self._price_log = PriceLog()
        self._prices = LogReader(settings.kafka(), settings.topic("price-book"), 0, "wattledger-price-log")
        self._late_prices: list[tuple[int, Price]] = []
        self._partitions: dict[int, MeterPartition] = {}
        self._verdicts = dead_samples(settings, codec, self._counts["dead-letters"])

    def own(self, partitions: set[int]) -> None:
        """Take up newly assigned partitions and let go of revoked ones. Call under the lock."""
        for partition in set(self._partitions) - partitions:
            self._partitions.pop(partition).close()
        for partition in sorted(partitions - set(self._partitions)):
            first = committed_offset(
                self._settings.kafka(), self._settings.group(PROCESSOR), self._samples_topic, partition
            )
            owned = MeterPartition(
                partition, self._counts["job-events"], self._settings, self._codec, self._outbox, self._emitter,
                self._price_log, first,
            )  # fmt: skip
            owned.catch_up()
            self._load_prices(owned.kept_price)
            self._partitions[partition] = owned

    def _load_prices(self, end_offset: int) -> None:
        """Be as far in the price book as the partition was: a line priced with less would lack a step for good."""
        while self._prices.next_offset < end_offset:
            self._take_prices(self._prices.poll(timeout_s=0.1))

    async def read_books(self) -> bool:
        """Prices first (a due quarter-hour needs them), then every partition's allocations. Call under the lock."""
        moved = await self._read_prices()
        for owned in self._partitions.values():
            moved |= await owned.read_book()
        return moved

    async def _read_prices(self) -> bool:
        records = self._prices.poll()
        self._take_prices(records)
        for owned in self._partitions.values():
            if owned.kept_price < self._prices.next_offset:
                await owned.reprice(self._late_prices, self._prices.next_offset)
        return bool(records)

    def _take_prices(self, records: Sequence[LogRecord]) -> None:
        for record in records:
            try:
                decoded = self._codec.decode(record.value)
                item = from_wire_price_record(decoded.subject, decoded.record, 0, record.offset)
            except BadRecord as error:
                self._dead.put_aside(record.topic, 0, record.offset, record.key, record.value, error)
                continue
            added = self._price_log.add(item)
            if isinstance(added, Price):
                self._late_prices.append((record.offset, added))
            elif isinstance(item, Price) and (why := self._price_log.refused.get(item.origin)):
                refused = BadRecord("price_refused", why)
                self._dead.put_aside(record.topic, 0, record.offset, record.key, record.value, refused)

    async def take(self, event: Any) -> None:
        """Settle one sample record: waits for its marks, writes its lines and costs. Not acknowledged here."""
        message = event.message
        partition, offset, raw = message.partition, message.offset, message.value
        if (partition, offset) in self._verdicts:
            return  # a dead letter before a restart stays one
        while True:
            async with self.lock:
                if partition not in self._partitions:
                    await asyncio.to_thread(self.own, {*self._partitions, partition})
                if self._try(partition, offset, message.key or b"", raw):
                    return
                await self._outbox.settle()
                moved = await self.read_books()
            if not moved:
                await asyncio.sleep(_IDLE_S)

    def _try(self, partition: int, offset: int, key: bytes, raw: bytes) -> bool:
        owned = self._partitions[partition]
        try:
            batch = owned.batch(raw)
            verdict = owned.meter.verdict(batch.end_us, self._price_log.newest_tick_us)
            if verdict == TOO_FAR_AHEAD:
                raise BadRecord(
                    "too_far_ahead", f"batch of {batch.node} ends at {batch.end_us} us, far above the newest mark"
                )
        except BadRecord as error:
            self._dead.put_aside(self._samples_topic, partition, offset, key, raw, error)
            return True
        if verdict != READY:
            return False
        owned.write_batch(batch, offset)
        self._dead.count_good()
        RECORDS.labels(PROCESSOR, "gpu-samples").inc()
        return True

    async def settle(self) -> None:
        await self._outbox.settle()


async def _take_all(meter: Meter, stream: Any, events: Sequence[Any]) -> None:
    for event in events:
        await meter.take(event)
    # Persist, then acknowledge, in arrival order.
    async with meter.lock:
        await meter.settle()
    for event in events:
        await stream.ack(event)


def build_meter(settings: WorkerSettings) -> faust.App:
    """The meter app: one stream of samples, and a task that reads the books while no samples come."""
    app = build_app(PROCESSOR, settings)
    watchdog = Watchdog(settings.watchdog_s)
    topic = settings.topic("gpu-samples")
    workers: list[Meter] = []

    def worker() -> Meter:
        if not workers:
            workers.append(Meter(settings, Codec.for_url(settings.registry_url), Outbox(settings.kafka())))
        return workers[0]

    @app.agent(raw_topic(app, [topic]), concurrency=1)
    async def meter(stream: Any) -> None:
        async with or_exit(PROCESSOR):
            async for events in stream.noack_take(settings.take_max, within=settings.take_within_s):
                await _take_all(worker(), stream, events)

    @app.task
    async def books() -> None:
        watchdog.start()
        async with or_exit(PROCESSOR):
            while not app.should_stop:
                watchdog.beat()
                owned = (
                    {tp.partition for tp in app.consumer.assignment() if tp.topic == topic} if app.consumer else set()
                )
                async with worker().lock:
                    await asyncio.to_thread(worker().own, owned)
                    moved = await worker().read_books()
                await asyncio.sleep(0 if moved else _IDLE_S)

    return app
