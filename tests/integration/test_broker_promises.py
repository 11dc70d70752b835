"""What every broker that the project runs on must do, whichever this run uses."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from wattledger_audit.broker import Broker
from wattledger_schemas import load_contracts
from wattledger_streams.topics import TopicRefused, create_topics

pytestmark = pytest.mark.kafka
RECORDS = 200


@pytest.fixture
def kafka(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap}


@pytest.fixture
def consumer(kafka: dict[str, str], topic_prefix: str) -> Iterator[Consumer]:
    config = {**kafka, "group.id": f"{topic_prefix}group", "auto.offset.reset": "earliest", "session.timeout.ms": 6000}
    found = Consumer(config)
    yield found
    found.close()


def partitions_of(kafka: dict[str, str], prefix: str) -> dict[str, int]:
    topics = AdminClient(dict(kafka)).list_topics(timeout=30).topics
    return {name.removeprefix(prefix): len(t.partitions) for name, t in topics.items() if name.startswith(prefix)}


def test_topics_are_the_contracts_and_a_second_run_makes_nothing(kafka: dict[str, str], topic_prefix: str) -> None:
    made = create_topics(kafka, topic_prefix)
    wanted = {name: contract.partitions for name, contract in load_contracts().items()}
    assert made == sorted(topic_prefix + name for name in wanted)
    assert partitions_of(kafka, topic_prefix) == wanted
    assert create_topics(kafka, topic_prefix) == []


def test_an_override_leaves_topics_of_one_partition_alone(kafka: dict[str, str], topic_prefix: str) -> None:
    create_topics(kafka, topic_prefix, partitions=2)
    found = partitions_of(kafka, topic_prefix)
    assert found["price-book"] == 1
    assert {count for name, count in found.items() if load_contracts()[name].partitions > 1} == {2}


def test_another_partition_count_is_refused_and_the_topic_named(kafka: dict[str, str], topic_prefix: str) -> None:
    create_topics(kafka, topic_prefix, partitions=2)
    with pytest.raises(TopicRefused, match=r"topic '\S+' has 2 partitions, wanted are 3"):
        create_topics(kafka, topic_prefix, partitions=3)
    assert 3 not in partitions_of(kafka, topic_prefix).values()


def test_a_group_reads_each_partition_whole_and_in_order(
    kafka: dict[str, str], topic_prefix: str, consumer: Consumer
) -> None:
    create_topics(kafka, topic_prefix, partitions=2)
    topic = topic_prefix + "job-events"
    producer = Producer({**kafka, "acks": "all", "enable.idempotence": True, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0
    consumer.subscribe([topic])
    read: dict[int, list[int]] = {0: [], 1: []}
    for _ in range(60):
        for message in consumer.consume(RECORDS, timeout=1):
            assert message.error() is None
            read[message.partition() or 0].append(int(message.value() or b""))
        if sum(map(len, read.values())) >= RECORDS:
            break
    assert read == {0: list(range(0, RECORDS, 2)), 1: list(range(1, RECORDS, 2))}
