"""A group's positions and the logs' ends, asked by a client that never joins the group."""

import threading
from collections.abc import Collection, Mapping

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from wattledger_streams.clock import monotonic_s
from wattledger_streams.log_reader import patiently
from wattledger_streams.progress import Place
from wattledger_streams.stall import BrokerView

_TIMEOUT_S = 10.0
_PROBE_S = 5.0
_GONE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)


class GroupView:
    """Asks the broker. Every method raises KafkaException when it does not answer; threads take turns."""

    def __init__(self, kafka: Mapping[str, str], group: str) -> None:
        self._consumer = Consumer(
            {
                **kafka,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_uncommitted",
            }
        )
        self._kafka, self._group = kafka, group
        self._lock = threading.Lock()

    def of(self, places: Collection[Place]) -> dict[Place, BrokerView]:
        """What the broker shows of these partitions."""
        with self._lock:
            asked = [TopicPartition(topic, partition) for topic, partition in sorted(places)]
            found = {}
            for place in self._consumer.committed(asked, _TIMEOUT_S) if asked else ():
                low, high = self._consumer.get_watermark_offsets(place, _TIMEOUT_S)
                committed = int(place.offset) if place.offset >= 0 else None
                found[(place.topic, place.partition)] = BrokerView(committed, int(low), int(high))
            return found

    def place(self, place: Place) -> tuple[int, str]:
        """The next offset that the group has not acknowledged, 0 when it has acknowledged nothing, and what was noted
        with it."""
        with self._lock:
            [found] = patiently(lambda left_s: self._consumer.committed([TopicPartition(*place)], left_s))
            return max(int(found.offset), 0), found.metadata or ""

    def unassigned(self, places: Collection[Place]) -> set[Place]:
        """Those that no member of the group has been given."""
        return set(places) - patiently(self._given)

    def _given(self, within_s: float) -> set[Place]:
        admin = AdminClient(dict(self._kafka))  # held until it has answered
        asked = admin.describe_consumer_groups([self._group], request_timeout=min(within_s, _TIMEOUT_S))
        return {
            (place.topic, place.partition)
            for member in asked[self._group].result().members
            if member.assignment is not None
            for place in member.assignment.topic_partitions
        }

    def delivers(self, place: Place, offset: int) -> bool:
        """Whether a record at or above `offset` is delivered to this client."""
        return self._first_answer(place, offset) == "record"

    def is_out_of_range(self, place: Place, offset: int) -> bool:
        """Whether the broker refuses to read at `offset`."""
        return self._first_answer(place, offset) == "out_of_range"

    def _first_answer(self, place: Place, offset: int) -> str:
        with self._lock:
            self._consumer.assign([TopicPartition(*place, offset)])
            try:
                until_s = monotonic_s() + _PROBE_S
                while monotonic_s() < until_s:
                    message = self._consumer.poll(0.2)
                    error = message.error() if message is not None else None
                    if message is not None and error is None:
                        return "record"
                    if error is not None and error.code() in _GONE:
                        return "out_of_range"
                return ""
            finally:
                self._consumer.unassign()

    def close(self) -> None:
        self._consumer.close()
