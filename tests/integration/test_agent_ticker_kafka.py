"""The ticker against a real broker: what nodes report, two tickers at once, restarts, silence while it is blind."""

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from wattledger_agent.clock import ManualClock, SystemClock
from wattledger_agent.publisher import Publisher
from wattledger_agent.ticker import Sight, TickRule, WatermarksUnavailable
from wattledger_agent.ticker_process import run_ticker
from wattledger_agent.ticker_watermarks import KafkaWatermarks
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import WalRecord
from wattledger_audit.broker import Broker
from wattledger_core.event import Tick
from wattledger_core.revision import Mark
from wattledger_core.session import SessionFold
from wattledger_schemas import Codec
from wattledger_streams.mapping import from_wire_tick
from wattledger_streams.topics import create_topics

from tests.unit.agent_bare_batches import S, batch_record
from tests.unit.agent_mock_broker import mock_broker

pytestmark = pytest.mark.kafka
CODEC = Codec()
PARTITIONS = 2


@pytest.fixture
def kafka(broker: Broker, topic_prefix: str) -> dict[str, str]:
    found = {"bootstrap.servers": broker.bootstrap}
    create_topics(found, topic_prefix, partitions=PARTITIONS)
    return found


class Agents:
    """Publishes what agents would; one log for all of them."""

    def __init__(self, folder: Path, kafka: dict[str, str], prefix: str) -> None:
        self._wal = Wal(folder / "agents.wal")
        self._publisher = Publisher(self._wal, kafka, prefix)
        self._publisher.start()

    def send(self, *records: WalRecord) -> None:
        self._wal.append(records)
        assert self._publisher.wait_empty(20)

    def stop(self) -> None:
        self._publisher.stop()
        self._wal.close()


def look(watermarks: KafkaWatermarks) -> Sight:
    """As the ticker does: a broker that does not answer now is asked again."""
    until_s = time.monotonic() + 15
    while True:
        try:
            return watermarks()
        except WatermarksUnavailable:
            assert time.monotonic() < until_s


def left(node: str, at_us: int) -> WalRecord:
    event = {
        "event_id": f"{node}-left", "kind": "out_of_service", "at_us": at_us, "node": node, "cluster": "", "site": "",
        "devices": [], "cpus": None, "memory_bytes": None, "state": "", "reason": "", "reservation_id": "",
        "tenant": "", "reserved_devices": [], "start_us": None, "end_us": None, "source": "test",
    }  # fmt: skip
    return WalRecord("job-events", node, CODEC.encode("node_event", event), at_us=at_us)


def ticks_by_partition(kafka: dict[str, str], topic: str, partitions: int) -> list[list[Tick]]:
    """All ticks of a topic, in the order of each partition."""
    consumer = Consumer({**kafka, "group.id": "reader", "enable.partition.eof": True, "log_level": 0})
    found = []
    for partition in range(partitions):
        consumer.assign([TopicPartition(topic, partition, 0)])
        ticks: list[Tick] = []
        while (message := consumer.poll(10)) is not None and message.error() is None:
            decoded = CODEC.decode(message.value() or b"")
            if decoded.subject == "tick":
                ticks.append(from_wire_tick(decoded.record))
        found.append(ticks)
    consumer.close()
    return found


def test_watermarks_are_the_ends_of_the_newest_batches_of_nodes_in_service(
    tmp_path: Path, kafka: dict[str, str], topic_prefix: str
) -> None:
    agents = Agents(tmp_path, kafka, topic_prefix)
    clock = ManualClock(SystemClock().wall_us())
    watermarks = KafkaWatermarks(kafka, topic_prefix, clock)
    now_us = clock.now_us
    assert look(watermarks) == Sight({}, now_us)
    agents.send(*(batch_record(n, now_us + n * S, now_us + (n + 1) * S, node=f"n{n % 3}") for n in range(6)))
    clock.now_us += S
    assert look(watermarks) == Sight({"n0": now_us + 4 * S, "n1": now_us + 5 * S, "n2": now_us + 6 * S}, now_us)
    agents.send(left("n1", now_us + 5 * S), WalRecord("gpu-samples", "n0", b"no record"))
    assert set(look(watermarks).marks) == {"n0", "n2"}
    agents.send(batch_record(9, now_us + 5 * S, now_us + 9 * S, node="n1"))
    assert look(watermarks).marks["n1"] == now_us + 9 * S
    agents.stop()
    watermarks.close()
    again = KafkaWatermarks(kafka, topic_prefix, clock)
    assert look(again).marks == {"n0": now_us + 4 * S, "n1": now_us + 9 * S, "n2": now_us + 6 * S}
    again.close()
    clock.now_us += 7200 * S
    later = KafkaWatermarks(kafka, topic_prefix, clock)
    assert look(later).marks == {}, "what is older than it looks back to is not waited for"
    later.close()


