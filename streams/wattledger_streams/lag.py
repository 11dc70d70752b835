"""Lag of a processor, measured from outside of its consumer: committed against newest, by a client of its own."""

import threading
from collections.abc import Mapping, Sequence

import structlog
from confluent_kafka import KafkaException

from wattledger_streams.group_view import GroupView
from wattledger_streams.metrics import LAG_RECORDS

log = structlog.get_logger()


class LagWatch:
    """Sets the lag gauge every few seconds, in a thread. Never joins the group it looks at."""

    def __init__(self, kafka: Mapping[str, str], group: str, topics: Mapping[str, int], every_s: float = 5.0) -> None:
        self._view = GroupView(kafka, group)
        self._topics = topics
        self._every_s = every_s
        self._stop = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="lag", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                self.measure()
            except KafkaException as error:
                log.warning("lag_unknown", error=str(error))

    def measure(self) -> dict[tuple[str, int], int]:
        """Records not yet acknowledged by topic and partition; sets the gauge."""
        places = {(topic, partition) for topic, count in self._topics.items() for partition in range(count)}
        found = {place: view.lag for place, view in self._view.of(places).items()}
        for (topic, partition), lag in found.items():
            LAG_RECORDS.labels(topic, str(partition)).set(lag)
        return found


def processor_topics(counts: Mapping[str, int], names: Sequence[str], prefix: str) -> dict[str, int]:
    """The deployment's names of a processor's topics, with their partition counts."""
    return {prefix + name: counts[name] for name in names}
