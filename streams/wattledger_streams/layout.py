"""Partition counts remembered in the broker: a changed count would send a key to another partition, so it is refused.

Kept in a group of its own that nobody joins: as the committed offset of each topic, and all of them as the metadata
of one. A topic that is deleted takes its offset with it, and Tansu keeps no metadata; together they outlive both.
"""

import json
from collections.abc import Mapping

import structlog
from confluent_kafka import Consumer, TopicPartition
from wattledger_schemas import load_contracts

from wattledger_streams.clock import monotonic_s
from wattledger_streams.log_reader import patiently
from wattledger_streams.settings import WorkerSettings

log = structlog.get_logger()
EXIT_LAYOUT = 72
GROUP = "layout"
_HOME = "price-book"
_TIMEOUT_S = 30.0
_RENEW_S = 3600.0
"""A broker forgets positions of a group that nobody joins after `offsets.retention.minutes`, 7 days by default."""


class LayoutChanged(RuntimeError):
    """A topic has another partition count than when this deployment began."""


class Layout:
    """The deployment's partition counts: remembered at the first look, compared ever after."""

    def __init__(self, settings: WorkerSettings, renewed: bool = False) -> None:
        """`renewed`: it was just checked by another instance in this process."""
        self._settings = settings
        self._group = settings.group(GROUP)
        self._consumer = Consumer({**settings.kafka(), "group.id": self._group, "enable.auto.commit": False})
        self._written_s = monotonic_s() if renewed else None
        self._known: dict[str, int] = {}

    def check(self, counts: Mapping[str, int]) -> None:
        """Compare counts (by contract name) with the remembered ones, and remember those of topics not seen before.

        Raises LayoutChanged with what to do, KafkaException while the broker does not answer.
        """
        known = self.compare(counts)
        is_old = self._written_s is None or monotonic_s() - self._written_s > _RENEW_S
        self._known = {**known, **counts}
        if is_old or counts.keys() - known.keys():
            self._remember(self._known)

    def compare(self, counts: Mapping[str, int]) -> dict[str, int]:
        """The remembered counts; raises LayoutChanged where one differs. Remembers nothing."""
        known = {**self._known, **self.remembered()}
        changed = {name: (known[name], count) for name, count in counts.items() if known.get(name, count) != count}
        if changed:
            raise LayoutChanged(self._message(changed))
        return known

    def look(self) -> dict[str, int]:
        """The broker's counts now, of the contracts' topics that are there."""
        topics = self._consumer.list_topics(timeout=_TIMEOUT_S).topics
        names = {name: topics.get(self._settings.topic(name)) for name in load_contracts()}
        return {name: len(topic.partitions) for name, topic in names.items() if topic is not None and topic.partitions}

    def remembered(self) -> dict[str, int]:
        """Counts of earlier looks; empty when there were none, or when the broker has forgotten them."""
        found: dict[str, int] = {}
        asked = self._places(dict.fromkeys(load_contracts(), 0))
        places = patiently(lambda left_s: self._consumer.committed(asked, left_s))
        for place in places:
            if place.offset > 0:
                found[place.topic.removeprefix(self._settings.topic_prefix)] = int(place.offset)
        for place in places:
            if place.metadata:
                found |= {str(name): int(count) for name, count in json.loads(place.metadata).items()}
        return found

    def _remember(self, counts: Mapping[str, int]) -> None:
        self._consumer.commit(offsets=self._places(counts), asynchronous=False)
        self._written_s = monotonic_s()
        log.info("layout_remembered", group=self._group, counts=dict(counts))

    def _places(self, counts: Mapping[str, int]) -> list[TopicPartition]:
        text = json.dumps(dict(counts), sort_keys=True)
        return [
            TopicPartition(self._settings.topic(name), 0, count, text if name == _HOME else "")
            for name, count in sorted(counts.items())
        ]

    def _message(self, changed: Mapping[str, tuple[int, int]]) -> str:
        what = "; ".join(
            f"topic {self._settings.topic(name)!r} has {now} partitions, before {before}"
            for name, (before, now) in sorted(changed.items())
        )
        return (
            f"{what}. The partition of a node or a job depends on the count, so its records would be split over two "
            "partitions. Nothing is acknowledged. Either make the topic again with the count it had, or start a new "
            "deployment: another topic prefix, `wattledger topics create` with the new counts, and the old topics' "
            "records published into it. If this deployment is new (all its topics were made again), delete the "
            f"consumer group {self._group!r}"
        )

    def close(self) -> None:
        self._consumer.close()
