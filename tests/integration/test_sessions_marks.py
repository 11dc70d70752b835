"""A mark says that every revision above it is written: it waits for revisions, and only for them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from wattledger_audit.broker import Broker
from wattledger_core.event import InventoryDevice, NodeEvent, Tick
from wattledger_schemas import Codec
from wattledger_streams.mapping import to_wire_node_event, to_wire_tick
from wattledger_streams.outbox import Outbox
from wattledger_streams.sessions import Sessions
from wattledger_streams.settings import WorkerSettings
from wattledger_streams.topics import create_topics

pytestmark = pytest.mark.kafka
START_US = 1_772_409_600_000_000  # 2026-03-02 00:00 UTC
MINUTE_US = 60_000_000
PARTITIONS = 2


class WatchedOutbox(Outbox):
    """Also tells, at each mark, how many records before it the broker had not confirmed, and what was waited for."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        super().__init__(kafka)
        self.marks: list[int] = []
        self.revisions = 0
        self.waits = 0
        self._marks_open = 0

    def send(
        self, topic: str, partition: int, key: str, value: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        if key.startswith("mark/"):
            self.marks.append(self.unsettled - self._marks_open)
            self._marks_open += 1
        else:
            self.revisions += 1
        super().send(topic, partition, key, value, headers)

    async def settle(self) -> None:
        self.waits += 1
        await super().settle()
        self._marks_open = 0


@dataclass
class Taken:
    """What the processor reads of a record; its partition is the first."""

    offset: int
    value: bytes
    partition: int = 0
    key: bytes = b""

    @property
    def message(self) -> "Taken":
        return self


def take(broker: Broker, prefix: str, items: list[Tick | NodeEvent]) -> WatchedOutbox:
    """The events, as the first records of the first partition, through the processor in one take."""
    settings = WorkerSettings(bootstrap=broker.bootstrap, topic_prefix=prefix)
    create_topics(settings.kafka(), prefix, partitions=PARTITIONS, replication=1)
    codec, outbox = Codec(), WatchedOutbox(settings.kafka())
    values = [
        codec.encode("tick", to_wire_tick(item)) if isinstance(item, Tick)
        else codec.encode("node_event", to_wire_node_event(item))
        for item in items
    ]  # fmt: skip
    asyncio.run(Sessions(settings, codec, outbox).take([Taken(n, value) for n, value in enumerate(values)]))
    return outbox


def inventory(name: str, at_us: int) -> NodeEvent:
    return NodeEvent(
        f"i-{name}", "inventory", at_us, name, "c", "fra1", (InventoryDevice(f"GPU-{name}", 0, "H100"),), 8
    )


def test_a_mark_waits_for_every_revision_before_it(broker: Broker, topic_prefix: str) -> None:
    items: list[Tick | NodeEvent] = []
    for n in range(20):
        at_us = START_US + n * MINUTE_US
        items += [inventory(f"n{n}-{m}", at_us) for m in range(3)]
        items.append(Tick(at_us))
    outbox = take(broker, f"marks-{topic_prefix}", items)
    assert outbox.revisions >= 60
    assert outbox.marks == [0] * (20 * PARTITIONS)


def test_marks_do_not_wait_for_marks(broker: Broker, topic_prefix: str) -> None:
    ticks: list[Tick | NodeEvent] = [Tick(START_US + n * MINUTE_US) for n in range(100)]
    outbox = take(broker, f"quiet-{topic_prefix}", [inventory("n1", START_US), *ticks])
    assert len(outbox.marks) == 100 * PARTITIONS
    assert outbox.waits == 2  # for the inventory, and before what was taken is acknowledged
    assert outbox.unsettled == 0
