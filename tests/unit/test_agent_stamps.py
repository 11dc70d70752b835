"""Event time of ticks: NTP's small corrections, clocks set forward and back, suspends, restarts."""

import pytest
from wattledger_agent.said_time import SaidTime
from wattledger_agent.stamps import MOST_BRIDGED_US, PATIENCE_US, BelievedClock, Break, Stamp, StampKeeper

S = 1_000_000
T0 = 1_767_225_600 * S
HOUR = 3600 * S
DAY = 24 * HOUR


def taken(moves: list[tuple[int, int]], said: SaidTime | None = None, last_us: int | None = None) -> list[Stamp]:
    """Stamps of a run of (seconds of boot time since the tick before, step of the wall clock); each is used."""
    wall, boot = T0, 5 * S
    keeper = StampKeeper(wall, boot, said or SaidTime(), last_us)
    found = []
    for seconds, step_us in moves:
        wall += seconds * S + step_us
        boot += seconds * S
        stamp = keeper.stamp(wall, boot)
        if stamp.at_us is not None:
            keeper.use(stamp.at_us)
        found.append(stamp)
    return found


def stamps(moves: list[tuple[int, int]], said: SaidTime | None = None) -> list[tuple[int | None, str]]:
    """The same relative to T0, with steps."""
    return [(None if one.at_us is None else one.at_us - T0, one.step) for one in taken(moves, said)]


def test_a_quiet_clock_gives_wall_time() -> None:
    assert stamps([(1, 0), (1, 0), (1, 0)]) == [(S, ""), (2 * S, ""), (3 * S, "")]


def test_small_corrections_are_followed_and_stamps_still_rise() -> None:
    assert stamps([(1, 300_000), (1, -400_000), (1, -100_000)]) == [(1_300_000, ""), (1_900_000, ""), (2_800_000, "")]


def test_a_correction_back_is_followed_no_faster_than_half_of_the_time_that_passes() -> None:
    clock = BelievedClock(T0, 0)
    found = []
    for boot_us in range(100_000, 1_200_000, 100_000):
        assert clock.follow(T0 + boot_us - 400_000, boot_us) == ""
        found.append(clock.at_us(boot_us) - T0)
    assert found[:3] == [50_000, 100_000, 150_000]
    assert found[7:] == [400_000, 500_000, 600_000, 700_000]


def test_a_suspend_is_a_gap_and_no_step() -> None:
    assert stamps([(1, 0), (7 * 3600, 0), (1, 0)]) == [(S, ""), (S + 7 * HOUR, ""), (2 * S + 7 * HOUR, "")]


def test_a_step_that_is_taken_back_at_once_leaves_no_trace() -> None:
    assert stamps([(1, 0), (1, HOUR), (1, 0), (1, -HOUR), (1, 0)]) == [(i * S, "") for i in range(1, 6)]


def test_a_step_forward_is_believed_when_it_lasts() -> None:
    found = stamps([(1, HOUR)] + [(1, 0)] * 11)
    patience_s = PATIENCE_US // S
    assert found[:patience_s] == [(i * S, "") for i in range(1, patience_s + 1)]
    assert found[patience_s:] == [(HOUR + (patience_s + 1) * S, "forward"), (HOUR + (patience_s + 2) * S, "")]


def test_a_clock_that_jumps_on_is_believed_when_it_stays_where_it_is() -> None:
    found = stamps([(1, 0), (1, HOUR), *[(1, 0)] * 7, (1, -3 * HOUR), (1, 0), (1, 0), (1, 2 * HOUR), (1, 0)])
    assert found == [(i * S, "") for i in range(1, 15)]


def test_after_a_step_back_no_time_is_said_twice() -> None:
    found = taken([(1, 0)] * 20 + [(1, -8 * S)] + [(1, 0)] * 30)
    said = [one.at_us - T0 for one in found if one.at_us is not None]
    assert said == sorted(set(said))
    assert [one.step for one in found if one.step] == ["back"]
    silent = [place for place, one in enumerate(found) if one.at_us is None]
    # stamps ran on for ten seconds; then eight seconds less are on the clock, and those are waited out
    assert silent == list(range(30, 38)) and found[38].at_us == T0 + 31 * S
    assert [one.broken for one in found if one.broken] == [Break("clock_set_back", T0 + 30 * S, T0 + 30 * S)]