def run_beside(folder: Path, kafka: dict[str, str], prefix: str, stop: threading.Event) -> threading.Thread:
    def work() -> None:
        wal = Wal(folder / "ticker.wal")
        run_ticker(wal, kafka, prefix, SystemClock(), stop, TickRule(stale_after_us=2 * S), period_s=0.1)
        wal.close()

    folder.mkdir(exist_ok=True)
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_two_tickers_and_restarts_of_both_never_move_time_back_and_hold_it_for_a_slow_node(
    tmp_path: Path, kafka: dict[str, str], topic_prefix: str
) -> None:
    clock = SystemClock()
    agents = Agents(tmp_path, kafka, topic_prefix)
    held_us = clock.wall_us() - S
    # before the tickers begin: a node that they have not seen is not waited for
    agents.send(batch_record(0, held_us - S, held_us, node="slow"))
    stops = {name: threading.Event() for name in ("a", "b")}
    threads = {name: run_beside(tmp_path / name, kafka, topic_prefix, stop) for name, stop in stops.items()}
    for number in range(12):
        now_us = clock.wall_us()
        agents.send(batch_record(number, now_us - S, now_us, node="quick"))
        time.sleep(0.25)
        if number in (4, 8):
            name = "a" if number == 4 else "b"
            stops[name].set()
            threads[name].join(20)
            stops[name] = threading.Event()
            threads[name] = run_beside(tmp_path / name, kafka, topic_prefix, stops[name])
    until_s = time.monotonic() + 20
    while max(tick.at_us for tick in ticks_by_partition(kafka, f"{topic_prefix}job-events", 1)[0]) <= held_us:
        assert time.monotonic() < until_s, "the slow node is waited for without end"
        now_us = clock.wall_us()
        agents.send(batch_record(99, now_us - S, now_us, node="quick"))
        time.sleep(0.3)
    time.sleep(0.5)
    for name in stops:
        stops[name].set()
        threads[name].join(20)
        assert not threads[name].is_alive()
    agents.stop()
    partitions = ticks_by_partition(kafka, f"{topic_prefix}job-events", PARTITIONS)
    for number, ticks in enumerate(partitions):
        fold = SessionFold(number)
        answers = [record for offset, tick in enumerate(ticks) for record in fold.fold(offset, tick)]
        marks = [mark.at_us for mark in answers if isinstance(mark, Mark)]
        assert marks == sorted(marks) and len(marks) == len(ticks) > 0
        assert marks[-1] == max(tick.at_us for tick in ticks)
        waiting = [tick for tick in ticks if held_us < tick.at_us]
        assert waiting and all("slow" in tick.stale_sources for tick in waiting), "it was waited for until it was stale"
        assert held_us in {tick.at_us for tick in ticks}
    assert {tick for ticks in partitions for tick in ticks} == set(partitions[0])
    [prices] = ticks_by_partition(kafka, f"{topic_prefix}price-book", 1)
    assert {tick.at_us for tick in prices} == {tick.at_us for tick in partitions[0]}


def test_a_ticker_that_can_not_read_is_silent_and_gives_everybody_time_when_it_can_again(tmp_path: Path) -> None:
    clock = ManualClock(SystemClock().wall_us())
    with mock_broker() as broker:
        watermarks = KafkaWatermarks(broker.kafka, "", SystemClockAt(clock))
        first_us = clock.now_us
        assert look(watermarks).since_us == first_us
        broker.freeze()
        with pytest.raises(WatermarksUnavailable, match="can't be read"):
            watermarks()
        broker.thaw()
        clock.now_us += 3600 * S
        assert look(watermarks).since_us == clock.now_us
        watermarks.close()


def test_a_topic_that_is_not_there_is_told(tmp_path: Path, kafka: dict[str, str]) -> None:
    with pytest.raises(WatermarksUnavailable, match=r"topic nowhere\.gpu-samples is not there: make it with"):
        KafkaWatermarks(kafka, "nowhere.", SystemClock())()


class SystemClockAt(SystemClock):
    """Real time to measure, another's wall clock."""

    def __init__(self, wall: ManualClock) -> None:
        self._wall = wall

    def wall_us(self) -> int:
        return self._wall.wall_us()
