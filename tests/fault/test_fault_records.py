"""Records that nobody can use among good ones, and outputs that the broker refuses: the rest is billed exactly."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from wattledger_audit.broker import Broker

from tests.fault_harness import record_bytes
from tests.fault_harness.checker import assert_exact, check_sources
from tests.fault_harness.cluster import Cluster
from tests.fault_harness.topic_reading import Record, Topics, kafka_topics
from tests.fault_harness.world import Plan
from tests.fault_play import Play, Seen, until

pytestmark = pytest.mark.kafka
PLAN = Plan(seed=16, nodes=2, devices=2, minutes=30, ticks_per_record=20)
NOISE = random.Random(16)
GARBAGE: Mapping[str, Sequence[bytes | None]] = {
    "gpu-samples": (None, b"", b"\xff" + NOISE.randbytes(7_990_000)),
    "job-events": (None, b"", b"\xff" + NOISE.randbytes(7_990_000)),
    "price-book": (None, b"", b"\xff" + NOISE.randbytes(7_990_000)),
    "usage-lines": (None, b"{}", b"\0\0\0\0\x4d", NOISE.randbytes(100_000)),
    "tenant-cost": (None, b"{}", b"\0\0\0\0\x4d", NOISE.randbytes(100_000)),
    "threshold-events": (None, b"{}", b"\0\0\0\0\x4d"),
}
"""By topic: a tombstone, an empty record, no wire format, no such schema, noise up to what a topic takes."""


@pytest.fixture
def start(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Starts one cluster; ends it."""
    made: list[Cluster] = []

    def started(launch: Mapping[str, str] | None = None) -> Cluster:
        made.append(Cluster(tmp_path, broker=broker, prefix=f"rec-{topic_prefix}", launch=launch))
        return made[-1].start()

    yield started
    for cluster in made:
        print(f"exits: {cluster.exits}\n{cluster.fleet.log_tails(6)}")
        cluster.stop()


def spoil(cluster: Cluster, garbage: Mapping[str, Sequence[bytes | None]]) -> dict[tuple[str, int, int], bytes]:
    """Send them, each to partition 0; where each lies, and what it is."""
    placed: dict[tuple[str, int, int], bytes] = {}
    producer = Producer({**cluster.kafka, "message.max.bytes": 8_000_000})
    for topic, values in garbage.items():
        for value in values:

            def sent(error: Any, message: Any, topic: str = topic, value: bytes | None = value) -> None:
                assert error is None, error
                placed[(topic, message.partition(), message.offset())] = value or b""

            producer.produce(cluster.prefix + topic, value, b"k", 0, sent)
            assert producer.flush(30) == 0
    assert len(placed) == sum(map(len, garbage.values()))
    return placed


@pytest.mark.fault(
    16,
    "poison of eleven kinds; tombstones, garbage, unknown schemas, 8 MB of noise in six topics while records flow",
    "each in dead-letters with its origin; no worker ends; all the rest billed exactly",
)
def test_poison_in_every_topic_costs_nothing_else(start: Callable[..., Cluster], seen: Seen) -> None:
    cluster = start()
    play = Play(cluster, replace(PLAN, poison=1), speed=100)
    placed = spoil(cluster, GARBAGE)
    assert play.is_publishing()
    play.publish_rest()
    topics = kafka_topics(cluster.kafka, cluster.prefix, cluster.partitions)
    with closing(cluster.client()) as client:

        def query(sql: str) -> Sequence[Sequence[Any]]:
            rows: Sequence[Sequence[Any]] = client.query(sql).result_rows
            return [row for row in rows if "FROM dead_letters" not in sql or tuple(row[:3]) not in placed]

        assert_exact(check_sources(play.world, without(topics, placed), query))
        sql = "SELECT topic, topic_partition, topic_offset, reason_code FROM dead_letters FINAL"
        reasons = {tuple(row[:3]): row[3] for row in client.query(sql).result_rows}
    letters = {origin_of(record): record_bytes.decode(record.value)[1] for record in topics("dead-letters")}
    assert placed.keys() - letters.keys() == set() and placed.keys() - reasons.keys() == set()
    # a record that fills its topic can't be repeated whole: its start is, and the rest lies where the origin says
    assert all(value.startswith(letters[place]["raw"][:1000]) for place, value in placed.items())
    assert all(letters[place]["raw"] == value for place, value in placed.items() if len(value) <= 100_000)
    assert cluster.exits == []
    poison = len(letters) - len(placed)
    seen(f"{len(placed)} garbage and {poison} poison records in dead-letters ({sorted(set(reasons.values()))})")


