"""The meter processor: both meters and pricing. Samples through Faust; the books through consumers of its own."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import faust
import structlog
from wattledger_core.meter import READY, TOO_FAR_AHEAD
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_schemas import BadRecord, Codec

from wattledger_streams.app import build_app, let_go, raw_topic
from wattledger_streams.crash import Watchdog, or_exit
from wattledger_streams.dead_letter import DeadLetters
from wattledger_streams.emit import Emitter
from wattledger_streams.group_view import GroupView
from wattledger_streams.guard import Guard
from wattledger_streams.log_reader import LogReader, LogRecord
from wattledger_streams.lost_records import OnLost, say_lost
from wattledger_streams.mapping import from_wire_price_record
from wattledger_streams.meter_partition import MeterPartition
from wattledger_streams.metrics import RECORDS
from wattledger_streams.outbox import Outbox
from wattledger_streams.ownership import Ownership, kept_positions
from wattledger_streams.partitions import partition_counts
from wattledger_streams.sample_log import SampleLog
from wattledger_streams.settings import WorkerSettings
from wattledger_streams.verdicts import DeadSamples

log = structlog.get_logger()
PROCESSOR = "meter"
_IDLE_S = 0.02
_PRICES_QUIET_S = 0.3


class Meter:
    """The owned partitions. One lock: books, batches and corrections happen one after the other."""

    def __init__(
        self, settings: WorkerSettings, codec: Codec, outbox: Outbox, ownership: Ownership, on_lost: OnLost = say_lost,
        is_forming: Callable[[], bool] = bool,
    ) -> None:  # fmt: skip
        self.lock = asyncio.Lock()
        self._is_forming = is_forming
        self._settings = settings
        self._codec = codec
        self._outbox = outbox
        self._counts = partition_counts(settings)
        self._samples_topic = settings.topic("gpu-samples")
        self._emitter = Emitter(settings, codec, outbox, self._counts)
        self._dead = DeadLetters(PROCESSOR, settings, codec, outbox, self._counts["dead-letters"])
        self._price_log = PriceLog()
        self._on_lost = on_lost
        self._prices = LogReader(settings.kafka(), settings.topic("price-book"), 0, "wattledger-price-log", on_lost)
        self._prices.must_follow(0)  # prices are kept for ever
        self._late_prices: list[tuple[int, Price]] = []
        self._partitions: dict[int, MeterPartition] = {}
        self._ownership = ownership
        self._group = GroupView(settings.kafka(), settings.group(PROCESSOR))
        self._generation = -1
        self._delivered_in = -1
        self._is_stale = True
        self._verdicts = DeadSamples(settings, codec, self._counts["dead-letters"])

    def rebalanced(self) -> None:
        """The group has formed anew: what is owned, and what others did meanwhile, has to be looked at again."""
        self._is_stale = True

    async def renew(self) -> None:
        """After a rebalance: take up newly owned partitions, let go of others; nothing while the group forms. Call
        under the lock.

        A partition is kept as it is only over consecutive generations: whoever missed one (frozen, cut off) cannot
        know what another did with it.
        """
        found = await self._ownership.owned() if self._is_stale else None
        if found is None:
            return
        self._is_stale = False
        follows = found.generation in (self._generation, self._generation + 1)
        self._generation = found.generation
        await asyncio.to_thread(self._own, found.partitions, follows)

    def _own(self, partitions: frozenset[int], follows: bool) -> None:
        self._verdicts.refresh()
        for partition in set(self._partitions) - (partitions if follows else set()):
            self._partitions.pop(partition).close()
        for partition in sorted(partitions - set(self._partitions)):
            if self._is_forming():
                self._is_stale = True  # what is folded now may be another's in a moment
                return
            samples = SampleLog(
                self._settings, self._codec, partition, partial(self._is_dead, partition),
                partial(self._acknowledged, partition),
            )  # fmt: skip
            owned = MeterPartition(
                partition, self._counts["job-events"], self._settings, self._codec, self._outbox, self._emitter,
                self._price_log, samples, self._ownership.keep,
                kept_positions(self._group, self._settings.topic("allocations"), partition), self._on_lost,
            )  # fmt: skip
            owned.catch_up()
            self._load_prices(owned.done.price)
            self._partitions[partition] = owned

    def _is_dead(self, partition: int, offset: int) -> bool:
        return (partition, offset) in self._verdicts

    def _acknowledged(self, partition: int) -> int:
        return self._group.place((self._samples_topic, partition))[0]

    def _load_prices(self, end_offset: int) -> None:
        """Be as far in the price book as whoever had the partition, kept place or not: a line priced with less would
        lack a step for good, or be another line of the same name."""
        for record in self._prices.read_until(end_offset):
            self._take_prices([record])
        while records := self._prices.poll(timeout_s=_PRICES_QUIET_S):
            self._take_prices(records)

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
            if owned.done.price < self._prices.next_offset:
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

    async def take(self, event: Any) -> bool:
        """Settle one sample record: waits for its marks, writes its lines and costs. Not acknowledged here.

        False for a record of a partition that this worker does not own (any more), and while the group forms anew,
        which waits for this: it must not be acknowledged, and comes again where it belongs.
        """
        message = event.message
        partition, offset, raw = message.partition, message.offset, message.value or b""
        while True:
            async with self.lock:
                if self._is_forming():
                    return False
                if message.generation_id > self._delivered_in or partition not in self._partitions:
                    self._delivered_in = max(self._delivered_in, message.generation_id)
                    self._is_stale = True
                await self.renew()
                if partition not in self._partitions:
                    return False
                if self._is_dead(partition, offset):
                    self._partitions[partition].samples.skip(offset)
                    return True
                if self._try(partition, offset, message.key or b"", raw):
                    return True
                await self._emitter.settle()
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
            self._verdicts.add(partition, offset)
            owned.samples.skip(offset)
            return True
        if verdict != READY:
            return False
        owned.write_batch(batch, offset)
        self._dead.count_good()
        RECORDS.labels(PROCESSOR, "gpu-samples").inc()
        return True

    async def settle(self) -> None:
        await self._emitter.settle()


async def _take_all(meter: Meter, guard: Guard, stream: Any, events: Sequence[Any]) -> None:
    taken: list[Any] = []
    left: list[Any] = []
    for event in events:
        (taken if await meter.take(event) else left).append(event)
    # Persist, then acknowledge, in arrival order.
    async with meter.lock:
        await meter.settle()
    await guard.acknowledge(stream, taken)
    let_go(stream.app, left)


def build_meter(settings: WorkerSettings) -> faust.App:
    """The meter app: one stream of samples, and a task that reads the books while no samples come."""
    app = build_app(PROCESSOR, settings)
    watchdog = Watchdog(settings.watchdog_s)
    guard = Guard(PROCESSOR, settings, partition_counts(settings))
    guard.watch(app)
    ownership = Ownership(app, settings, "gpu-samples")
    workers: list[Meter] = []

    def worker() -> Meter:
        if not workers:
            codec = Codec.for_url(settings.registry_url)
            outbox = Outbox(settings.kafka())
            workers.append(Meter(settings, codec, outbox, ownership, guard.on_lost, lambda: bool(app.rebalancing)))
        return workers[0]

    @app.agent(raw_topic(app, [settings.topic("gpu-samples")]), concurrency=1)
    async def meter(stream: Any) -> None:
        async with or_exit(PROCESSOR):
            async for events in guard.takes(stream, settings.take_max, settings.take_within_s):
                await _take_all(worker(), guard, stream, events)

    @app.on_partitions_assigned.connect(weak=False)
    async def assigned(sender: faust.App, assigned: Any, **_: Any) -> None:
        worker().rebalanced()

    @app.task
    async def books() -> None:
        watchdog.start()
        guard.start()
        beating = asyncio.create_task(watchdog.keep_beating())
        async with or_exit(PROCESSOR):
            while not app.should_stop:
                async with worker().lock:
                    await worker().renew()
                    moved = await worker().read_books()
                await asyncio.sleep(0 if moved else _IDLE_S)
            beating.cancel()

    return app
