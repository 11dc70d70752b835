"""What arrived at the other end, read back by a fault test; and what it says is missing."""

from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from wattledger_schemas import Codec

CODEC = Codec()


@dataclass(slots=True)
class Arrived:
    """Values of a topic by partition in order; gap records decoded, each once."""

    values: list[list[bytes]]
    gaps: list[dict[str, Any]] = field(default_factory=list)

    @property
    def every(self) -> list[bytes]:
        return [value for values in self.values for value in values]

    def batches(self) -> list[dict[str, Any]]:
        """Sample batches, each once by (agent, boot id, number). One with two contents is an error of the agent."""
        found: dict[tuple[str, str, int], bytes] = {}
        for value in self.every:
            batch = CODEC.decode(value).record
            key = (batch["agent"], batch["boot_id"], batch["seq"])
            assert found.setdefault(key, value) == value, f"two batches are {key}"
        return [CODEC.decode(value).record for value in found.values()]

    def numbers(self) -> list[int]:
        """Numbers of records made by `agent_records`, each once, sorted."""
        return sorted({int(value.split(b";")[0]) for value in self.every})

    def named(self) -> set[int]:
        """Log numbers that gap records name."""
        return {n for gap in self.gaps for n in range(gap["from_seq"], gap["to_seq"] + 1) if gap["count"]}

    def counted(self) -> int:
        return sum(gap["count"] for gap in self.gaps)


def arrived(kafka: dict[str, str], prefix: str, topic: str) -> Arrived:
    """Read a topic and the gap records to their ends."""
    found = Arrived(_read(kafka, f"{prefix}{topic}"))
    seen = {value for values in _read(kafka, f"{prefix}dead-letters") for value in values}
    found.gaps = [decoded.record for value in sorted(seen) if (decoded := CODEC.decode(value)).subject == "gap"]
    return found


def _read(kafka: dict[str, str], topic: str) -> list[list[bytes]]:
    quick = {"group.id": "oracle", "enable.partition.eof": True, "fetch.wait.max.ms": 10, "log_level": 0}
    consumer = Consumer({**kafka, **quick})
    found: list[list[bytes]] = []
    for partition in sorted(consumer.list_topics(topic, timeout=10).topics[topic].partitions):
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[bytes] = []
        while True:
            message = consumer.poll(20)
            assert message is not None, f"{topic} can't be read"
            if message.error() is not None:
                break
            values.append(message.value() or b"")
        found.append(values)
    consumer.close()
    return found
