"""Which broker is chosen, what is said when it can't be had, and what Apache Kafka keeps over a kill."""

import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from wattledger_audit.broker import Broker, NoBroker, choose_broker, has_kafka_jars, start_kafka, start_tansu
from wattledger_streams.topics import create_topics

from tests.plugins_broker import LIBS, VARIABLE

INSISTED = os.environ.get(VARIABLE) == "kafka"
needs_kafka = pytest.mark.skipif(
    not INSISTED and not has_kafka_jars(LIBS), reason="Apache Kafka's jars are not there: `make jars` needs Java, Maven"
)
RECORDS = 300


def produce(broker: Broker, topic: str, values: range) -> None:
    """Every value is acknowledged when this returns."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(topic, str(value).encode(), partition=0)
    assert producer.flush(30) == 0


def open_consumer(broker: Broker) -> Consumer:
    config = {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False}
    return Consumer({**config, "auto.offset.reset": "earliest", "log_level": 0})


def read(broker: Broker, topic: str, count: int) -> list[int]:
    """The first `count` values of partition 0, from its start."""
    consumer = open_consumer(broker)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    for _ in range(30):
        found += [int(m.value() or b"") for m in consumer.consume(count, timeout=1) if m.error() is None]
        if len(found) >= count:
            break
    consumer.close()
    return found


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own-kafka")


@pytest.fixture(scope="module")
def own_kafka(work_dir: Path) -> Iterator[Broker]:
    """A Kafka of this file's own: it is killed here."""
    found = start_kafka(work_dir, LIBS)
    create_topics({"bootstrap.servers": found.bootstrap}, partitions=1)
    yield found
    found.stop()


@needs_kafka
@pytest.mark.kafka
def test_kafka_is_the_one_of_the_pom(own_kafka: Broker) -> None:
    pom = (LIBS.parents[2] / "infra" / "kafka" / "pom.xml").read_text()
    version = own_kafka.kind.split()[2]
    assert own_kafka.kind == f"Apache Kafka {version} (KRaft, from its jars)"
    assert f"<version>{version}</version>" in pom


@needs_kafka
@pytest.mark.kafka
def test_kafka_listens_on_loopback_only(own_kafka: Broker) -> None:
    [pid] = own_kafka.pids
    listening = [c.laddr.ip for c in psutil.Process(pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert len(listening) == 2
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


@needs_kafka
@pytest.mark.kafka
def test_kafka_makes_no_topic_by_itself(own_kafka: Broker) -> None:
    failed: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": own_kafka.bootstrap, "message.timeout.ms": 4000, "log_level": 0})
    producer.produce("never-made", b"lost", on_delivery=lambda error, _: failed.append(error))
    producer.flush(20)
    assert len(failed) == 1
    assert failed[0] is not None
    assert "never-made" not in AdminClient({"bootstrap.servers": own_kafka.bootstrap}).list_topics(timeout=20).topics


@needs_kafka
@pytest.mark.kafka
def test_kafka_keeps_records_and_committed_offsets_over_a_kill_and_a_new_start(
    own_kafka: Broker, work_dir: Path
) -> None:
    produce(own_kafka, "job-events", range(RECORDS))
    consumer = open_consumer(own_kafka)
    consumer.commit(offsets=[TopicPartition("job-events", 0, 123)], asynchronous=False)
    consumer.close()
    before = own_kafka.bootstrap
    own_kafka.kill()
    own_kafka.restart()
    assert own_kafka.bootstrap == before
    produce(own_kafka, "job-events", range(RECORDS, RECORDS + 10))
    own_kafka.stop()
    again = start_kafka(work_dir, LIBS)
    try:
        assert read(again, "job-events", RECORDS + 10) == list(range(RECORDS + 10))
        consumer = open_consumer(again)
        [committed] = consumer.committed([TopicPartition("job-events", 0)], timeout=30)
        consumer.close()
        assert committed.offset == 123
    finally:
        again.stop()


def test_kafka_without_jars_says_what_to_do_and_does_not_fall_back(tmp_path: Path) -> None:
    with pytest.raises(NoBroker, match=r"(not in .*empty|no `java`).*`make setup`"):
        choose_broker("kafka", tmp_path, tmp_path / "empty")


def test_jars_of_two_versions_are_refused(tmp_path: Path) -> None:
    for version in ("4.3.0", "4.3.1"):
        (tmp_path / f"kafka_2.13-{version}.jar").touch()
    with pytest.raises(NoBroker, match=r"4\.3\.0.*4\.3\.1|no `java`"):
        start_kafka(tmp_path, tmp_path)


def test_an_unknown_broker_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NoBroker, match="'rabbit' is not known: say auto, kafka, docker, tansu or host:port"):
        choose_broker("rabbit", tmp_path, tmp_path)


def test_tansu_says_what_a_run_on_it_does_not_show(tmp_path: Path) -> None:
    broker = start_tansu(tmp_path)
    try:
        assert not broker.reliable_offsets
        assert not broker.durable
        for untested in ("durability over a broker restart", "end offsets"):
            assert untested in broker.line
        [pid] = broker.pids
        listening = [c.laddr.ip for c in psutil.Process(pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
        assert set(listening) == {"127.0.0.1"}
    finally:
        broker.stop()
    assert broker.pids == []


def test_a_broker_that_is_not_ours_is_reached_but_never_killed(tmp_path: Path) -> None:
    ours = start_tansu(tmp_path)
    try:
        named = choose_broker(ours.bootstrap, tmp_path, tmp_path)
        with pytest.raises(NoBroker, match="not a process of ours"):
            named.kill()
        named.stop()
        assert ours.pids
    finally:
        ours.stop()