def origin_of(record: Record) -> tuple[str, int, int]:
    letter = record_bytes.decode(record.value)[1]
    return letter["source_topic"], letter["source_partition"], letter["source_offset"]


def without(topics: Topics, placed: Mapping[tuple[str, int, int], bytes]) -> Topics:
    """The topics without what was thrown into them, and without the letters about that."""

    def read(topic: str) -> Iterator[Record]:
        for record in topics(topic):
            place = origin_of(record) if topic == "dead-letters" else (topic, record.partition, record.offset)
            if place not in placed:
                yield record

    return read


@pytest.mark.fault(
    17, "the broker refuses `tenant-cost` (its limit set to 100 bytes) after `usage-lines` is in ClickHouse",
    "nothing is acknowledged, the meter ends; with the limit back it converges",
)  # fmt: skip
def test_a_refused_output_is_made_up_for(start: Callable[..., Cluster], seen: Seen) -> None:
    cluster = start()
    play = Play(cluster, PLAN, speed=None)
    limit(cluster, "tenant-cost", 100)
    publishing = cluster.start_publishing(play.during, 100)
    until(lambda: ("meter", 70) in cluster.exits, "the meter has ended")
    acknowledged = cluster.committed("meter", "gpu-samples")
    with closing(cluster.client()) as client:
        until(lambda: lines_without_costs(client) > 0, "lines are in ClickHouse, their costs were refused")
        until(lambda: cluster.exits.count(("meter", 70)) >= 3, "the meter has ended again and again")
        lines = lines_without_costs(client)
        assert cluster.committed("meter", "gpu-samples") == acknowledged
        limit(cluster, "tenant-cost", 8_000_000)
        publishing.join(150)
        play.finish(seen)
        assert lines > 0 and lines_without_costs(client) == 0
    seen(f"{lines} lines were in ClickHouse without their costs; exits {cluster.exits}")
    assert set(cluster.exits) == {("meter", 70)}


def lines_without_costs(client: Client) -> int:
    sql = "SELECT count() FROM usage_lines FINAL WHERE line_id NOT IN (SELECT line_id FROM cost_rows)"
    return int(client.query(sql).result_rows[0][0])


def limit(cluster: Cluster, topic: str, size_bytes: int) -> None:
    """What the broker takes of a topic from now on."""
    entry = ConfigEntry("max.message.bytes", str(size_bytes), incremental_operation=AlterConfigOpType.SET)
    place = ConfigResource(ConfigResource.Type.TOPIC, cluster.prefix + topic, incremental_configs=[entry])
    admin = AdminClient({**cluster.kafka})
    admin.incremental_alter_configs([place])[place].result(20)


@pytest.mark.fault(
    17,
    "a delivery of each processor is refused: of the sink after its insert into ClickHouse",
    "each ends with nothing acknowledged and comes again; exact",
)
def test_a_delivery_that_fails_in_any_processor_is_made_up_for(start: Callable[..., Cluster], seen: Seen) -> None:
    refused = {"sessions": 20, "meter": 30, "sink": 1}
    launch = {processor: f"produce_fails:report:{number}" for processor, number in refused.items()}
    cluster = start(launch)
    play = Play(cluster, PLAN, speed=100)
    placed = spoil(cluster, {"usage-lines": [b"{}"]})
    until(lambda: {("sessions", 70), ("meter", 70), ("sink", 70)} <= set(cluster.exits), "each failed once")
    play.publish_rest()
    topics = without(kafka_topics(cluster.kafka, cluster.prefix, cluster.partitions), placed)
    with closing(cluster.client()) as client:

        def query(sql: str) -> Sequence[Sequence[Any]]:
            rows: Sequence[Sequence[Any]] = client.query(sql).result_rows
            return [row for row in rows if "FROM dead_letters" not in sql or tuple(row[:3]) not in placed]

        assert_exact(check_sources(play.world, topics, query))
        letters = client.query("SELECT count() FROM dead_letters FINAL").result_rows[0][0]
    assert letters == 1 and len(cluster.exits) == 3
    seen(f"exits {cluster.exits}, everything equals the truth")
