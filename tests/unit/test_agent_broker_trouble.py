"""What keeps records from the broker: the word that says most, told once, over when a record was confirmed."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from prometheus_client import REGISTRY
from wattledger_agent.broker_trouble import BrokerTrouble, reason_of
from wattledger_agent.publisher import Publisher

from tests.unit.agent_mock_broker import mock_broker
from tests.unit.agent_records import log_with, numbers, read_all

CASES = [
    (KafkaError._AUTHENTICATION, "authentication"),
    (KafkaError.SASL_AUTHENTICATION_FAILED, "authentication"),
    (KafkaError._SSL, "tls"),
    (KafkaError._ALL_BROKERS_DOWN, "unreachable"),
    (KafkaError._RESOLVE, "name_resolution"),
    (KafkaError.TOPIC_AUTHORIZATION_FAILED, "authorization"),
    (KafkaError.UNKNOWN_TOPIC_OR_PART, "no_topic"),
    (KafkaError.NOT_ENOUGH_REPLICAS, "other"),
]


def metric(reason: str) -> float:
    return REGISTRY.get_sample_value("wattledger_agent_broker_trouble", {"reason": reason}) or 0.0


@pytest.mark.parametrize(("code", "reason"), CASES)
def test_reasons(code: int, reason: str) -> None:
    assert reason_of(code) == reason


def test_a_certificate_refused_after_the_handshake_is_told_as_such() -> None:
    said = "Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL alert number 42"
    assert reason_of(KafkaError._TRANSPORT, said) == "tls"


def test_the_word_that_says_most_stays_until_it_is_not_seen_any_more() -> None:
    trouble = BrokerTrouble()
    told = []
    for at_s, code in (
        (0, KafkaError._TRANSPORT), (1, KafkaError._AUTHENTICATION), (2, KafkaError._ALL_BROKERS_DOWN),
        (25, KafkaError._AUTHENTICATION), (50, KafkaError._ALL_BROKERS_DOWN), (60, KafkaError._ALL_BROKERS_DOWN),
    ):  # fmt: skip
        trouble.note(KafkaError(code), at_s)
        told.append((trouble.reason, trouble.since_s))
    assert told == [
        ("unreachable", 0), ("authentication", 1), ("authentication", 1),
        ("authentication", 1), ("authentication", 1), ("unreachable", 60),
    ]  # fmt: skip
    assert (metric("authentication"), metric("unreachable")) == (0, 1)
    trouble.over()
    assert (trouble.reason, metric("unreachable")) == ("", 0)


def test_a_certificate_that_is_not_there_keeps_the_data_and_is_used_once_it_is(tmp_path: Path) -> None:
    """The broker speaks no TLS: what shows is that the configuration is asked for, and read, again."""
    wal = log_with(tmp_path / "a.wal", 5)
    with mock_broker() as broker:
        configs = [
            {**broker.kafka, "security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "ca.pem")},
            broker.kafka,
        ]
        publisher = Publisher(wal, lambda: configs[0])
        for _ in range(3):
            publisher.drain(0.01)
        assert (publisher.trouble, metric("configuration")) == ("configuration", 1)
        assert numbers(read_all(wal)) == [0, 1, 2, 3, 4]
        configs.pop(0)
        publisher.start()
        publisher.stop()
        assert (publisher.trouble, wal.count()) == ("", 0)


def test_a_password_file_that_can_not_be_read_is_told_and_tried_again(tmp_path: Path) -> None:
    wal = log_with(tmp_path / "a.wal", 3)
    with mock_broker() as broker:

        def config() -> dict[str, str]:
            (tmp_path / "password").read_text()
            return broker.kafka

        publisher = Publisher(wal, config)
        publisher.drain(0.01)
        assert publisher.trouble == "configuration"
        (tmp_path / "password").write_text("x")
        publisher.start()
        publisher.stop()
    assert wal.count() == 0