def test_a_step_back_by_less_than_a_period_breaks_nothing() -> None:
    found = taken([(10, 0)] * 3 + [(10, -2 * S)] + [(10, 0)] * 3)
    assert [one.at_us - T0 for one in found if one.at_us is not None] == [t * S for t in (10, 20, 30, 40, 48, 58, 68)]
    assert not any(one.broken for one in found)


def test_a_clock_that_is_set_back_to_a_time_that_was_never_said_begins_anew_there() -> None:
    found = taken([(1, 0)] + [(1, -365 * DAY)] + [(1, 0)] * 11)
    assert not any(one.at_us is None for one in found)
    assert found[11].at_us == T0 + 12 * S - 365 * DAY
    assert found[11].broken == Break("clock_set_back", T0 + 11 * S, T0 + 11 * S)


def test_time_that_was_said_long_ago_is_not_said_again_by_a_clock_that_is_wrong_now() -> None:
    said = SaidTime([(T0 - 30 * DAY, T0)])
    found = stamps([(1, 0)] * 3 + [(1, -DAY)] + [(3600, 0)] * 23 + [(3600, 0), (1, 0)], said)
    assert [at for at, _ in found[4:]] == [None] * 24 + [5 * S]


def test_no_batch_spans_what_was_said_by_another_clock() -> None:
    said = SaidTime([(T0 + 100 * S, T0 + 200 * S)])
    found = taken([(10, 0)] * 9 + [(10, 0)] * 12, said)
    assert [one.at_us is None for one in found] == [False] * 9 + [True] * 11 + [False]
    assert found[-1].broken is None and found[9].broken == Break("clock_set_back", T0 + 90 * S, T0 + 200 * S)
    over = taken([(50, 0), (300, 0)], SaidTime([(T0 + 100 * S, T0 + 200 * S)]))
    assert over[1].broken == Break("clock_set_back", T0 + 50 * S, T0 + 350 * S)


@pytest.mark.parametrize(("away_us", "reason"), [(MOST_BRIDGED_US, ""), (MOST_BRIDGED_US + 1, "outage")])
def test_a_week_is_bridged_and_no_more(away_us: int, reason: str) -> None:
    [stamp] = taken([(0, 0)], SaidTime([(T0 - away_us - S, T0 - away_us)]), T0 - away_us)
    assert (stamp.broken.reason if stamp.broken else "") == reason


@pytest.mark.parametrize(("ahead_s", "silent"), [(-100, 0), (3, 3), (250, 250), (7200, 7200)])
def test_a_restart_does_not_say_again_what_an_agent_with_a_wrong_clock_said(ahead_s: int, silent: int) -> None:
    last_us = T0 + ahead_s * S
    found = taken([(1, 0)] * 7210, SaidTime([(T0 - 200 * S, last_us)]), last_us)
    assert [one.at_us for one in found].count(None) == silent
    assert bool(found[0].broken) == (ahead_s > 0)


def test_stretches_join_where_they_touch_and_those_left_longest_ago_go_first() -> None:
    said = SaidTime([(10, 20), (40, 50), (20, 40)])
    assert said.dump() == b"[[10,50]]"
    for place in range(100, 200):
        said.add(10 * place, 10 * place + 1)
    kept = SaidTime.load(said.dump())
    assert kept.held_until(1991) == 1991 and kept.held_until(20) is None
    assert kept.is_between(1981, 1990) is False and kept.is_between(1981, 1991) is True


@pytest.mark.parametrize("data", [None, b"", b"{", b"[1]", b'[["a","b"]]', b"{}"])
def test_a_memory_that_can_t_be_read_is_none(data: bytes | None) -> None:
    assert SaidTime.load(data).dump() == b"[]"
