"""Playing and publishing: pace, lead, order; only delivery reports empty the log (librdkafka's mock cluster)."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from wattledger_agent.clock import ManualClock, SystemClock
from wattledger_agent.player import Pace, Player
from wattledger_agent.publisher import Publisher
from wattledger_agent.ticker import TickRule, next_tick, tick_records
from wattledger_agent.trace import TraceItem, TraceRefused, read_trace, write_trace
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import BROADCAST, WalRecord

S = 1_000_000


@pytest.fixture
def mock_cluster() -> str:
    """Address of a mock cluster; its producer must outlive the test, so it hangs on the function."""
    producer = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1})
    mock_cluster_keepers.append(producer)
    [address] = producer.list_topics(timeout=10).brokers.values()
    return f"{address.host}:{address.port}"


mock_cluster_keepers: list[Producer] = []


def read(address: str, topic: str, partitions: int) -> dict[int, list[bytes]]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "t", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    found: dict[int, list[bytes]] = {p: [] for p in range(partitions)}
    ended = 0
    while ended < partitions:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            ended += 1
        else:
            found[message.partition() or 0].append(message.value() or b"")
    consumer.close()
    return found


def test_records_arrive_in_order_and_the_log_is_empty_afterwards(tmp_path: Path, mock_cluster: str) -> None:
    wal = Wal(tmp_path / "wal")
    wal.append([WalRecord("job-events", "same-key", b"%d" % i) for i in range(300)])
    wal.append([WalRecord("job-events", "tick", b"tick", BROADCAST)])
    publisher = Publisher(wal, {"bootstrap.servers": mock_cluster})
    publisher.start()
    publisher.stop(empty=True)
    assert wal.count() == 0
    found = read(mock_cluster, "job-events", 4)
    assert all(b"tick" in values for values in found.values()), "a broadcast reaches every partition"
    [values] = [values for values in found.values() if len(values) > 1]
    assert [value for value in values if value != b"tick"] == [b"%d" % i for i in range(300)]
    assert len(publisher.last_offset) == 4


def test_with_no_broker_nothing_is_deleted(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal")
    wal.append([WalRecord("job-events", "k", b"v", partition=0)])
    publisher = Publisher(wal, {"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": 300})
    publisher._partitions["job-events"] = 4
    for _ in range(3):
        publisher.drain(0.05)
    assert wal.count() == 1


class Stub(Publisher):
    """A publisher that counts as delivered at once: the pace is what these tests are about."""

    def __init__(self) -> None:
        self.last_offset = {}

    def stop(self, empty: bool = True) -> None:
        """Nothing to stop."""


def test_real_time_waits_between_items_and_acceleration_waits_less(tmp_path: Path) -> None:
    items = [TraceItem(i * 10 * S, "job-events", "k", b"v") for i in range(4)]
    for speed, expected_us in ((1.0, 30 * S), (10.0, 3 * S), (None, 0)):
        clock = ManualClock()
        played = Player(Wal(tmp_path / f"wal{speed}"), Stub(), clock, Pace(speed)).play(items)
        assert (clock.now_us, played.records) == (expected_us, 4)


def test_the_player_never_runs_further_ahead_than_its_lead(tmp_path: Path) -> None:
    clock, confirmed = ManualClock(), [0]
    seen: list[int] = []

    class Slow(ManualClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            confirmed[0] += 5 * S

    clock = Slow()
    wal = Wal(tmp_path / "wal")
    items = [TraceItem(i * 10 * S, "job-events", "k", b"v") for i in range(10)]

    def watched() -> int:
        seen.append(len(wal.pending(0, 100)))
        return confirmed[0]

    Player(wal, Stub(), clock, Pace(None, watched, 20 * S)).play(items)
    assert wal.count() == 10
    assert confirmed[0] >= 70 * S, "the last item had to wait for 70 s to be confirmed"


def test_a_trace_file_comes_back_and_a_bad_line_is_named(tmp_path: Path) -> None:
    items = [TraceItem(1, "gpu-samples", "n", b"\0\xff"), TraceItem(2, "job-events", "tick", b"t", True)]
    path = tmp_path / "trace.jsonl"
    assert write_trace(path, items) == 2
    assert list(read_trace(path)) == items
    path.write_text(path.read_text() + '{"at_us": 3}\n')
    with pytest.raises(TraceRefused, match=r"trace.jsonl, line 3"):
        list(read_trace(path))


@pytest.mark.parametrize(
    ("watermarks", "tick", "stale"),
    [
        ({}, 1000 * S, ()),
        ({"a": 990 * S, "b": 980 * S}, 980 * S, ()),
        ({"a": 990 * S, "b": 100 * S}, 990 * S, ("b",)),
        ({"a": 1010 * S}, 1000 * S, ()),
    ],
)
def test_a_tick_waits_for_live_sources_and_names_the_stale(
    watermarks: dict[str, int], tick: int, stale: tuple[str, ...]
) -> None:
    assert next_tick(watermarks, 1000 * S, TickRule()) == (tick, stale)


def test_a_tick_goes_to_every_partition_of_both_topics() -> None:
    records = tick_records(5, ("a",), lambda at_us, stale: f"{at_us}{stale}".encode())
    assert [(r.topic, r.partition) for r in records] == [("job-events", BROADCAST), ("price-book", BROADCAST)]


def test_the_system_clock_moves() -> None:
    clock = SystemClock()
    first = clock.monotonic_s()
    clock.sleep(0.001)
    assert clock.monotonic_s() > first
