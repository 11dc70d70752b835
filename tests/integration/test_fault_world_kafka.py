"""A world with every trouble through real processes and Apache Kafka, undisturbed: the ledger is the truth, exactly."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from wattledger_audit.broker import Broker

from tests.fault_harness.checker import Finding, assert_exact, check
from tests.fault_harness.cluster import Cluster
from tests.fault_harness.world import Plan, World

pytestmark = pytest.mark.kafka
PLAN = replace(Plan(7, nodes=3, minutes=60).with_every_trouble(), late_records_by_min=60, late_by_min=20)


@pytest.fixture(scope="module")
def findings(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Finding]]:
    """What the checker finds of the world, once all is at rest."""
    work_dir: Path = tmp_path_factory.mktemp("world")
    world = World(PLAN)
    with Cluster(work_dir, prefix="world.", broker=broker) as cluster:
        cluster.publish(world.emissions())
        cluster.settle()
        client = cluster.client()
        yield check(world, cluster.kafka, "world.", cluster.partitions, client)
        client.close()


def test_the_ledger_and_the_topics_are_the_truth_to_the_last_digit(findings: list[Finding]) -> None:
    assert_exact(findings)


def test_there_was_something_to_be_wrong_about(findings: list[Finding]) -> None:
    seen = {finding.what: finding.seen for finding in findings}
    assert "correction" in seen["entries in usage_lines"]
    assert "correction" in seen["entries in cost_rows"]
    assert int(seen["time without a known energy, µs"]) > 0
    assert not seen["dead-letters net of reversals, key by key"].startswith("0 as expected")
