"""A worker that stands still without knowing is ended and started again; one that waits for good reason is not."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from wattledger_audit.broker import Broker, start_kafka
from wattledger_audit.processes import Child, free_port
from wattledger_schemas import Codec
from wattledger_streams.mapping import to_wire_batch

from tests.guard_worker import Deployment, exit_of, wait_until
from tests.pipeline_day import emissions

pytestmark = pytest.mark.kafka
Seen = Callable[[str], None]
LIMIT_S = 4.0


@pytest.fixture
def deployment(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    found = Deployment(broker.bootstrap, f"stall-{topic_prefix}", tmp_path)
    yield found
    found.stop()


def marks(deployment: Deployment) -> set[int]:
    return {decoded.record["at_us"] for _, decoded in deployment.records("allocations") if decoded.subject == "mark"}


@pytest.mark.parametrize("fault", ["commit_hangs", "commit_lies"])
@pytest.mark.fault(27, "no commit of the group reaches the coordinator", "exit 71; started again nothing is missing")
def test_a_worker_whose_commits_do_not_arrive_is_ended(deployment: Deployment, fault: str, seen: Seen) -> None:
    deployment.send_ticks(20)
    worker = deployment.worker("sessions", fault, watchdog_s=str(LIMIT_S))
    assert exit_of(worker, 60) == 71
    assert '"kind": "commit"' in worker.log_tail(5)
    assert deployment.committed("sessions", "job-events") == 0
    deployment.worker("sessions", watchdog_s=str(LIMIT_S))
    deployment.wait_committed("sessions", "job-events", 20)
    assert len(marks(deployment)) == 20
    seen(f"{fault}: exit 71 with the offset that is not committed; after a restart 20 of 20 ticks have their mark")


@pytest.mark.quick
@pytest.mark.fault(27, "the fetcher delivers nothing more, and says nothing", "exit 71; started again all is read")
def test_a_worker_to_which_nothing_is_delivered_is_ended(deployment: Deployment, seen: Seen) -> None:
    deployment.send_ticks(10)
    worker = deployment.worker("sessions", "fetch_silent:10", watchdog_s=str(LIMIT_S))
    deployment.wait_committed("sessions", "job-events", 10)
    deployment.send_ticks(10)
    assert exit_of(worker, 60) == 71
    assert '"kind": "fetch"' in worker.log_tail(5)
    deployment.worker("sessions", watchdog_s=str(LIMIT_S))
    deployment.wait_committed("sessions", "job-events", 20)
    assert len(marks(deployment)) == 20
    seen("exit 71 with the offset that is there and was not delivered; after a restart 20 of 20")


def first_batch() -> bytes:
    batch = next(found.item for found in emissions() if type(found.item).__name__ == "Batch")
    return Codec().encode("sample_batch", to_wire_batch(batch))  # type: ignore[arg-type]


@pytest.mark.fault(27, "an idle topic, a batch without its marks, ClickHouse away: three limits long", "none is ended")
def test_a_worker_that_waits_for_good_reason_is_left_alone(deployment: Deployment, seen: Seen) -> None:
    deployment.send("gpu-samples", [first_batch()])
    deployment.send_ticks(3, "price-book")
    nowhere = f"clickhouse://127.0.0.1:{free_port()}"
    workers = [
        deployment.worker("sessions", watchdog_s=str(LIMIT_S)),
        deployment.worker("meter", watchdog_s=str(LIMIT_S)),
        deployment.worker("sink", watchdog_s=str(LIMIT_S), clickhouse_dsn=nowhere),
    ]
    for worker in workers:
        wait_for_ready(deployment, worker)
    until_s = time.monotonic() + 3 * LIMIT_S + 5
    wait_until("three limits have passed", lambda: time.monotonic() > until_s, 60)
    assert [worker.exit_code for worker in workers] == [None] * 3, "\n".join(w.log_tail(5) for w in workers)
    assert deployment.committed("meter", "gpu-samples") == 0
    assert deployment.committed("sink", "price-book") == 0
    seen(f"limit {LIMIT_S:.0f} s: after {3 * LIMIT_S + 5:.0f} s all three run, nothing is acknowledged")


def wait_for_ready(deployment: Deployment, worker: Child) -> None:
    """Until its metrics are served and its guard has looked at the broker."""

    def is_ready() -> bool:
        try:
            return deployment.metric(worker, "wattledger_lag_records") >= 0
        except OSError:
            return False

    wait_until(f"{worker.name} serves its metrics", is_ready, 60)


@contextmanager
def frozen(broker: Broker) -> Iterator[None]:
    """Its processes stand still meanwhile."""
    for pid in broker.pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in broker.pids:
            os.kill(pid, signal.SIGCONT)


def wait_three_limits() -> None:
    until_s = time.monotonic() + 3 * LIMIT_S
    wait_until("three limits have passed", lambda: time.monotonic() > until_s, 60)


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.fault(27, "the broker frozen for three limits while a meter has to write", "it is not ended, and goes on")
def test_a_meter_whose_writes_the_broker_does_not_answer_is_not_ended(
    apache_kafka: Path, topic_prefix: str, tmp_path: Path, seen: Seen
) -> None:
    """The meter stops itself before its first record, so that what it then sends meets a frozen broker."""
    broker = start_kafka(tmp_path / "broker", apache_kafka)
    deployment = Deployment(broker.bootstrap, f"written-{topic_prefix}", tmp_path)
    try:
        deployment.send("gpu-samples", [first_batch()])
        deployment.worker("sessions")
        meter = deployment.worker("meter", harness="freeze:before_produce:1", watchdog_s=str(LIMIT_S))
        for name in ("price-book", "job-events"):
            deployment.ticks = 0
            deployment.send_ticks(6, name)
        wait_until("the meter has something to write", lambda: is_stopped(meter.pid))
        with frozen(broker):
            os.kill(meter.pid, signal.SIGCONT)
            wait_three_limits()
            code = meter.exit_code
        assert code is None, meter.log_tail(8)
        deployment.wait_committed("meter", "gpu-samples", 1)
        assert meter.exit_code is None
        assert len(deployment.records("usage-lines")) >= 1
        seen(f"frozen for {3 * LIMIT_S:.0f} s at a limit of {LIMIT_S:.0f} s: not ended, and its record is acknowledged")
    finally:
        deployment.stop()
        broker.stop()


@pytest.mark.fault(27, "the broker frozen for three limits while there is work", "no worker is ended, then all goes on")
def test_a_broker_that_is_away_ends_no_worker(
    apache_kafka: Path, topic_prefix: str, tmp_path: Path, seen: Seen
) -> None:
    broker = start_kafka(tmp_path / "broker", apache_kafka)
    deployment = Deployment(broker.bootstrap, f"frozen-{topic_prefix}", tmp_path)
    try:
        deployment.send_ticks(3)
        deployment.send("gpu-samples", [first_batch()])
        deployment.send_ticks(3, "price-book")
        workers = [deployment.worker(name, watchdog_s=str(LIMIT_S)) for name in ("sessions", "meter")]
        deployment.wait_committed("sessions", "job-events", 3)
        with frozen(broker):
            wait_three_limits()
            codes = [worker.exit_code for worker in workers]
        assert codes == [None, None], "\n".join(w.log_tail(8) for w in workers)
        deployment.send_ticks(3)
        deployment.wait_committed("sessions", "job-events", 6)
        assert [worker.exit_code for worker in workers] == [None, None]
        seen(f"frozen for {3 * LIMIT_S:.0f} s at a limit of {LIMIT_S:.0f} s: none ended, 6 of 6 ticks acknowledged")
    finally:
        deployment.stop()
        broker.stop()
