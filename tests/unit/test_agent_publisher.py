"""What the publisher may delete: only what every partition that it goes to has, whatever order reports come in."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from wattledger_agent.clock import ManualClock
from wattledger_agent.player import Pace, Player
from wattledger_agent.publisher import Publisher
from wattledger_agent.trace import TraceItem
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import BROADCAST, WalRecord
from wattledger_schemas import Codec, partition_for

Report = Callable[[KafkaError | None, Message], None]


class HeldProducer:
    """A producer that delivers what the test says, when it says so."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.sent: list[tuple[int, bytes, Report]] = []

    def list_topics(self, topic: str, timeout: float) -> Any:
        found = SimpleNamespace(error=None, partitions=dict.fromkeys(range(self.partitions)))
        return SimpleNamespace(topics={topic: found})

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, on_delivery: Report) -> None:
        self.sent.append((partition, value, on_delivery))

    def poll(self, wait_s: float) -> int:
        return 0

    def report(self, place: int, *, failed: bool = False) -> None:
        """Report the record sent in this place: delivered, or failed."""
        partition, _, on_delivery = self.sent[place]
        message: Any = SimpleNamespace(partition=lambda: partition, offset=lambda: place)
        on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT) if failed else None, message)


def held(wal: Wal, partitions: int = 2) -> tuple[Publisher, HeldProducer]:
    publisher = Publisher(wal, {"bootstrap.servers": "127.0.0.1:1"})
    producer = HeldProducer(partitions)
    publisher._producer = producer  # type: ignore[assignment]
    return publisher, producer


def test_a_record_is_deleted_on_its_report_and_not_before(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal")
    wal.append([WalRecord("job-events", f"k{i}", b"v") for i in range(3)])
    publisher, producer = held(wal)
    assert publisher.drain(0) == 3
    assert wal.count() == 3
    producer.report(1)
    publisher.drain(0)
    assert [kept.record.key for kept in wal.pending(0, 9)] == ["k0", "k2"]
    assert len(producer.sent) == 3, "what is under way is not sent again"


def test_the_partition_is_ours_not_the_clients(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal")
    keys = [f"node-{i}" for i in range(20)]
    wal.append([WalRecord("gpu-samples", key, key.encode()) for key in keys])
    publisher, producer = held(wal, partitions=4)
    publisher.drain(0)
    assert [place for place, _, _ in producer.sent] == [partition_for(key, 4) for key in keys]


def test_never_more_than_the_bound_is_under_way(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal")
    wal.append([WalRecord("job-events", "k", b"%d" % i) for i in range(10)])
    publisher, producer = held(wal)
    publisher._most = 4
    publisher.drain(0)
    publisher.drain(0)
    assert [value for _, value, _ in producer.sent] == [b"0", b"1", b"2", b"3"]
    producer.report(0)
    publisher.drain(0)
    publisher.drain(0)
    assert producer.sent[-1][1] == b"4"


def test_after_a_failure_everything_undelivered_is_sent_again_in_order(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal")
    wal.append([WalRecord("job-events", "k", b"%d" % i) for i in range(4)])
    publisher, producer = held(wal)
    publisher.drain(0)
    producer.report(0)
    for place in (1, 2, 3):
        producer.report(place, failed=True)
    publisher.drain(0)
    publisher.drain(0)
    assert [value for _, value, _ in producer.sent[4:]] == [b"1", b"2", b"3"]


def test_a_broadcast_is_deleted_when_every_partition_has_it(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal")
    wal.append([WalRecord("job-events", "tick", b"t", BROADCAST)])
    publisher, producer = held(wal, partitions=3)
    publisher.drain(0)
    assert [place for place, _, _ in producer.sent] == [0, 1, 2]
    for place, left in ((2, 1), (0, 1), (1, 0)):
        producer.report(place)
        publisher.drain(0)
        assert wal.count() == left


def test_reports_of_an_older_try_do_not_stand_for_a_partition_that_has_nothing(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal")
    wal.append([WalRecord("job-events", "tick", b"t", BROADCAST)])
    publisher, producer = held(wal)
    publisher.drain(0)
    producer.report(0, failed=True)
    for _ in range(3):
        publisher.drain(0)
    assert len(producer.sent) == 2, "partition 1 is still under way: nothing is sent again yet"
    producer.report(1)
    for _ in range(3):
        publisher.drain(0)
    assert len(producer.sent) == 4
    producer.report(3)
    publisher.drain(0)
    assert wal.count() == 1, "partition 0 still has nothing"
    producer.report(2)
    publisher.drain(0)
    assert wal.count() == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_publisher_that_ended_with_records_left_does_not_say_that_all_is_delivered(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal")
    cluster = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1})
    [address] = cluster.list_topics(timeout=10).brokers.values()
    wal.append([WalRecord("job-events", "k", b"no such partition", partition=99), WalRecord("job-events", "k", b"v")])
    publisher = Publisher(wal, {"bootstrap.servers": f"{address.host}:{address.port}"})
    publisher.start()
    with pytest.raises(RuntimeError, match=r"2 records are still in .*wal: .*_UNKNOWN_PARTITION"):
        publisher.stop(empty=True)


class Quiet(Publisher):
    """A publisher that sends nothing: what the player wrote stays in the log to be looked at."""

    def __init__(self) -> None:
        self.last_offset = {}

    def stop(self, empty: bool = True) -> None:
        """Nothing to stop."""


def test_what_the_player_had_to_drop_is_in_the_log_as_gap_records(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal", cap_bytes=1500)

    class Slow(ManualClock):
        def monotonic_s(self) -> float:
            self.now_us += 300_000
            return super().monotonic_s()

    items = [TraceItem(i, "job-events", f"k{i}", bytes(200)) for i in range(12)]
    Player(wal, Quiet(), Slow(), Pace(None), agent="a7").play(items)
    kept = [entry.record for entry in wal.pending(0, 1000)]
    gaps = [Codec().decode(record.value).record for record in kept if record.topic == "dead-letters"]
    assert {(gap["node"], gap["agent"], gap["topic"], gap["reason"]) for gap in gaps} == {
        ("a7", "a7", "job-events", "cap")
    }
    left = [record.key for record in kept if record.topic == "job-events"]
    missing = [f"k{i}" for gap in gaps for i in range(gap["from_us"], gap["to_us"] + 1)]
    assert sorted(missing + left) == sorted(item.key for item in items), "each is left or told as missing, once"
    assert sum(gap["count"] for gap in gaps) == len(missing) > 0
