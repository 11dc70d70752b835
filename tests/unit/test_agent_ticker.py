"""Ticks: up to what every live source has reported, never back, in both topics."""

from pathlib import Path

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.ticker import Sight, Ticker, TickRule, next_tick
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import BROADCAST
from wattledger_schemas import Codec

from tests.unit.agent_records import read_all

RULE = TickRule(stale_after_us=100)
CASES = [
    ("the slowest live source holds time", {"a": 990, "b": 950}, 1000, 950, ()),
    ("a source silent for too long is named and not waited for", {"a": 990, "b": 899}, 1000, 990, ("b",)),
    ("exactly the limit is not yet stale", {"a": 990, "b": 900}, 1000, 900, ()),
    ("a source ahead of the clock does not pull it", {"a": 1500}, 1000, 1000, ()),
    ("without live sources time is now", {"a": 1, "b": 2}, 1000, 1000, ("a", "b")),
    ("without any source time is now", {}, 1000, 1000, ()),
]


@pytest.mark.parametrize(("watermarks", "now_us", "at_us", "stale"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_next_tick(watermarks: dict[str, int], now_us: int, at_us: int, stale: tuple[str, ...]) -> None:
    assert next_tick(Sight(watermarks), now_us, RULE) == (at_us, stale)


def test_after_a_time_of_not_seeing_no_source_is_blamed_for_it() -> None:
    marks = {"a": 100, "b": 990}
    assert next_tick(Sight(marks, since_us=950), 1000, RULE) == (100, ())
    assert next_tick(Sight(marks, since_us=900), 1000, RULE) == (100, ())
    assert next_tick(Sight(marks, since_us=899), 1000, RULE) == (990, ("a",))


def test_a_tick_that_another_ticker_has_written_is_not_written_again(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal")
    sights = [Sight({"a": 950}, newest_tick_us=950), Sight({"a": 960}, newest_tick_us=955)]
    ticker = Ticker(wal, lambda: sights.pop(0), ManualClock(1000), Codec(), RULE)
    assert (ticker.tick(), ticker.tick()) == (None, 960)


def test_a_tick_is_written_to_every_partition_of_both_topics(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal")
    assert Ticker(wal, lambda: Sight({"a": 950, "b": 1}), ManualClock(1000), Codec(), RULE).tick() == 950
    found = [kept.record for kept in read_all(wal)]
    assert [(one.topic, one.partition, one.at_us) for one in found] == [
        ("job-events", BROADCAST, 950), ("price-book", BROADCAST, 950),
    ]  # fmt: skip
    assert Codec().decode(found[0].value)[::2] == ("tick", {"at_us": 950, "stale_sources": ["b"]})
    assert found[0].value == found[1].value


def test_time_never_goes_back_not_over_a_restart_and_not_for_a_source_that_returns(tmp_path: Path) -> None:
    marks = {"a": 950, "b": 1}
    clock = ManualClock(1000)
    wal = Wal(tmp_path / "a.wal")
    ticker = Ticker(wal, lambda: Sight(marks), clock, Codec(), RULE)
    assert ticker.tick() == 950
    marks["b"] = 920
    assert ticker.tick() is None
    wal.close()
    again = Ticker(Wal(tmp_path / "a.wal"), lambda: Sight(marks), clock, Codec(), RULE)
    assert again.tick() is None
    clock.now_us = 500
    assert again.tick() is None
    marks.update(a=1010, b=1005)
    clock.now_us = 1020
    assert again.tick() == 1005
