"""The price book as a log: what is kept, what is a duplicate, what is refused, and what is known when."""

from decimal import Decimal

from wattledger_core.event import Tick
from wattledger_core.ids import digest
from wattledger_core.revision import Origin

from tests.pricing_builders import QUARTER, S, price, price_log, tick


def test_a_price_knows_the_last_tick_above_it() -> None:
    log = price_log(price("compute", "2", offset=0), tick(100), price("compute", "3", offset=2), tick(50))
    assert [kept.known_us for kept in log.entries] == [0, 100 * S]
    assert log.newest_tick_us == 100 * S


def test_a_record_at_or_below_an_offset_already_seen_is_a_duplicate() -> None:
    log = price_log(price("compute", "2", offset=5), tick(100))
    assert log.add(price("compute", "2", offset=5)) is None
    assert log.add(price("compute", "9", offset=4)) is None
    assert [kept.rate for kept in log.entries] == [Decimal(2)]
    assert log.refused == {}


def test_a_revision_without_an_id_is_named_by_its_place() -> None:
    log = price_log(price("compute", "2", offset=5, name="a"))
    assert log.entries[0].revision_id == digest("price-revision", "a", 0, 5, 0)


def test_what_was_known_before_a_cutoff_is_a_prefix_and_excludes_the_cutoff_itself() -> None:
    log = price_log(price("compute", "1", offset=0), tick(10), price("compute", "2", offset=2), tick(20),
                    price("compute", "3", offset=4))  # fmt: skip
    assert [log.known_before(cutoff_s * S) for cutoff_s in (0, 1, 10, 11, 20, 21)] == [0, 1, 1, 2, 2, 3]


def test_the_latest_revision_in_a_view_stands() -> None:
    log = price_log(price("compute", "1", offset=0, name="a", start_us=QUARTER),
                    price("compute", "2", offset=1, name="a", start_us=QUARTER))  # fmt: skip
    history = log.histories("compute")[0]
    standing = [history.standing(count) for count in (0, 1, 2)]
    assert [found and found.rate for found in standing] == [None, Decimal(1), Decimal(2)]
    before = log.before(1)
    assert before is not None
    assert before.rate == 1
    assert log.before(0) is None


def test_a_started_price_may_change_its_end_only_and_the_log_says_why_it_left_a_change_out() -> None:
    log = price_log(price("compute", "1", offset=0, name="a"), tick(100))
    assert log.add(price("compute", "2", offset=2, name="a")) is None
    ended = log.add(price("compute", "1", offset=3, name="a", end_us=QUARTER))
    assert ended is not None
    assert ended.end_us == QUARTER
    assert "rate may not change from 1 to 2" in log.refused[Origin(0, 2)]
    assert len(log.entries) == 2


def test_a_price_that_has_not_started_may_change() -> None:
    log = price_log(price("compute", "1", offset=0, name="a", start_us=QUARTER), tick(899))
    assert log.add(price("compute", "2", offset=2, name="a", start_us=2 * QUARTER)) is not None


def test_a_price_off_the_grid_is_left_out_and_later_ones_are_kept() -> None:
    log = price_log(price("compute", "1", offset=0, start_us=S), price("compute", "2", offset=1), Tick(S))
    assert [kept.rate for kept in log.entries] == [Decimal(2)]
    assert "not on the UTC quarter-hour grid" in log.refused[Origin(0, 0)]
