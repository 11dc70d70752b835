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
from wattledger_streams.clickhouse_store import Store, StoreRefused, StoreUnavailable, open_store
from wattledger_streams.crash import Watchdog, or_exit
from wattledger_streams.dead_letter import DeadLetters
from wattledger_streams.guard import Guard
from wattledger_streams.log_reader import LogReader
from wattledger_streams.mapping import from_wire_price_record
from wattledger_streams.metrics import RECORDS, RETRIES, ROWS, VIEWS_REFRESHED_S, WHOLE, WHOLE_REFUSED
from wattledger_streams.outbox import Outbox
from wattledger_streams.partitions import ACKNOWLEDGED, partition_counts
from wattledger_streams.settings import WorkerSettings
from wattledger_streams.sink_rows import AVRO_SUBJECTS, FEWEST_AVRO_BYTES, Rows, Whole, sort_record
from wattledger_streams.thresholds import Thresholds, observe

log = structlog.get_logger()
PROCESSOR = "sink"
_ARRAY_END = b"\0"
"""Both kinds of records that may be left whole end with an array."""
_MOST_REFUSED = 5
"""Takes in a row that ClickHouse did not decode, after which it is not asked to again before the next start."""
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
        self._next_price = 0
        self._marks: dict[tuple[int, int], int] = {}
        self._refused = 0
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
        self._decode(rows, rows.give_back(FEWEST_AVRO_BYTES if self._refused < _MOST_REFUSED else None))
        done = await self._insert(rows)
        for table, count in done.items():
            ROWS.labels(table).inc(count)
            self._inserted += count
        for place, at_us in rows.newest_mark_us.items():
            self._marks[place] = max(at_us, self._marks.get(place, 0))
        await self._outbox.settle()
        RECORDS.labels(PROCESSOR, "all").inc(len(events))

    async def _insert(self, rows: Rows) -> dict[str, int]:
        """What ClickHouse does not decode is decoded here, where a bad record is put aside and the others go on."""
        try:
            done = dict(await self._retry(lambda: self._store.run(rows.insert)))
            WHOLE.inc(sum(map(len, rows.whole.values())))
            self._refused = 0 if rows.whole else self._refused
            return done
        except StoreRefused as error:
            if not rows.whole:
                raise
            self._refused += 1
            WHOLE_REFUSED.inc()
            log.warning("records_not_taken_whole", refused_in_a_row=self._refused, error=str(error))
        self._decode(rows, rows.give_back())
        return dict(await self._retry(lambda: self._store.run(rows.insert)))

    def _sort(self, rows: Rows, topic: str, partition: int, offset: int, key: bytes, raw: bytes) -> None:
        """A record of a kind that ClickHouse can decode is left whole, and counts as good until it says otherwise."""
        subject = AVRO_SUBJECTS.get(topic)
        body = self._codec.newest_body(raw, subject) if subject and raw.endswith(_ARRAY_END) else None
        if body is not None:
            rows.keep_whole(topic, Whole(Source(partition, offset), key, raw, body))
            self._dead.count_good()
        elif self._sort_decoded(rows, topic, partition, offset, key, raw):
            self._dead.count_good()

    def _decode(self, rows: Rows, whole: dict[str, list[Whole]]) -> None:
        for topic, records in whole.items():
            for (partition, offset), key, raw, _ in records:
                self._sort_decoded(rows, topic, partition, offset, key, raw)

    def _sort_decoded(self, rows: Rows, topic: str, partition: int, offset: int, key: bytes, raw: bytes) -> bool:
        if topic == "price-book":
            if self._prices is None or offset != self._next_price:
                self._prices = self._price_log(offset)
            self._next_price = offset + 1
        try:
            decoded = self._codec.decode(raw)
            sort_record(rows, topic, decoded, Source(partition, offset), self._prices or PriceLog())
        except BadRecord as error:
            if topic == "dead-letters":
                log.error("unreadable_dead_letter", partition=partition, offset=offset, error=str(error))
                return False  # putting it aside again would go round for ever; the topic keeps it
            self._dead.put_aside(self._settings.topic(topic), partition, offset, key, raw, error)
            return False
        return True

    def _price_log(self, end_offset: int) -> PriceLog:
        """Prices below an offset, read again at the start and where offsets do not follow (another sink had the book
        meanwhile): a price's `known_us` is the last tick above it."""
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
    guard = Guard(PROCESSOR, settings, partition_counts(settings))
    guard.watch(app)
    opened = asyncio.Event()
    sinks: list[Sink] = []

    @app.agent(raw_topic(app, [settings.topic(name) for name in ACKNOWLEDGED[PROCESSOR]]), concurrency=1)
    async def sink(stream: Any) -> None:
        async with or_exit(PROCESSOR):
            await opened.wait()
            async for events in guard.takes(stream, settings.sink_take_max, settings.sink_take_within_s):
                await sinks[0].take(events)
                # Persist, then acknowledge, in arrival order.
                await guard.acknowledge(stream, events)

    @app.task
    async def keep() -> None:
        watchdog.start()
        guard.start()
        beating = asyncio.create_task(watchdog.keep_beating())
        async with or_exit(PROCESSOR):
            sinks.append(Sink(settings, Codec.for_url(settings.registry_url), Outbox(settings.kafka())))
            await sinks[0].open()
            opened.set()
            while not app.should_stop:
                await asyncio.sleep(settings.refresh_s)
                await sinks[0].keep_fresh()
            beating.cancel()

    return app
