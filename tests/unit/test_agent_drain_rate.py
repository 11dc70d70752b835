"""The rate of a backlog: bounded whatever else comes, nothing starves, and a fleet does not come at once."""

from pathlib import Path

import pytest
from wattledger_agent.drain_rate import DrainRate, DrainRule, start_share_ppm
from wattledger_agent.publisher import Publisher

from tests.unit.agent_mock_broker import mock_broker
from tests.unit.agent_records import log_with, records

S = 1_000_000
RULE = DrainRule(bytes_per_s=100_000, burst_least_bytes=0)


def drained(rate: DrainRate, seconds: int, record_bytes: int, fresh_per_s: int = 0, backlog: int = 10**9) -> list[int]:
    """Bytes handed over in each second when everything is reported at once and it is asked twenty times a second."""
    found = []
    appended = 0
    for second in range(seconds):
        sent = 0
        for part in range(20):
            now_us = second * S + part * S // 20
            appended += fresh_per_s // 20
            room = rate.room_bytes(now_us, appended, 0)
            assert room is not None
            while room > 0 and backlog > 0:
                rate.spend(record_bytes)
                room -= record_bytes
                sent += record_bytes
                backlog -= record_bytes
            rate.heard(now_us, backlog)
        found.append(sent)
    return found


def begun(rule: DrainRule = RULE) -> DrainRate:
    """A bucket of an agent whose turn is at once."""
    return DrainRate(DrainRule(rule.bytes_per_s, 0, rule.away_us, rule.burst_least_bytes), "a", 0)


def test_a_backlog_goes_at_its_rate_after_one_burst() -> None:
    found = drained(begun(), 20, 1000)
    assert found[0] <= 2 * RULE.bytes_per_s + 1000
    assert all(abs(sent - RULE.bytes_per_s) <= 1000 for sent in found[1:])


def test_fresh_records_do_not_slow_a_backlog_down() -> None:
    found = drained(begun(), 20, 1000, fresh_per_s=400_000)
    assert all(abs(sent - 500_000) <= 2000 for sent in found[1:])


def test_without_a_backlog_what_is_appended_goes_at_once() -> None:
    rate = begun()
    rate.heard(0, 0)
    for second in range(1, 50):
        for part in range(5):
            room = rate.room_bytes(second * S + part, second * 250_000 + (part + 1) * 50_000, 0)
            assert room is not None and room >= 50_000
            rate.spend(50_000)


def test_a_record_larger_than_the_bucket_goes_and_is_paid_for_afterwards() -> None:
    found = drained(begun(), 60, 700_000)
    assert sum(found) >= 8 * 700_000
    assert sum(found) <= 60 * RULE.bytes_per_s + RULE.burst_bytes + 700_000
    assert max(found) == 700_000


def test_what_the_broker_has_not_reported_bounds_what_comes_at_once_when_it_is_back() -> None:
    rate = begun()
    assert rate.room_bytes(0, 0, 0) == RULE.burst_bytes
    rate.spend(RULE.burst_bytes)
    for hour in range(1, 4):
        assert rate.room_bytes(hour * 3600 * S, hour * 10**9, RULE.burst_bytes) == 0


def test_no_bound_is_no_bound() -> None:
    assert DrainRate(DrainRule(0), "a", 0).room_bytes(0, 0, 10**12) is None


def test_after_an_outage_each_agent_begins_at_its_own_time_and_the_fleet_evenly() -> None:
    begins = []
    for number in range(1000):
        rate = DrainRate(RULE, f"agent-{number}", 0)
        rate.room_bytes(0, 0, 0)
        rate.heard(0, 10**9)
        begin_s = next(s for s in range(60) if (rate.room_bytes(s * S, 0, 0) or 0) > 0)
        begins.append(begin_s)
    assert max(begins) <= 30
    assert max(begins.count(second) for second in range(1, 31)) < 60
    assert start_share_ppm("agent-7") == start_share_ppm("agent-7") != start_share_ppm("agent-8")


@pytest.mark.parametrize(
    ("silent_us", "backlog", "waits"),
    [(4 * S, 10**9, False), (6 * S, 10**9, True), (6 * S, 1000, False)],
    ids=["a short silence is no outage", "an outage with a backlog", "a backlog that goes at once anyway"],
)
def test_only_after_an_outage_with_a_backlog_an_agent_waits_for_its_turn(
    silent_us: int, backlog: int, waits: bool
) -> None:
    rate = DrainRate(RULE, "agent-3", 0)
    rate.heard(0, 0)
    rate.spend(1000)
    rate.room_bytes(0, 0, 0)
    rate.room_bytes(silent_us, 0, 1000)
    rate.heard(silent_us, backlog)
    assert ((rate.room_bytes(silent_us + 1, 0, 0) or 0) <= 0) is waits


def test_the_publisher_keeps_the_rate_over_a_real_connection(tmp_path: Path) -> None:
    import time

    wal = log_with(tmp_path / "a.wal", 400, size_bytes=1000)
    rule = DrainRule(bytes_per_s=100_000, spread_us=0, burst_least_bytes=0)
    with mock_broker() as broker:
        publisher = Publisher(wal, broker.kafka, rule=rule)
        publisher.start()
        began_s = time.monotonic()
        while wal.count() > 200:
            time.sleep(0.005)
        wal.append(records(400, 440, size_bytes=1000))
        assert publisher.wait_empty(15)
        took_s = time.monotonic() - began_s
        publisher.stop()
        values = [value for partition in broker.read("job-events").values() for value in partition]
    assert sorted(values) == sorted(one.value for one in records(0, 440, size_bytes=1000))
    # 400 KB of backlog; the first 100 KB go at once, and fresh records add nothing
    assert 2.5 < took_s < 6
