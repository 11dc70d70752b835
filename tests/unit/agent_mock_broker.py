"""librdkafka's mock cluster as a process of its own, which a test can freeze or kill. It stands in for Kafka only where
a test is about the agent's own bookkeeping."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

_SERVE = """
import sys, time
from confluent_kafka import Producer
producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
for topic in ("job-events", "gpu-samples", "price-book", "dead-letters"):
    producer.produce(topic, value=b"first", partition=0)
producer.flush()
[broker] = producer.list_topics(timeout=10).brokers.values()
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""
PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class MockBroker:
    """A running mock; each topic has four partitions and one record of its own at the head of partition 0."""

    bootstrap: str
    process: subprocess.Popen[str]

    @property
    def kafka(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap}

    def freeze(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def read(self, topic: str, most_s: float = 5.0) -> dict[int, list[bytes]]:
        """All values of a topic by partition."""
        consumer = Consumer({**self.kafka, "group.id": "reader", "enable.partition.eof": True, "log_level": 0})
        found: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
        ended: set[int] = set()
        for _ in range(int(most_s / 0.05)):
            for message in consumer.consume(1000, 0.05):
                partition, value = message.partition(), message.value()
                if message.error() is not None:
                    ended.add(int(partition or 0))
                elif value != b"first":
                    found[int(partition or 0)].append(bytes(value or b""))
            if len(ended) == PARTITIONS:
                break
        consumer.close()
        return found


@contextmanager
def mock_broker() -> Iterator[MockBroker]:
    """Start one; it ends with the block."""
    args = [sys.executable, "-c", _SERVE]
    with subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield MockBroker(process.stdout.readline().strip(), process)
        finally:
            process.kill()
