"""Everything read again from offset 0 into a fresh ledger, by takes of other sizes: the same rows, byte for byte."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from wattledger_audit.broker import Broker

from tests.fault_harness import record_bytes
from tests.fault_harness.aftermath import PARTITIONS, eventful, settle_exact
from tests.fault_harness.cluster import Cluster
from tests.fault_harness.topic_reading import kafka_topics
from tests.pipeline_check import difference, tables
from tests.waiting import until

pytestmark = pytest.mark.kafka
Seen = Callable[[str], None]
OUTPUTS = ("usage-lines", "tenant-cost", "allocations")
SAME = "every fact table and every output topic folded by id the same, byte for byte"


def takes(meter: int, sink: int) -> dict[str, str]:
    """So many records at most in one take."""
    return {"WATTLEDGER_TAKE_MAX": str(meter), "WATTLEDGER_SINK_TAKE_MAX": str(sink)}


@pytest.mark.parametrize(
    ("first", "again"),
    [
        pytest.param((64, 400), (5, 37), marks=pytest.mark.quick, id="smaller"),
        pytest.param((3, 25), (256, 2000), id="larger"),
    ],
)
@pytest.mark.fault(23, "replayed from offset 0 into a fresh ledger, by takes of other sizes", SAME)
def test_a_replay_with_other_take_sizes_is_the_same_byte_for_byte(
    broker: Broker, topic_prefix: str, tmp_path: Path, first: tuple[int, int], again: tuple[int, int], seen: Seen
) -> None:
    world = eventful(23)
    with Cluster(
        tmp_path / "first", broker=broker, prefix=topic_prefix, partitions=PARTITIONS, env=takes(*first)
    ) as cluster:
        cluster.publish(world.emissions())
        settle_exact(cluster, world)
        expected, topics = rows_of(cluster), folded(cluster)
        once = times_written(cluster)
    assert forget_groups(cluster) >= 3
    with Cluster(
        tmp_path / "again", broker=broker, prefix=topic_prefix, partitions=PARTITIONS, env=takes(*again)
    ) as cluster:
        told = settle_exact(cluster, world)
        got, topics_again = rows_of(cluster), folded(cluster)
        twice = times_written(cluster)
    assert once.keys() == twice.keys() and all(twice[name] > count for name, count in once.items())
    assert len(expected["usage_lines"]) > 500
    assert difference(expected, got) == {}
    assert topics == topics_again
    rows = sum(map(len, expected.values()))
    ids = sum(map(len, topics.values()))
    seen(f"takes of {first} then {again}: {rows} rows of {len(expected)} tables and {ids} ids of topics same; {told}")


@pytest.mark.fault(23, "the sink alone replayed from offset 0 into a fresh ledger, one record a take", SAME)
def test_a_replay_of_the_sink_alone_is_the_same_byte_for_byte(
    broker: Broker, topic_prefix: str, tmp_path: Path, seen: Seen
) -> None:
    world = eventful(28)
    with Cluster(tmp_path / "first", broker=broker, prefix=topic_prefix, partitions=PARTITIONS) as cluster:
        cluster.publish(world.emissions())
        settle_exact(cluster, world)
        expected = rows_of(cluster)
    forget_groups(cluster, "sink")
    with Cluster(
        tmp_path / "again", broker=broker, prefix=topic_prefix, partitions=PARTITIONS, env=takes(1, 7)
    ) as cluster:
        told = settle_exact(cluster, world)
        got = rows_of(cluster)
    assert difference(expected, got) == {}
    seen(f"{sum(map(len, expected.values()))} rows of {len(expected)} tables the same; {told}")


def rows_of(cluster: Cluster) -> dict[str, list[tuple[object, ...]]]:
    """Every fact table as text."""
    client = cluster.client()
    try:
        return tables(client)
    finally:
        client.close()


def folded(cluster: Cluster) -> dict[str, dict[str, str]]:
    """By output topic: content by id. Two contents of one id raise AssertionError."""
    read = kafka_topics(cluster.kafka, cluster.prefix, cluster.partitions)
    found: dict[str, dict[str, str]] = {}
    for topic in OUTPUTS:
        kept = found.setdefault(topic, {})
        for record in read(topic):
            for name, content in _parts(*record_bytes.decode(record.value)):
                assert kept.setdefault(name, content) == content, f"{topic}: {name} has two contents"
    return found


def _parts(subject: str, record: record_bytes.Record) -> Iterator[tuple[str, str]]:
    if subject == "tenant_cost":
        yield from ((row["row_id"], repr(sorted(row.items()))) for row in record["rows"])
    elif subject == "usage_lines":
        yield from ((line["line_id"], repr(sorted(line.items()))) for line in record["lines"])
    elif "revision_id" in record:
        yield record["revision_id"], repr(sorted(record.items()))


def times_written(cluster: Cluster) -> Counter[str]:
    """How often each line was written to `usage-lines`."""
    read = kafka_topics(cluster.kafka, cluster.prefix, cluster.partitions)
    lines = (record_bytes.decode(record.value)[1]["lines"] for record in read("usage-lines"))
    return Counter(line["line_id"] for found in lines for line in found)


def forget_groups(cluster: Cluster, name: str = "") -> int:
    """Delete the consumer groups of a deployment that has stopped, or one of them, so that all is read from the
    start; how many."""
    admin = AdminClient({**cluster.kafka})
    prefix = f"{cluster.prefix}wattledger-{name}"
    groups = [group.group_id for group in admin.list_consumer_groups().result(20).valid]
    wanted = [group for group in groups if group.startswith(prefix)]
    for group in wanted:
        until(lambda group=group: _deleted(admin, group), f"group {group} is empty and deleted", every_s=0.5)  # type: ignore[misc]
    return len(wanted)


def _deleted(admin: AdminClient, group: str) -> bool:
    try:
        admin.delete_consumer_groups([group])[group].result(20)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.NON_EMPTY_GROUP:
            raise
        return False
    return True
