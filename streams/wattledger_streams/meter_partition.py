"""One owned partition of the meter: its book, its positions, and the order in which things become durable."""

import asyncio
from collections.abc import Iterable

import structlog
from wattledger_core.batch import Batch
from wattledger_core.line import Line
from wattledger_core.meter import Group, PartitionMeter, Reach
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_core.pricing import Pricer
from wattledger_core.revision import AllocationRecord
from wattledger_schemas import BadRecord, Codec

from wattledger_streams.emit import Emitter
from wattledger_streams.log_reader import LogReader, LogRecord
from wattledger_streams.lost_records import OnLost, say_lost
from wattledger_streams.mapping import from_wire_allocation_record, from_wire_batch, from_wire_usage_lines
from wattledger_streams.metrics import LATE_REVISIONS, SETTLED_S, STALE_SOURCES
from wattledger_streams.outbox import Outbox
from wattledger_streams.ownership import Keep, Positions
from wattledger_streams.sample_log import SampleLog
from wattledger_streams.settings import WorkerSettings

log = structlog.get_logger()
_NOT_OURS = ("too_short", "bad_magic", "undecodable", "trailing_bytes", "wrong_subject")
"""What no sessions worker ever wrote, whatever its version."""


class MeterPartition:
    """Partition q of `gpu-samples`, `allocations` and `usage-lines`.

    Positions: samples are acknowledged through Faust; the book's position says "quarter-hours due by these marks are
    out, late revisions above it have corrected"; the price position says "late prices above it have repriced".
    """

    def __init__(
        self, partition: int, sources: int, settings: WorkerSettings, codec: Codec, outbox: Outbox, emitter: Emitter,
        price_log: PriceLog, samples: SampleLog, keep: Keep, kept: Positions, on_lost: OnLost = say_lost,
    ) -> None:  # fmt: skip
        self.partition = partition
        self.meter = PartitionMeter(sources, settings.policy())
        self.samples = samples
        self._settings = settings
        self._codec = codec
        self._outbox = outbox
        self._emitter = emitter
        self._price_log = price_log
        self._pricer = Pricer(price_log, settings.policy())
        self._book = LogReader(
            settings.kafka(), settings.topic("allocations"), partition, settings.group("meter"), on_lost
        )
        self._keep = keep
        self._kept = self.done = kept

    def catch_up(self) -> None:
        """Read what was handled before a restart, silently, up to the kept position."""
        self._book.must_follow(self._kept.book)
        for record in self._book.read_until(self._kept.book):
            self._read(record)
        self.meter.skip_due()
        log.info("meter_caught_up", partition=self.partition, book=self._kept.book, price=self._kept.price)

    def _decode(self, record: LogRecord) -> AllocationRecord:
        decoded = self._codec.decode(record.value)
        return from_wire_allocation_record(decoded.subject, decoded.record)

    def _read(self, record: LogRecord) -> Reach | None:
        try:
            return self.meter.read(self._decode(record))
        except BadRecord as error:
            if error.reason_code in _NOT_OURS:
                # The sink, which reads the same topic, puts it aside.
                log.error("allocation_skipped", partition=record.partition, offset=record.offset, error=str(error))
                return None
            # Written by our own sessions: unreadable means wrong code, and skipping would lose a holder.
            raise RuntimeError(f"allocations[{record.partition}]@{record.offset}: {error}") from error

    async def read_book(self) -> bool:
        """Take what has arrived in `allocations`: corrections and due quarter-hours go out, then the position."""
        records = self._book.poll()
        for record in records:
            reach = self._read(record)
            if reach is not None:
                LATE_REVISIONS.inc()
                await self._correct(reach)
        quarters = list(self.meter.due_quarters(self._price_log.newest_tick_us))
        self._write(quarters)
        if records or quarters:
            await self._emitter.settle()
        if records or quarters or self.done.book < self._book.next_offset:
            self._deal_with_book()  # also when it was only the price book that had to come
        await self._keep_positions()
        return bool(records or quarters)

    def _deal_with_book(self) -> None:
        """Only while the price book is as far as the marks: else a due quarter-hour may still be waiting for it."""
        book = self.meter.book
        if self._price_log.newest_tick_us >= book.settled_us:
            self.done = self.done._replace(book=max(self._book.next_offset, self.done.book))
        SETTLED_S.labels(str(self.partition)).set(book.settled_us // 1_000_000)
        STALE_SOURCES.labels(str(self.partition)).set(len({s for found in book.stale_sources.values() for s in found}))

    async def _keep_positions(self) -> None:
        if self.done != self._kept and await self._keep(self.partition, self.done):
            self._kept = self.done

    async def _correct(self, reach: Reach) -> None:
        self._write(self.meter.correct_quarters(reach))
        for offset, batch in self.samples.touched(reach):
            group = self.meter.correct_batch(batch, self.partition, offset, reach)
            if group is not None:
                self._write([group])
            await asyncio.sleep(0)
        await self._emitter.settle()

    def write_batch(self, batch: Batch, offset: int) -> None:
        """All that a settled batch writes; the caller settles the outbox and acknowledges."""
        self._write([self.meter.meter_batch(batch, self.partition, offset)])
        self.samples.note(batch, offset)

    def _write(self, groups: Iterable[Group]) -> None:
        for group in groups:
            self._emitter.group(self.partition, group)
            self._emitter.costs(self._pricer.price(group.lines))

    async def reprice(self, prices: Iterable[tuple[int, Price]], next_price_offset: int) -> None:
        """Late prices: every line written so far is read again from `usage-lines` and repriced, then the position."""
        todo = [price for offset, price in prices if offset >= self.done.price and self._pricer.reach(price)]
        if todo:
            await self._emitter.settle()
            for lines in self._written_lines():
                for price in todo:
                    self._emitter.costs(self._pricer.reprice(lines, price))
                await asyncio.sleep(0)  # history may be long: the loop turns meanwhile
            await self._emitter.settle()
        self.done = self.done._replace(price=max(next_price_offset, self.done.price))
        await self._keep_positions()

    def _written_lines(self) -> Iterable[list[Line]]:
        topic = self._settings.topic("usage-lines")
        reader = LogReader(self._settings.kafka(), topic, self.partition, "wattledger-line-log")
        try:
            end = max(reader.end_offset(), self._outbox.next_offset.get((topic, self.partition), 0))
            for record in reader.read_until(end):
                try:
                    decoded = self._codec.decode(record.value)
                except BadRecord:
                    continue  # not ours; the sink puts it aside
                if decoded.subject == "usage_lines":
                    yield from_wire_usage_lines(decoded.record).lines
        finally:
            reader.close()

    def batch(self, raw: bytes) -> Batch:
        """A sample record as arrays; raises BadRecord."""
        decoded = self._codec.decode(raw)
        if decoded.subject != "sample_batch":
            raise BadRecord("wrong_subject", f"{decoded.subject} does not belong in gpu-samples")
        return from_wire_batch(decoded.record)

    def close(self) -> None:
        self._book.close()
