"""The sessions processor: `job-events` in, allocation revisions and marks out. State is the log, folded again."""

import asyncio
from collections.abc import Sequence
from typing import Any

import faust
import structlog
from wattledger_core.event import JobTopicEvent
from wattledger_core.revision import AllocationRecord, AllocationRevision, Mark
from wattledger_core.session import SessionFold
from wattledger_schemas import BadRecord, Codec, Decoded, partition_for

from wattledger_streams.app import build_app, raw_topic
from wattledger_streams.crash import Watchdog, or_exit
from wattledger_streams.dead_letter import DeadLetters
from wattledger_streams.guard import Guard
from wattledger_streams.log_reader import LogReader
from wattledger_streams.mapping import (
    from_wire_job_event,
    from_wire_node_event,
    from_wire_tick,
    to_wire_allocation_revision,
    to_wire_mark,
    to_wire_node_revision,
)
from wattledger_streams.metrics import RECORDS
from wattledger_streams.outbox import Outbox
from wattledger_streams.partitions import partition_counts
from wattledger_streams.settings import WorkerSettings

log = structlog.get_logger()
PROCESSOR = "sessions"


def job_topic_event(decoded: Decoded) -> JobTopicEvent:
    """The core's event of a record of `job-events`; BadRecord when the subject does not belong there."""
    if decoded.subject == "job_event":
        return from_wire_job_event(decoded.record)
    if decoded.subject == "node_event":
        return from_wire_node_event(decoded.record)
    if decoded.subject == "tick":
        return from_wire_tick(decoded.record)
    raise BadRecord("wrong_subject", f"{decoded.subject} does not belong in job-events")


def encode_allocation_record(codec: Codec, record: AllocationRecord) -> bytes:
    """A record of the `allocations` topic in wire format."""
    if isinstance(record, Mark):
        return codec.encode("mark", to_wire_mark(record))
    if isinstance(record, AllocationRevision):
        return codec.encode("allocation_revision", to_wire_allocation_revision(record))
    return codec.encode("node_revision", to_wire_node_revision(record))


class Sessions:
    """Folds of the owned partitions and what they write."""

    def __init__(self, settings: WorkerSettings, codec: Codec, outbox: Outbox) -> None:
        self._settings = settings
        self._codec = codec
        self._outbox = outbox
        counts = partition_counts(settings)
        self._allocation_partitions = counts["allocations"]
        self._dead = DeadLetters(PROCESSOR, settings, codec, outbox, counts["dead-letters"])
        self._folds: dict[int, SessionFold] = {}
        self._next: dict[int, int] = {}
        self._revised = False

    async def take(self, events: Sequence[Any]) -> None:
        """Fold a batch in arrival order and settle what it wrote; the caller acknowledges after this returns."""
        for event in events:
            message = event.message
            await self._fold(message.partition, message.offset, message.key or b"", message.value or b"")
        await self._outbox.settle()
        RECORDS.labels(PROCESSOR, "job-events").inc(len(events))

    async def _fold(self, partition: int, offset: int, key: bytes, raw: bytes) -> None:
        if self._next.get(partition) != offset:
            await asyncio.to_thread(self._rebuild, partition, offset)
        self._next[partition] = offset + 1
        try:
            event = job_topic_event(self._codec.decode(raw))
            records = self._folds[partition].fold(offset, event)
            for rejected in self._folds[partition].take_rejected():
                raise BadRecord(rejected.reason, rejected.detail)
        except BadRecord as error:
            self._dead.put_aside(self._settings.topic("job-events"), partition, offset, key, raw, error)
            return
        self._dead.count_good()
        for record in records:
            await self._write(record)

    async def _write(self, record: AllocationRecord) -> None:
        topic = self._settings.topic("allocations")
        value = encode_allocation_record(self._codec, record)
        if isinstance(record, Mark):
            # Revisions first, then the mark: a mark says that all above it is written. Marks need not wait for marks:
            # a partition keeps their order, and a round trip for each was 8 ms of a catch-up's every tick.
            if self._revised:
                await self._outbox.settle()
                self._revised = False
            for partition in range(self._allocation_partitions):
                self._outbox.send(topic, partition, f"mark/{record.origin.partition}", value)
        else:
            partition = partition_for(record.node, self._allocation_partitions)
            self._outbox.send(topic, partition, record.revision_id, value)
            self._revised = True

    def _rebuild(self, partition: int, offset: int) -> None:
        """Fold the partition again from the start of what is kept: after a start, a rebalance, or a gap in offsets."""
        fold = SessionFold(partition)
        reader = LogReader(
            self._settings.kafka(), self._settings.topic("job-events"), partition, f"{PROCESSOR}-rebuild"
        )
        count = 0
        try:
            for record in reader.read_until(offset):
                count += 1
                try:
                    fold.fold(record.offset, job_topic_event(self._codec.decode(record.value)))
                except BadRecord:
                    continue  # it went to dead-letters when it was first read
                fold.take_rejected()
        finally:
            reader.close()
        log.info("sessions_rebuilt", partition=partition, records=count, offset=offset)
        self._folds[partition] = fold


def build_sessions(settings: WorkerSettings) -> faust.App:
    """The sessions app."""
    app = build_app(PROCESSOR, settings)
    watchdog = Watchdog(settings.watchdog_s)
    guard = Guard(PROCESSOR, settings, partition_counts(settings))
    guard.watch(app)

    @app.agent(raw_topic(app, [settings.topic("job-events")]), concurrency=1)
    async def sessions(stream: Any) -> None:
        async with or_exit(PROCESSOR):
            worker = Sessions(settings, Codec.for_url(settings.registry_url), Outbox(settings.kafka()))
            async for events in guard.takes(stream, settings.take_max, settings.take_within_s):
                await worker.take(events)
                await guard.acknowledge(stream, events)

    @app.task
    async def watch() -> None:
        watchdog.start()
        guard.start()
        await watchdog.keep_beating()

    return app
