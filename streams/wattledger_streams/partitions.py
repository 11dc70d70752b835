"""How many partitions the topics have, read from the broker: nothing is assumed, nothing is created."""

from confluent_kafka.admin import AdminClient
from wattledger_schemas import load_contracts

from wattledger_streams.settings import WorkerSettings

ACKNOWLEDGED = {
    "sessions": ("job-events",),
    "meter": ("gpu-samples",),
    "sink": ("usage-lines", "tenant-cost", "allocations", "price-book", "threshold-events", "dead-letters"),
}
"""Processors and the topics that their consumer groups acknowledge."""


class TopicsMissing(RuntimeError):
    """A topic of the contracts is not there."""


def partition_counts(settings: WorkerSettings) -> dict[str, int]:
    """Partitions of every topic by its contract's name.

    Raises TopicsMissing with the command that makes them, or when the topics that a node's records share do not have
    the same count.
    """
    known = AdminClient(dict(settings.kafka())).list_topics(timeout=30).topics
    counts: dict[str, int] = {}
    for name in load_contracts():
        topic = known.get(settings.topic(name))
        if topic is None or not topic.partitions:
            raise TopicsMissing(f"topic {settings.topic(name)!r} is missing: run `wattledger topics create` first")
        counts[name] = len(topic.partitions)
    shared = {name: counts[name] for name in ("gpu-samples", "allocations", "usage-lines")}
    if len(set(shared.values())) != 1:
        raise TopicsMissing(f"a node must live in one partition number, but partition counts differ: {shared}")
    return counts
