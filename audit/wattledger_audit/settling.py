"""When is a run done? When every consumer group has acknowledged all there is, twice in a row."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition
from wattledger_schemas import load_contracts
from wattledger_streams.partitions import ACKNOWLEDGED

_TIMEOUT_S = 10.0
_POLL_S = 0.5
READERS: Mapping[str, tuple[str, ...]] = {**ACKNOWLEDGED, "meter": (*ACKNOWLEDGED["meter"], "allocations")}
"""Consumer group (without prefix) → topics it acknowledges."""


class NotSettled(TimeoutError):
    """The run did not come to rest in time; says what was behind."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Records not yet acknowledged, by group and topic; empty when all is done."""

    behind: dict[str, int]

    def __str__(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in self.behind.items()) or "nothing"


class Settling:
    """Watches lag from outside of the workers, with consumers that join no group."""

    def __init__(self, kafka: Mapping[str, str], topic_prefix: str, partitions: Mapping[str, int]) -> None:
        self._prefix = topic_prefix
        self._partitions = partitions
        self._consumers = {
            group: Consumer({**kafka, "group.id": f"{topic_prefix}wattledger-{group}", "enable.auto.commit": False})
            for group in READERS
        }

    def lag(self) -> Lag:
        """One look at every group."""
        behind: dict[str, int] = {}
        for group, topics in READERS.items():
            consumer = self._consumers[group]
            for topic in topics:
                places = [TopicPartition(self._prefix + topic, p) for p in range(self._partitions[topic])]
                count = 0
                for place in consumer.committed(places, _TIMEOUT_S):
                    low, high = consumer.get_watermark_offsets(place, _TIMEOUT_S)
                    count += high - max(place.offset, low)
                if count > 0:
                    behind[f"{group}:{topic}"] = count
        return Lag(behind)

    def wait(self, within_s: float, progress: Callable[[Lag], None] | None = None) -> None:
        """Return when nothing was behind in two looks; raises NotSettled."""
        until, quiet, last = time.monotonic() + within_s, 0, Lag({"start": 1})
        while time.monotonic() < until:
            try:
                last = self.lag()
            except KafkaException:
                last = Lag({"broker away": 1})
            if progress:
                progress(last)
            quiet = quiet + 1 if not last.behind else 0
            if quiet >= 2:
                return
            time.sleep(_POLL_S)
        raise NotSettled(f"after {within_s:.0f} s still behind: {last}")

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()


def partitions_of(partitions: int) -> dict[str, int]:
    """Partition counts of a stack that overrides them (see `create_topics`)."""
    return {name: partitions if c.partitions > 1 else c.partitions for name, c in load_contracts().items()}
