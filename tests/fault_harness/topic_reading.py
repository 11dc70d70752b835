"""The topics to their ends, by a consumer that joins no group."""

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

SINGLE = ("price-book", "dead-letters", "threshold-events")
"""Topics of one partition, whatever the others have."""
_WITHIN_S = 60.0


class Record(NamedTuple):
    """One record as it lies there."""

    partition: int
    offset: int
    key: bytes
    value: bytes


Topics = Callable[[str], Iterator[Record]]
"""Every record of a topic, by the contract's name."""


def kafka_topics(kafka: Mapping[str, str], prefix: str, partitions: int) -> Topics:
    """Topics of a broker. Reading raises TimeoutError when a partition's end is not reached in time."""

    def read(topic: str) -> Iterator[Record]:
        for partition in range(1 if topic in SINGLE else partitions):
            yield from _read(kafka, prefix + topic, partition)

    return read


def _read(kafka: Mapping[str, str], topic: str, partition: int) -> Iterator[Record]:
    consumer = Consumer({**kafka, "group.id": "harness-checker", "enable.auto.commit": False})
    try:
        low, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), _WITHIN_S)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        at, until_s = low, monotonic() + _WITHIN_S
        while at < end:
            for message in consumer.consume(1000, 0.2):
                if message.error() is not None:
                    continue
                offset = int(message.offset() or 0)
                if offset < end:
                    yield Record(partition, offset, message.key() or b"", message.value() or b"")
                at, until_s = offset + 1, monotonic() + _WITHIN_S
            if monotonic() > until_s:
                raise TimeoutError(f"{topic}[{partition}]: at {at}, its end {end} was not reached")
    finally:
        consumer.close()
