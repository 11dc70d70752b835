"""The harness's own cluster: real workers that are killed, frozen and scaled, and still come to rest."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from wattledger_audit.broker import Broker
from wattledger_audit.demo import wait_fresh
from wattledger_audit.stack import Stack

from tests.fault_harness.cluster import Cluster
from tests.fault_harness.world import Plan, World
from tests.pipeline_check import assert_rows_equal_replay
from tests.waiting import until

pytestmark = pytest.mark.kafka


def _ends(cluster: Cluster) -> str:
    return ", ".join(f"{worker} {code}" for worker, code in cluster.exits)


def some_minutes() -> World:
    """Three nodes, twenty minutes, jobs that are told late: enough for every kind of row."""
    return World(Plan(seed=7, nodes=3, minutes=20, ticks_per_record=10, late_jobs=0.2, late_by_min=4))


@pytest.mark.fault(
    (11, 13, 14), "workers killed, frozen and scaled while records flow", "the rows of replay, one by one"
)
def test_killed_frozen_and_scaled_it_settles_on_the_rows_of_replay(
    broker: Broker, topic_prefix: str, tmp_path: Path, seen: Callable[[str], None]
) -> None:
    world = some_minutes()
    with Cluster(tmp_path, broker=broker, prefix=topic_prefix, partitions=2) as cluster:
        publishing = cluster.start_publishing(world.emissions(), speed=300)
        cluster.scale("meter", 2)
        cluster.kill("meter", 1)
        cluster.freeze("sessions")
        cluster.kill("sink", sig=signal.SIGTERM)
        cluster.thaw("sessions")
        assert publishing.join(300) > 200
        cluster.scale("meter", 1)
        cluster.settle(300)
        client = cluster.client()
        wait_fresh(client)
        expected = assert_rows_equal_replay(cast(Stack, cluster), client)
        client.close()
        assert ("meter", -signal.SIGKILL) in cluster.exits
        batches = sum(record.topic == "gpu-samples" for record in world.emissions())
        assert sum(max(offset, 0) for offset in cluster.committed("meter", "gpu-samples")) == batches
        assert cluster.committed("nobody", "gpu-samples") == [-1, -1]
        seen(f"{len(expected.lines)} lines and every cost row equal replay; ended: {_ends(cluster)}")
    assert len(expected.lines) > 500


@pytest.mark.fault(
    (9, 11, 19, 20), "injected kills, an insert's answer lost, ClickHouse and the broker killed", "the rows of replay"
)
def test_over_proxies_with_a_server_and_injected_kills_it_settles_on_the_rows_of_replay(
    apache_kafka: Path, tmp_path: Path, seen: Callable[[str], None]
) -> None:
    world = some_minutes()
    launch = {"sink": "kill:after_insert:2", "meter": "kill:after_produce:30", "sessions": "raise:in_body:2"}
    with Cluster(tmp_path, clickhouse="server", broker_proxy=True, launch=launch) as cluster:
        assert apache_kafka.is_dir() and cluster.broker_proxy and cluster.clickhouse_proxy and cluster.clickhouse
        publishing = cluster.start_publishing(world.emissions(), speed=300)
        until(lambda: len(cluster.exits) >= 3, "every injected fault struck", 180)
        cluster.clickhouse_proxy.cut_after_request(1, match="INSERT")
        lost = cluster.clickhouse_proxy.counters
        until(lambda: lost.lost_answers == 1, "an insert's answer was lost", 90)
        cluster.scale("sink", 2)
        cluster.clickhouse.kill()
        cluster.broker_proxy.reset()
        cluster.clickhouse.start()
        cluster.kill_broker()
        cluster.start_broker()
        publishing.join(300)
        cluster.settle(300)
        client = cluster.client()
        expected = assert_rows_equal_replay(cast(Stack, cluster), client)
        client.close()
        assert {("sink", -9), ("meter", -9), ("sessions", 70)} <= set(cluster.exits)
        assert cluster.broker_proxy.counters.requests > 100
        seen(
            f"{len(expected.lines)} lines and every cost row equal replay; ended: {_ends(cluster)};"
            f" {lost.lost_answers} answer lost after its insert"
        )
    assert len(expected.lines) > 500
