"""Event time of ticks: NTP's small corrections, clocks set forward and back, suspends, restarts."""

import pytest
from wattledger_agent.stamps import MOST_LEAD_US, PATIENCE_US, StampKeeper

S = 1_000_000
T0 = 1_767_225_600 * S
HOUR = 3600 * S


def stamps(moves: list[tuple[int, int]], last_us: int = 0) -> list[tuple[int | None, str]]:
    """Stamps (relative to T0) of a run of (seconds of boot time since the tick before, step of the wall clock)."""
    wall, boot = T0, 5 * S
    keeper = StampKeeper(wall, boot, last_us)
    found: list[tuple[int | None, str]] = []
    for seconds, step_us in moves:
        wall += seconds * S + step_us
        boot += seconds * S
        stamp = keeper.stamp(wall, boot)
        found.append((None if stamp.at_us is None else stamp.at_us - T0, stamp.step))
    return found


def test_a_quiet_clock_gives_wall_time() -> None:
    assert stamps([(1, 0), (1, 0), (1, 0)]) == [(S, ""), (2 * S, ""), (3 * S, "")]


def test_small_corrections_are_followed_and_stamps_still_rise() -> None:
    assert stamps([(1, 300_000), (1, -400_000), (0, -100_000), (1, 0)]) == [
        (1_300_000, ""),
        (1_900_000, ""),
        (1_900_001, ""),
        (2_800_000, ""),
    ]


def test_a_suspend_is_a_gap_and_no_step() -> None:
    assert stamps([(1, 0), (7 * 3600, 0), (1, 0)]) == [(S, ""), (S + 7 * HOUR, ""), (2 * S + 7 * HOUR, "")]


def test_a_step_that_is_taken_back_at_once_leaves_no_trace() -> None:
    assert stamps([(1, 0), (1, HOUR), (1, 0), (1, -HOUR), (1, 0)]) == [(i * S, "") for i in range(1, 6)]


def test_a_step_forward_is_believed_when_it_lasts() -> None:
    found = stamps([(1, HOUR)] + [(1, 0)] * 11)
    patience_s = PATIENCE_US // S
    assert found[:patience_s] == [(i * S, "") for i in range(1, patience_s + 1)]
    assert found[patience_s:] == [(HOUR + (patience_s + 1) * S, "forward"), (HOUR + (patience_s + 2) * S, "")]


def test_after_a_step_back_no_time_is_said_twice() -> None:
    found = stamps([(1, 0)] * 20 + [(1, -8 * S)] + [(1, 0)] * 30)
    said = [at for at, _ in found if at is not None]
    assert said == sorted(set(said))
    assert [step for _, step in found if step] == ["back"]
    silent = [place for place, (at, _) in enumerate(found) if at is None]
    # stamps ran on for ten seconds; then eight seconds less are on the clock, and those are waited out
    assert silent == list(range(30, 38)) and found[38][0] == 31 * S


def test_a_step_back_of_a_year_silences_for_no_longer_than_batches_can_lead() -> None:
    found = stamps([(1, 0)] + [(1, -365 * 24 * HOUR)] + [(1, 0)] * 10 + [(MOST_LEAD_US // S, 0), (1, 0)])
    assert found[-1][0] is not None and found[-1][0] < -364 * 24 * HOUR
    assert found[11] == (None, "back")


@pytest.mark.parametrize(("ahead_s", "silent"), [(-100, 0), (3, 3), (250, 250)])
def test_a_restart_does_not_say_again_what_an_agent_with_a_wrong_clock_said(ahead_s: int, silent: int) -> None:
    found = stamps([(1, 0)] * 260, last_us=T0 + ahead_s * S)
    assert [at for at, _ in found].count(None) == silent
