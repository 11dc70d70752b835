"""The agent on a broker that wants to know who it is: right, wrong, and mended while the agent runs."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from prometheus_client import REGISTRY
from structlog.testing import capture_logs
from wattledger_agent.broker_link import Config
from wattledger_agent.publisher import Publisher
from wattledger_agent.wal import Wal
from wattledger_audit.broker import has_kafka_jars
from wattledger_streams.topics import create_topics

from tests.agent_secure_kafka import SecureKafka, secure_kafka
from tests.plugins_broker import LIBS
from tests.unit.agent_records import log_with, number_of, numbers, read_all, record

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not has_kafka_jars(LIBS), reason="needs Java and Apache Kafka's jars (`make setup`)"),
]
COUNT = 200


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with secure_kafka(tmp_path_factory.mktemp("secure"), LIBS) as found:
        yield found


@pytest.fixture
def prefix(kafka: SecureKafka, topic_prefix: str) -> str:
    create_topics({"bootstrap.servers": kafka.plain}, topic_prefix, partitions=1)
    return topic_prefix


def delivered(kafka: SecureKafka, prefix: str) -> list[int]:
    """Numbers of the records in the topic, in order."""
    consumer = Consumer({"bootstrap.servers": kafka.plain, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(f"{prefix}job-events", 0, 0)])
    found = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        found.append(int((message.value() or b"").split(b";")[0]))
    consumer.close()
    return found


def metric(reason: str) -> float:
    return REGISTRY.get_sample_value("wattledger_agent_broker_trouble", {"reason": reason}) or 0.0


def wait_for(what: Callable[[], bool], most_s: float = 20.0) -> None:
    until_s = time.monotonic() + most_s
    while not what():
        assert time.monotonic() < until_s
        time.sleep(0.02)


@pytest.mark.parametrize("how", ["SCRAM-SHA-512", "PLAIN", "mutual TLS"])
def test_records_go_over_a_connection_that_is_protected(
    tmp_path: Path, kafka: SecureKafka, prefix: str, how: str
) -> None:
    wal = log_with(tmp_path / "a.wal", COUNT)
    config = kafka.mtls_config() if how == "mutual TLS" else kafka.sasl_config(how, "right")
    publisher = Publisher(wal, config, prefix)
    publisher.start()
    publisher.stop()
    assert delivered(kafka, prefix) == list(range(COUNT))


def refused_then_mended(
    wal: Wal, kafka: SecureKafka, prefix: str, config: Callable[[], Config], reason: str, mend: Callable[[], object]
) -> None:
    """Nothing is lost while refused, metric and log say why, and once mended all arrives once and in order."""
    with capture_logs() as logs:
        publisher = Publisher(wal, config, prefix, renew_after_s=1.0)
        publisher.start()
        wait_for(lambda: publisher.trouble == reason)
        wal.append([record(COUNT)])
        time.sleep(0.5)
        assert metric(reason) == 1
        assert numbers(read_all(wal)) == list(range(COUNT + 1))
        mend()
        assert publisher.wait_empty(30)
        publisher.stop()
    assert (publisher.trouble, metric(reason)) == ("", 0)
    told = [entry for entry in logs if entry["event"] == "broker_trouble" and entry["reason"] == reason]
    assert 1 <= len(told) <= 3 and told[0]["hint"] and told[0]["error"]
    assert "right" not in str(logs) and "wrong" not in str(logs), "a password is in the log"
    assert delivered(kafka, prefix) == list(range(COUNT + 1))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_wrong_password_keeps_the_data_until_the_file_has_the_right_one(
    tmp_path: Path, kafka: SecureKafka, prefix: str, mechanism: str
) -> None:
    (tmp_path / "password").write_text("wrong")
    refused_then_mended(
        log_with(tmp_path / "a.wal", COUNT), kafka, prefix,
        lambda: kafka.sasl_config(mechanism, (tmp_path / "password").read_text()), "authentication",
        lambda: (tmp_path / "password").write_text("right"),
    )  # fmt: skip


def test_a_password_that_the_broker_learns_later_needs_nothing_of_the_agent(
    tmp_path: Path, kafka: SecureKafka, prefix: str
) -> None:
    try:
        refused_then_mended(
            log_with(tmp_path / "a.wal", COUNT), kafka, prefix,
            lambda: kafka.sasl_config("SCRAM-SHA-512", "changed"), "authentication",
            lambda: kafka.set_password("agent", "changed"),
        )  # fmt: skip
    finally:
        kafka.set_password("agent", "right")


def test_a_wrong_certificate_authority_keeps_the_data_until_the_file_is_mended(
    tmp_path: Path, kafka: SecureKafka, prefix: str
) -> None:
    ca = tmp_path / "ca.pem"
    shutil.copy(kafka.folder / "other_ca.pem", ca)
    refused_then_mended(
        log_with(tmp_path / "a.wal", COUNT), kafka, prefix,
        lambda: {**kafka.sasl_config("PLAIN", "right"), "ssl.ca.location": str(ca)}, "tls",
        lambda: shutil.copy(kafka.folder / "ca.pem", ca),
    )  # fmt: skip


def test_without_a_certificate_of_its_own_the_agent_keeps_the_data_until_it_has_one(
    tmp_path: Path, kafka: SecureKafka, prefix: str
) -> None:
    certificates = ["", "client.pem"]
    refused_then_mended(
        log_with(tmp_path / "a.wal", COUNT), kafka, prefix, lambda: kafka.mtls_config(certificates[0]), "tls",
        lambda: certificates.pop(0),
    )  # fmt: skip


def test_a_password_changed_while_connected_loses_and_repeats_nothing(
    tmp_path: Path, kafka: SecureKafka, prefix: str
) -> None:
    wal = log_with(tmp_path / "a.wal", COUNT)
    publisher = Publisher(wal, kafka.sasl_config("SCRAM-SHA-512", "right"), prefix)
    publisher.start()
    assert publisher.wait_empty(20)
    kafka.set_password("agent", "another")
    try:
        wal.append([record(COUNT)])
        assert publisher.wait_empty(20)
    finally:
        kafka.set_password("agent", "right")
        publisher.stop()
    assert sorted(number_of(record(number)) for number in delivered(kafka, prefix)) == list(range(COUNT + 1))
