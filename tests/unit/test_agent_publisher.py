"""The publisher's own bookkeeping, against librdkafka's mock cluster: what is deleted, in which order, what stays."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from wattledger_agent.publisher import Publisher, PublisherEnded
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import BROADCAST, WalRecord
from wattledger_schemas import partition_for

from tests.unit.agent_mock_broker import PARTITIONS, MockBroker, mock_broker
from tests.unit.agent_records import gaps, log_with, number_of, numbers, read_all, record, records


@pytest.fixture(scope="module")
def broker() -> Iterator[MockBroker]:
    with mock_broker() as found:
        yield found


def drain_until(publisher: Publisher, wal: Wal, count: int, most_s: float = 8.0) -> None:
    until = time.monotonic() + most_s
    while wal.count() > count:
        assert time.monotonic() < until, f"{wal.count()} records still wait"
        publisher.drain()


def test_every_record_reaches_the_partition_of_its_key_in_the_logs_order(tmp_path: Path, broker: MockBroker) -> None:
    wal = log_with(tmp_path / "a.wal", 1500)
    publisher = Publisher(wal, broker.kafka, in_flight=400)
    drain_until(publisher, wal, 0)
    found = broker.read("job-events")
    for partition, values in found.items():
        expected = [one for one in records(0, 1500) if partition_for(one.key, PARTITIONS) == partition]
        assert values == [one.value for one in expected]
    last = publisher.last_offset
    assert {last[("job-events", p)] for p in range(1, PARTITIONS)} == {len(found[p]) - 1 for p in range(1, PARTITIONS)}


def test_a_broadcast_record_reaches_every_partition_and_only_then_goes(tmp_path: Path, broker: MockBroker) -> None:
    wal = Wal(tmp_path / "a.wal")
    wal.append([WalRecord("price-book", "tick", b"T", BROADCAST)])
    publisher = Publisher(wal, broker.kafka)
    drain_until(publisher, wal, 0)
    assert broker.read("price-book") == {partition: [b"T"] for partition in range(PARTITIONS)}


def test_a_record_too_large_for_the_producer_is_set_aside_and_the_rest_goes_on(
    tmp_path: Path, broker: MockBroker
) -> None:
    wal = Wal(tmp_path / "a.wal")
    wal.append([record(1, "gpu-samples"), record(2, "gpu-samples", 9_000_000), record(3, "gpu-samples")])
    publisher = Publisher(wal, broker.kafka)
    drain_until(publisher, wal, 1)
    [gap] = gaps(read_all(wal))
    assert (gap["count"], gap["reason"], gap["from_us"]) == (1, "refused_by_broker", 2_000_000)
    drain_until(publisher, wal, 0)
    values = [value for partition in broker.read("gpu-samples").values() for value in partition]
    assert sorted(values) == sorted([record(1).value, record(3).value])


def test_a_topic_that_is_not_there_is_waited_for_and_not_made(tmp_path: Path, broker: MockBroker) -> None:
    wal = Wal(tmp_path / "a.wal")
    wal.append([record(1, "no-such-topic")])
    publisher = Publisher(wal, broker.kafka)
    for _ in range(3):
        assert publisher.drain(0.01) == 0
    assert numbers(read_all(wal)) == [1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_of_the_thread_is_raised_and_never_taken_for_delivery(tmp_path: Path, broker: MockBroker) -> None:
    wal = log_with(tmp_path / "a.wal", 3)
    publisher = Publisher(wal, broker.kafka)
    publisher._link._partitions["job-events"] = 0
    publisher.start()
    with pytest.raises(PublisherEnded, match="ZeroDivisionError"):
        publisher.stop(empty=True)
    assert [number_of(kept.record) for kept in read_all(wal)] == [0, 1, 2]
