"""Core values as trace items: what a generated or replayed trace gives the player."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from wattledger_agent.trace import TraceItem
from wattledger_core.batch import Batch
from wattledger_core.event import JobEvent, NodeEvent, Tick
from wattledger_core.price import Price
from wattledger_schemas import Codec, job_key
from wattledger_streams.mapping import (
    to_wire_batch,
    to_wire_job_event,
    to_wire_node_event,
    to_wire_price,
    to_wire_tick,
)

Item = JobEvent | NodeEvent | Tick | Batch | Price


class Emitted(Protocol):
    """A value and the event time at which it is emitted."""

    @property
    def at_us(self) -> int: ...

    @property
    def item(self) -> Item: ...


def trace_items(emissions: Iterable[Emitted], codec: Codec) -> Iterator[TraceItem]:
    """Encoded items in the order given; a tick becomes one item for each topic that carries ticks."""
    for emission in emissions:
        yield from _items(emission.at_us, emission.item, codec)


def _items(at_us: int, item: Item, codec: Codec) -> Iterator[TraceItem]:
    if isinstance(item, Batch):
        yield TraceItem(at_us, "gpu-samples", item.node, codec.encode("sample_batch", to_wire_batch(item)))
    elif isinstance(item, JobEvent):
        key = job_key(item.cluster, item.job)
        yield TraceItem(at_us, "job-events", key, codec.encode("job_event", to_wire_job_event(item)))
    elif isinstance(item, NodeEvent):
        yield TraceItem(at_us, "job-events", item.node, codec.encode("node_event", to_wire_node_event(item)))
    elif isinstance(item, Price):
        yield TraceItem(at_us, "price-book", item.price_id, codec.encode("price", to_wire_price(item)))
    else:
        value = codec.encode("tick", to_wire_tick(item))
        for topic in ("job-events", "price-book"):
            yield TraceItem(at_us, topic, "tick", value, broadcast=True)
