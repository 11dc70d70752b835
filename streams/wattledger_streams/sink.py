"""The sink processor: every output topic into ClickHouse, then acknowledged. It owns the engine, serves it read-only
on loopback, keeps the views fresh and evaluates the thresholds over them."""

import asyncio
from collections.abc import Sequence
from typing import Any

import faust
import structlog
from wattledger_core.price_log import PriceLog
from wattledger_core.units import QUARTER_US, US_PER_HOUR
from wattledger_schemas import BadRecord, Codec
from wattledger_sql.fact import Source
from wattledger_sql.migrate import migrate
from wattledger_sql.refresh import refresh

from wattledger_streams.app import build_app, raw_topic
from wattledger_streams.clickhouse_endpoint import ReadEndpoint, open_endpoint
from wattledger_streams.clickhouse_store import Store, StoreUnavailable, open_store
from wattledger_streams.crash import Watchdog, or_exit
from wattledger_streams.dead_letter import DeadLetters
from wattledger_streams.log_reader import LogReader
from wattledger_streams.mapping import from_wire_price_record
from wattledger_streams.metrics import RECORDS, RETRIES, ROWS, VIEWS_REFRESHED_S
from wattledger_streams.outbox import Outbox
from wattledger_streams.partitions import ACKNOWLEDGED, partition_counts
from wattledger_streams.settings import WorkerSettings
from wattledger_streams.sink_rows import Rows, sort_record
from wattledger_streams.thresholds import Thresholds, observe

log = structlog.get_logger()
PROCESSOR = "sink"
_BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)


class Sink:
    """Rows into ClickHouse. Everything that reaches the store goes through its one thread."""

    def __init__(self, settings: WorkerSettings, codec: Codec, outbox: Outbox) -> None:
        self._settings = settings
        self._codec = codec
        self._outbox = outbox
        self._counts = partition_counts(settings)
        self._dead = DeadLetters(PROCESSOR, settings, codec, outbox, self._counts["dead-letters"])
        self._prices: PriceLog | None = None
        self._marks: dict[tuple[int, int], int] = {}
        self._inserted = 0
        self._refreshed = -1
        self.store: Store | None = None
        self.endpoint: ReadEndpoint | None = None
        self.thresholds = Thresholds(settings, codec, outbox)

    async def open(self) -> None:
        """Open and migrate the store, then the read-only endpoint; waits while ClickHouse is away."""
        self.store = await self._retry(lambda: open_store(self._settings))
        await self._retry(lambda: self._store.run(migrate))
        if self._settings.endpoint_port and self._store.embedded_path is not None:
            self.endpoint = await open_endpoint(self._store, self._settings.endpoint_port)

    @property
    def _store(self) -> Store:
        if self.store is None:
            raise RuntimeError("the sink's store is not open yet")
        return self.store

    async def take(self, events: Sequence[Any]) -> None:
        """Insert a batch; returns when ClickHouse has it and bad records are in `dead-letters`."""
        rows = Rows()
        for event in events:
            message = event.message
            topic = message.topic.removeprefix(self._settings.topic_prefix)
            self._sort(rows, topic, message.partition, message.offset, message.key or b"", message.value or b"")
        done = await self._retry(lambda: self._store.run(rows.insert))
        for table, count in done.items():
            ROWS.labels(table).inc(count)
            self._inserted += count
        for place, at_us in rows.newest_mark_us.items():
            self._marks[place] = max(at_us, self._marks.get(place, 0))
        await self._outbox.settle()
        RECORDS.labels(PROCESSOR, "all").inc(len(events))

    def _sort(self, rows: Rows, topic: str, partition: int, offset: int, key: bytes, raw: bytes) -> None:
        if topic == "price-book" and self._prices is None:
            self._prices = self._price_log(offset)
        try:
            decoded = self._codec.decode(raw)
            sort_record(rows, topic, decoded, Source(partition, offset), self._prices or PriceLog())
        except BadRecord as error:
            if topic == "dead-letters":
                log.error("unreadable_dead_letter", partition=partition, offset=offset, error=str(error))
                return  # putting it aside again would go round for ever; the topic keeps it
            self._dead.put_aside(self._settings.topic(topic), partition, offset, key, raw, error)
            return
        self._dead.count_good()

    def _price_log(self, end_offset: int) -> PriceLog:
        """Prices below an offset, read again: a price's `known_us` is the last tick above it."""
        prices = PriceLog()
        reader = LogReader(self._settings.kafka(), self._settings.topic("price-book"), 0, "wattledger-sink-prices")
        try:
            for record in reader.read_until(end_offset):
                try:
                    decoded = self._codec.decode(record.value)
                    prices.add(from_wire_price_record(decoded.subject, decoded.record, 0, record.offset))
                except BadRecord:
                    continue  # it went to dead-letters when it was first read
        finally:
            reader.close()
        return prices

    async def keep_fresh(self) -> None:
        """Refresh the views when rows came in since, and evaluate the thresholds over closed hours."""
        if self._inserted == self._refreshed:
            return
        inserted = self._inserted
        await self._retry(lambda: self._store.run(refresh))
        self._refreshed = inserted
        closed_us = self._closed_us()
        if closed_us:
            budgets = self.thresholds.budgets
            found = await self._retry(lambda: self._store.run(lambda client: observe(client, closed_us, budgets)))
            if self.thresholds.write(found):
                await self._outbox.settle()
            VIEWS_REFRESHED_S.set(closed_us // 1_000_000)

    def _closed_us(self) -> int:
        """Hours before this are settled in every partition: marks past the lateness, and a quarter-hour to spare."""
        expected = self._counts["allocations"] * self._counts["job-events"]
        if len(self._marks) < expected:
            return 0
        settled_us = min(self._marks.values()) - self._settings.policy().lateness_us - QUARTER_US
        return max(settled_us - settled_us % US_PER_HOUR, 0)

    async def _retry(self, call: Any) -> Any:
        """Until ClickHouse answers; what it refuses escapes and ends the process."""
        attempt = 0
        while True:
            try:
                return await call()
            except StoreUnavailable as error:
                RETRIES.labels("clickhouse").inc()
                log.warning("clickhouse_not_answering", error=str(error), attempt=attempt)
                await asyncio.sleep(_BACKOFF_S[min(attempt, len(_BACKOFF_S) - 1)])
                attempt += 1


def build_sink(settings: WorkerSettings) -> faust.App:
    """The sink app."""
    app = build_app(PROCESSOR, settings)
    watchdog = Watchdog(settings.watchdog_s)
    opened = asyncio.Event()
    sinks: list[Sink] = []

    @app.agent(raw_topic(app, [settings.topic(name) for name in ACKNOWLEDGED[PROCESSOR]]), concurrency=1)
    async def sink(stream: Any) -> None:
        async with or_exit(PROCESSOR):
            await opened.wait()
            async for events in stream.noack_take(settings.sink_take_max, within=settings.sink_take_within_s):
                await sinks[0].take(events)
                # Persist, then acknowledge, in arrival order.
                for event in events:
                    await stream.ack(event)

    @app.task
    async def keep() -> None:
        watchdog.start()
        async with or_exit(PROCESSOR):
            sinks.append(Sink(settings, Codec.for_url(settings.registry_url), Outbox(settings.kafka())))
            await sinks[0].open()
            opened.set()
            beating = asyncio.create_task(_beat(watchdog))
            while not app.should_stop:
                await asyncio.sleep(settings.refresh_s)
                await sinks[0].keep_fresh()
            beating.cancel()

    return app


async def _beat(watchdog: Watchdog) -> None:
    while True:
        watchdog.beat()
        await asyncio.sleep(0.5)
