"""A broker that is away, frozen or gone for good: the log keeps the data, and order holds when it is back."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from wattledger_agent.publisher import Publisher
from wattledger_agent.wal import Wal

from tests.unit.agent_mock_broker import PARTITIONS, mock_broker
from tests.unit.agent_records import log_with, number_of, numbers, read_all, records

pytestmark = pytest.mark.quick


@pytest.mark.fault(7, "no broker at all, then stopped", "everything stays in the log, stopping does not hang")
def test_without_a_broker_everything_stays_and_stopping_does_not_hang(
    tmp_path: Path, seen: Callable[[str], None]
) -> None:
    wal = log_with(tmp_path / "a.wal", 50)
    publisher = Publisher(wal, {"bootstrap.servers": "127.0.0.1:1"})
    publisher.start()
    time.sleep(0.5)
    began_s = time.monotonic()
    publisher.stop(empty=False)
    took_s = time.monotonic() - began_s
    seen(f"stopped in {took_s:.2f} s with {len(read_all(wal))} of 50 records in the log")
    assert took_s < 5
    assert numbers(read_all(wal)) == list(range(50))


@pytest.mark.fault((7, 10), "broker frozen past the deliveries' time limit, thawed", "all delivered, in order")
def test_a_frozen_broker_gets_everything_in_order_after_it_thaws(tmp_path: Path, seen: Callable[[str], None]) -> None:
    wal = log_with(tmp_path / "a.wal", 200)
    with mock_broker() as broker:
        # times out while frozen, so that the failing of deliveries and sending again is seen as well
        publisher = Publisher(wal, {**broker.kafka, "message.timeout.ms": 700, "socket.timeout.ms": 400}, in_flight=60)
        publisher.start()
        while wal.count() > 100:
            time.sleep(0.005)
        broker.freeze()
        time.sleep(0.1)
        kept = wal.count()
        wal.append(records(200, 400))
        time.sleep(1.2)
        assert wal.count() == kept + 200
        broker.thaw()
        assert publisher.wait_empty(8)
        publisher.stop()
        found = broker.read("job-events")
    delivered = [number_of(one) for one in records(0, 400)]
    arrived = {int(value.split(b";")[0]) for values in found.values() for value in values}
    assert arrived == set(delivered)
    for values in found.values():
        first_seen = list(dict.fromkeys(int(value.split(b";")[0]) for value in values))
        assert first_seen == sorted(first_seen)
    assert len(found) == PARTITIONS
    seen(f"{kept} records were held, then all 400 delivered in order")


@pytest.mark.fault((1, 9), "broker gone with its data before it confirmed", "the next agent sends everything")
def test_what_a_lost_broker_never_confirmed_is_sent_by_the_next_agent(
    tmp_path: Path, seen: Callable[[str], None]
) -> None:
    wal = log_with(tmp_path / "a.wal", 100)
    with mock_broker() as lost:
        lost.freeze()
        publisher = Publisher(wal, lost.kafka)
        publisher.start()
        time.sleep(0.3)
    publisher.stop(empty=False)
    wal.close()
    again = Wal(tmp_path / "a.wal")
    assert numbers(read_all(again)) == list(range(100))
    with mock_broker() as broker:
        publisher = Publisher(again, broker.kafka)
        publisher.start()
        publisher.stop(empty=True)
        values = [value for partition in broker.read("job-events").values() for value in partition]
    assert sorted(values) == sorted(one.value for one in records(0, 100))
    seen("100 of 100 records kept and delivered to another broker")


_WRITE_INTO_A_LIMIT = """
import os, sys
sys.path[:0] = sys.argv[2].split(os.pathsep)
from pathlib import Path
from tests.unit.agent_records import numbers, read_all, records
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import WalUnavailable
import resource
wal, kept, refused = Wal(Path(sys.argv[1]), when_full="block"), 0, 0
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
for _ in range(60):
    try:
        wal.append(records(kept, kept + 20, size_bytes=3000))
        kept += 20
    except WalUnavailable:
        refused += 1
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
wal.append(records(kept, kept + 20, size_bytes=3000))
assert numbers(read_all(wal)) == list(range(kept + 20))
print(kept, refused)
"""


@pytest.mark.fault(3, "writes that fail half way, at a file size limit", "no partial record; it recovers")
def test_writes_that_fail_half_way_leave_no_partial_record_and_it_recovers(
    tmp_path: Path, seen: Callable[[str], None]
) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    args = [sys.executable, "-c", _WRITE_INTO_A_LIMIT, str(tmp_path / "a.wal"), os.pathsep.join(sys.path)]
    found = subprocess.run(args, capture_output=True, text=True, timeout=30, check=False)
    assert found.returncode == 0, found.stderr
    kept, refused = map(int, found.stdout.split())
    seen(f"{kept} records kept whole, {refused} groups refused, writing again afterwards")
    assert kept > 100 and refused > 10
    assert numbers(read_all(Wal(tmp_path / "a.wal"))) == list(range(kept + 20))
