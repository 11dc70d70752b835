"""What a group's members were given, seen from outside: a group can rest with nobody owning what there is."""

import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from wattledger_audit.broker import Broker
from wattledger_streams.group_view import GroupView
from wattledger_streams.topics import create_topics

pytestmark = pytest.mark.kafka
PLACES = {("gpu-samples", 0), ("gpu-samples", 1)}


def test_what_no_member_was_given_is_unassigned(broker: Broker, topic_prefix: str) -> None:
    prefix = f"view-{topic_prefix}"
    kafka = {"bootstrap.servers": broker.bootstrap}
    create_topics(kafka, prefix, 2)
    places = {(prefix + topic, partition) for topic, partition in PLACES}
    view = GroupView(kafka, f"{prefix}group")
    member = Consumer({**kafka, "group.id": f"{prefix}group", "auto.offset.reset": "earliest"})
    try:
        assert view.unassigned(places) == places, "a group without members"
        member.subscribe([f"{prefix}gpu-samples"])
        until = time.monotonic() + 60
        while len(member.assignment()) < 2:
            assert time.monotonic() < until, "the member was never given its partitions"
            member.poll(0.1)
        assert view.unassigned(places) == set()
        assert view.unassigned({*places, (f"{prefix}job-events", 0)}) == {(f"{prefix}job-events", 0)}
    finally:
        member.close()
        view.close()


def test_a_position_of_a_group_is_seen_from_outside(broker: Broker, topic_prefix: str) -> None:
    prefix = f"place-{topic_prefix}"
    kafka = {"bootstrap.servers": broker.bootstrap}
    create_topics(kafka, prefix, 1)
    place = (f"{prefix}price-book", 0)
    view = GroupView(kafka, f"{prefix}group")
    assert view.place(place) == (0, "")
    consumer = Consumer({**kafka, "group.id": f"{prefix}group"})
    consumer.commit(offsets=[TopicPartition(*place, 17, "said")], asynchronous=False)
    consumer.close()
    assert view.place(place) == (17, "said")
    view.close()
