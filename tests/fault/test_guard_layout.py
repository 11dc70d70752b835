"""A changed partition count sends keys elsewhere: workers remember the counts and refuse to go on."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewPartitions
from wattledger_audit.broker import Broker
from wattledger_streams.layout import Layout, LayoutChanged
from wattledger_streams.settings import WorkerSettings

from tests.guard_worker import Deployment, exit_of

pytestmark = pytest.mark.kafka
Seen = Callable[[str], None]


@pytest.fixture
def deployment(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    found = Deployment(broker.bootstrap, f"layout-{topic_prefix}", tmp_path, 2)
    yield found
    found.stop()


def grow(deployment: Deployment, *names: str, to: int = 4) -> None:
    wanted = [NewPartitions(deployment.topic(name), to) for name in names]
    for future in deployment.admin.create_partitions(wanted).values():
        future.result(30)


@pytest.mark.quick
@pytest.mark.fault(29, "partitions added while a worker runs", "exit 72 says which topic; nothing more is acknowledged")
def test_a_count_that_changes_under_a_running_worker_ends_it(deployment: Deployment, seen: Seen) -> None:
    deployment.send_ticks(5)
    worker = deployment.worker("sessions", watchdog_s="4")
    deployment.wait_committed("sessions", "job-events", 5)
    grow(deployment, "job-events")
    deployment.send_ticks(5, partition=3)
    assert exit_of(worker, 60) == 72
    assert "'layout-" in worker.log_tail(3)
    assert "has 4 partitions, before 2" in worker.log_tail(3)
    assert [deployment.committed("sessions", "job-events", p) for p in range(4)] == [5, 0, 0, 0]
    seen("exit 72 with the counts before and now; the new partition's records are not acknowledged")


@pytest.mark.parametrize(
    "topics",
    [
        ("job-events",),
        ("gpu-samples",),
        ("gpu-samples", "allocations", "usage-lines"),
        ("tenant-cost",),
        ("price-book",),
    ],
)
@pytest.mark.fault(29, "partitions added while no worker runs", "every processor refuses to start, exit 72")
def test_a_count_that_changed_before_a_start_is_refused(
    deployment: Deployment, topics: tuple[str, ...], seen: Seen
) -> None:
    Layout(WorkerSettings(bootstrap=deployment.kafka["bootstrap.servers"], topic_prefix=deployment.prefix)).check(
        {"job-events": 2, "gpu-samples": 2, "allocations": 2, "usage-lines": 2, "tenant-cost": 2, "price-book": 1}
    )
    grow(deployment, *topics)
    processor = {"job-events": "sessions", "tenant-cost": "sink"}.get(topics[0], "meter")
    worker = deployment.worker(processor)
    assert exit_of(worker, 60) == 72
    for topic in topics:
        assert f"topic {deployment.topic(topic)!r} has 4 partitions, before" in worker.log_tail(3)
    seen(f"{', '.join(topics)}: {processor} refuses, exit 72")


def test_the_counts_outlive_a_topic_that_was_made_again(deployment: Deployment) -> None:
    settings = WorkerSettings(bootstrap=deployment.kafka["bootstrap.servers"], topic_prefix=deployment.prefix)
    counts = {"job-events": 2, "gpu-samples": 2, "price-book": 1}
    Layout(settings).check(counts)
    [future] = deployment.admin.delete_topics([deployment.topic("gpu-samples")]).values()
    future.result(30)
    assert Layout(settings).remembered() == counts
    with pytest.raises(LayoutChanged, match="gpu-samples' has 3 partitions, before 2"):
        Layout(settings).check({**counts, "gpu-samples": 3})


def test_a_topic_that_is_new_with_an_upgrade_is_remembered_beside_the_others(deployment: Deployment) -> None:
    settings = WorkerSettings(bootstrap=deployment.kafka["bootstrap.servers"], topic_prefix=deployment.prefix)
    Layout(settings).check({"job-events": 2, "price-book": 1})
    Layout(settings).check({"job-events": 2, "price-book": 1, "usage-lines": 2})
    assert Layout(settings).remembered() == {"job-events": 2, "price-book": 1, "usage-lines": 2}
