"""A take that fails, is cancelled or is stopped half-way acknowledges nothing, most of all in a group that is new."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wattledger_audit.broker import Broker

from tests.guard_worker import Deployment, exit_of, wait_until

pytestmark = pytest.mark.kafka
Seen = Callable[[str], None]
TICKS = 30


@pytest.fixture
def deployment(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    found = Deployment(broker.bootstrap, f"failing-{topic_prefix}", tmp_path)
    yield found
    found.stop()


def marked(deployment: Deployment) -> int:
    """How many of the ticks have their mark."""
    return len({d.record["at_us"] for _, d in deployment.records("allocations") if d.subject == "mark"})


@pytest.mark.quick
@pytest.mark.fault(
    15, "a new group, and its first take raises", "the group has no position; started again all is there"
)
def test_a_new_group_whose_first_take_fails_stays_at_the_start(deployment: Deployment, seen: Seen) -> None:
    deployment.send_ticks(TICKS)
    worker = deployment.worker("sessions", harness="raise:in_body:1", take_max="10")
    assert exit_of(worker) == 70
    assert deployment.committed("sessions", "job-events") == 0
    assert marked(deployment) == 0
    deployment.worker("sessions")
    deployment.wait_committed("sessions", "job-events", TICKS)
    assert marked(deployment) == TICKS
    seen(f"exit 70, committed nothing; after a restart {TICKS} of {TICKS} ticks are marked")


@pytest.mark.parametrize(
    "fault",
    ["raise:in_body:2", "cancel:in_body:2", "raise:after_settle:2", "cancel:after_settle:2", "raise:before_ack:15"],
)
@pytest.mark.fault(
    12, "a take raises or is cancelled, before its work, after it, between two acks", "exit 70, not moved"
)
def test_a_take_that_does_not_end_is_not_acknowledged(deployment: Deployment, fault: str, seen: Seen) -> None:
    deployment.send_ticks(TICKS)
    worker = deployment.worker("sessions", harness=fault, take_max="10", commit_interval_s="0.05")
    assert exit_of(worker) == 70
    committed = deployment.committed("sessions", "job-events")
    assert committed <= 14, "more is committed than was acknowledged"
    deployment.worker("sessions")
    deployment.wait_committed("sessions", "job-events", TICKS)
    assert marked(deployment) == TICKS
    seen(f"{fault}: exit 70 at committed {committed} (the first take had 10); after a restart {TICKS} of {TICKS}")


@pytest.mark.fault(
    12, "SIGTERM while the sink's insert is under way, SIGKILL 6 s later", "the take is not acknowledged"
)
def test_a_stop_in_the_middle_of_an_insert_acknowledges_nothing(deployment: Deployment, seen: Seen) -> None:
    deployment.send_ticks(TICKS)
    sessions = deployment.worker("sessions")
    deployment.wait_committed("sessions", "job-events", TICKS)
    sessions.kill()
    sink = deployment.worker("sink", harness="hang:before_insert:1")
    marker = tmp_marker(deployment)
    wait_until("the sink is about to insert", marker.exists, 60)
    os.kill(sink.pid, signal.SIGTERM)
    until_s = time.monotonic() + 6
    wait_until("it has ended, or its time is up", lambda: not sink.alive or time.monotonic() > until_s, 20)
    ended = sink.exit_code
    sink.kill()
    assert ended != 0, "a graceful end says that everything taken was inserted"
    assert deployment.committed("sink", "allocations") == 0
    deployment.worker("sink")
    deployment.wait_committed("sink", "allocations", TICKS)
    seen(f"{'ended with ' + str(ended) if ended else 'did not end by itself'}, committed 0; a restart inserts all")


def tmp_marker(deployment: Deployment) -> Path:
    return deployment.folder / "work" / "faults" / "hang-before_insert-1"
