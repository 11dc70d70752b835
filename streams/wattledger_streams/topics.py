"""Topics are made from the contracts by a command, never implicitly."""

import time
from collections.abc import Mapping
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from wattledger_schemas import TopicContract, load_contracts

_WAIT_S = 30.0
SHARED_BY_NODE = ("gpu-samples", "allocations", "usage-lines")
"""A node lives in one partition number of these, so their counts are equal."""


class TopicRefused(RuntimeError):
    """An existing topic is not what the contract says, or the broker refuses to make one."""


def create_topics(
    kafka: Mapping[str, str], prefix: str = "", partitions: int | None = None, replication: int = 1
) -> list[str]:
    """Make what is missing and return the names made; running it again makes nothing.

    `partitions` overrides every contract that has more than one. Raises TopicRefused when an existing topic has
    another partition count: keys would move.
    """
    admin = AdminClient(dict(kafka))
    existing = admin.list_topics(timeout=30).topics
    wanted = {prefix + name: _new_topic(prefix, c, partitions, replication) for name, c in load_contracts().items()}
    for name, topic in wanted.items():
        if name in existing and len(existing[name].partitions) != topic.num_partitions:
            raise TopicRefused(
                f"topic {name!r} has {len(existing[name].partitions)} partitions, wanted are "
                f"{topic.num_partitions}: a change would move keys; make a new deployment with another topic prefix"
            )
    missing = [topic for name, topic in wanted.items() if name not in existing]
    if missing:
        for name, future in admin.create_topics(missing).items():
            _await_created(name, future)
        _await_metadata(admin, wanted)
    return sorted(topic.topic for topic in missing)


def _new_topic(prefix: str, contract: TopicContract, partitions: int | None, replication: int) -> NewTopic:
    count = partitions if partitions and contract.partitions > 1 else contract.partitions
    config = {
        "retention.ms": str(contract.retention_ms),
        "cleanup.policy": contract.cleanup_policy,
        "max.message.bytes": "8000000",
        "message.timestamp.type": "LogAppendTime",
    }
    return NewTopic(prefix + contract.name, num_partitions=count, replication_factor=replication, config=config)


def _await_created(name: str, future: "Future[None]") -> None:
    try:
        future.result(_WAIT_S)
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise TopicRefused(f"topic {name!r}: {reason.str()}") from error


def _await_metadata(admin: AdminClient, wanted: Mapping[str, NewTopic]) -> None:
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until:
        known = admin.list_topics(timeout=10).topics
        if all(name in known and len(known[name].partitions) == t.num_partitions for name, t in wanted.items()):
            return
        time.sleep(0.05)
    raise TopicRefused(f"the broker does not show all topics after {_WAIT_S:.0f} s: {sorted(wanted)}")
