"""The meter's place in the book is kept also when the price book is the last to come."""

from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from wattledger_audit.broker import Broker

from tests.fault_harness.aftermath import PARTITIONS
from tests.fault_harness.checker import assert_exact, check
from tests.fault_harness.cluster import Cluster
from tests.fault_harness.world import Plan, World
from tests.waiting import until

pytestmark = pytest.mark.kafka


def test_a_price_tick_after_the_last_mark_settles_the_book(broker: Broker, topic_prefix: str, tmp_path: Path) -> None:
    world = World(Plan(31, nodes=3, devices=2, minutes=20))
    *emissions, last = world.emissions()
    assert last.topic == "price-book" and last.at_us == world.plan.last_tick_us
    with Cluster(tmp_path, broker=broker, prefix=topic_prefix, partitions=PARTITIONS) as cluster:
        cluster.publish(emissions)
        until(reads_to(cluster, last.at_us), "the meter has read every mark")
        assert cluster.lag().behind.keys() >= {"meter:allocations"}
        cluster.publish([last])
        cluster.settle(30)
        client = cluster.client()
        assert_exact(check(world, cluster.kafka, cluster.prefix, cluster.partitions, client))
        client.close()


def reads_to(cluster: Cluster, at_us: int) -> Callable[[], bool]:
    """Whether the meter says of every partition that all sources have marked up to there."""
    port = cluster.workers["meter"][0].metrics_port

    def is_there() -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except (URLError, OSError):
            return False
        found = [line for line in lines if line.startswith("wattledger_settled_timestamp_seconds{")]
        return len(found) == PARTITIONS and all(float(line.rpartition(" ")[2]) == at_us // 1_000_000 for line in found)

    return is_there
