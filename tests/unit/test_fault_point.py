"""Injected faults: at the n-th passing, once a folder, and never one that could not strike."""

import asyncio
from pathlib import Path

import pytest

from tests.fault_harness.fault_point import FaultPoints, Injected, read_faults

POINTS = ("here", "there")


def passings(points: FaultPoints, point: str, count: int) -> list[int]:
    """At which of `count` passings an exception was injected."""
    struck = []
    for number in range(1, count + 1):
        try:
            points.hit(point)
        except Injected:
            struck.append(number)
    return struck


def test_a_fault_strikes_at_the_nth_passing_and_not_again_in_the_same_folder(tmp_path: Path) -> None:
    faults = read_faults("raise:here:3,raise:there:1", POINTS)
    first = FaultPoints(faults, tmp_path)
    assert passings(first, "here", 5) == [3]
    again = FaultPoints(faults, tmp_path)
    assert passings(again, "here", 5) == []
    assert passings(again, "there", 2) == [1]
    assert passings(FaultPoints(faults, tmp_path / "other"), "here", 5) == [3]


def test_two_faults_at_one_point_strike_one_after_the_other(tmp_path: Path) -> None:
    points = FaultPoints(read_faults("raise:here:1,raise:here:2", POINTS), tmp_path)
    assert passings(points, "here", 4) == [1, 2]


def test_a_cancelled_task_ends_at_its_next_wait(tmp_path: Path) -> None:
    points = FaultPoints(read_faults("cancel:here:1", POINTS), tmp_path)

    async def body() -> None:
        points.hit("here")
        await asyncio.sleep(5)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(body())


@pytest.mark.parametrize("text", ["kill:nowhere:1", "explode:here:1", "kill:here", "kill:here:0", "kill:here:x"])
def test_a_fault_that_could_never_strike_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="say ACTION:POINT:N"):
        read_faults(text, POINTS)
