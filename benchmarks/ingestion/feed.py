"""Records made beforehand and put into Kafka in one burst, as fast as the broker takes them."""

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic


class Record(NamedTuple):
    """One record and where it goes."""

    topic: str
    partition: int
    key: str
    value: bytes


def make_topics(bootstrap: str, prefix: str, partitions: dict[str, int]) -> None:
    """Make topics for a contestant that brings none of its own. Raises KafkaException when the broker refuses."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(prefix + name, num_partitions=n, replication_factor=1) for name, n in partitions.items()]
    for future in admin.create_topics(wanted).values():
        future.result(30)


def publish(bootstrap: str, prefix: str, records: Iterable[Record]) -> int:
    """Send all of them, wait until the broker has them, and say how many. Raises RuntimeError when one is refused."""
    refused: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(f"{message.topic()}: {error}")

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 3,
            "compression.type": "lz4",
            "message.max.bytes": 8_000_000,
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    count = 0
    for record in records:
        while True:
            try:
                producer.produce(
                    prefix + record.topic, record.value, record.key, record.partition, on_delivery=delivered
                )
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
        if count % 1000 == 0:
            producer.poll(0)
    producer.flush(120)
    if refused or len(producer):
        raise RuntimeError(f"not all {count} records were taken: {len(producer)} waiting, refused {refused[:3]}")
    return count
