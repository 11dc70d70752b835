"""SLURM's times: stamps in every format, durations in all three shapes, and the hours of a clock change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from wattledger_audit.intake.slurm_time import (
    BadStamp,
    Held,
    StampClock,
    Twice,
    ZoneNeeded,
    duration_us,
    limit_us,
    settle,
)

S = 1_000_000
BERLIN = ZoneInfo("Europe/Berlin")
NOON_US = 1_790_769_600 * S  # 2026-09-30 12:00:00 UTC


@pytest.mark.parametrize(
    "text",
    [
        "1790769600",
        "2026-09-30T14:00:00",
        "2026-09-30 14:00:00",
        "2026-09-30T12:00:00Z",
        "2026-09-30T14:00:00+0200",
        "2026-09-30T14:00:00+02:00",
        "2026-09-30T08:00:00-04",
        "2026-09-30T17:30:00+05:30",
        "2026-09-30T12:00:00.000Z",
    ],
)
def test_one_instant_is_read_from_every_form_of_its_stamp(text: str) -> None:
    clock = StampClock(BERLIN)
    assert [clock.read(text), clock.read(text)] == [NOON_US, NOON_US]


@pytest.mark.parametrize("text", ["", "Unknown", "None", "N/A", "0"])
def test_what_slurm_does_not_know_is_no_time(text: str) -> None:
    assert StampClock(BERLIN).read(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "####",
        "Ystday 10:11",
        "Mon 12:00",
        "6 Jun 2012",
        "2026-13-01T00:00:00",
        "2026-02-30T00:00:00",
        "12:00:00",
        "1790",
    ],
)
def test_other_texts_are_rejected_with_what_to_export(text: str) -> None:
    with pytest.raises(BadStamp, match=r"unreadable_time: .*SLURM_TIME_FORMAT=%s"):
        StampClock(BERLIN).read(text)


def test_a_local_stamp_without_a_zone_is_not_guessed() -> None:
    clock = StampClock(None)
    assert clock.read("2026-09-30T14:00:00+0200") == NOON_US
    with pytest.raises(ZoneNeeded):
        clock.read("2026-09-30T14:00:00")


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"])
def test_every_quarter_of_a_year_reads_as_the_zone_says(zone: str) -> None:
    clock, place = StampClock(ZoneInfo(zone)), ZoneInfo(zone)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for _ in range(4 * 24 * 365):
        wall = at.astimezone(place)
        found = clock.read(wall.strftime("%Y-%m-%dT%H:%M:%S"))
        exact = int(at.timestamp()) * S
        assert exact in (found if isinstance(found, Twice) else (found,))
        at += timedelta(minutes=15)


def test_the_hour_that_comes_twice_is_both_instants() -> None:
    found = StampClock(BERLIN).read("2025-10-26T02:30:00")
    assert found == Twice(1_761_438_600 * S, 1_761_442_200 * S)
    assert StampClock(BERLIN).read("2025-10-26T03:00:00") == 1_761_444_000 * S


def test_the_hour_that_never_comes_is_rejected() -> None:
    with pytest.raises(BadStamp, match="nonexistent_local_time"):
        StampClock(BERLIN).read("2026-03-29T02:30:00")


TWICE = Twice(1000 * S, 4600 * S)


@pytest.mark.parametrize(
    ("start", "end", "held_s", "not_before", "expected"),
    [
        (TWICE, 8200 * S, 7200, None, Held(1000 * S, 8200 * S)),
        (TWICE, 8200 * S, 3600, None, Held(4600 * S, 8200 * S)),
        (0, TWICE, 1000, None, Held(0, 1000 * S)),
        (0, TWICE, 4601, None, Held(0, 4600 * S)),
        (TWICE, TWICE, 3600, None, Held(1000 * S, 4600 * S)),
        (TWICE, None, None, 2000 * S, Held(4600 * S, None)),
        (TWICE, Twice(1600 * S, 5200 * S), 600, 2000 * S, Held(4600 * S, 5200 * S)),
    ],
)
def test_elapsed_time_settles_a_stamp_that_came_twice(
    start: int | Twice | None, end: int | Twice | None, held_s: int | None, not_before: int | None, expected: Held
) -> None:
    assert settle(start, end, None if held_s is None else held_s * S, not_before) == expected


@pytest.mark.parametrize(
    ("start", "end", "held_s"),
    [(TWICE, None, None), (TWICE, TWICE, 0), (TWICE, 8200 * S, None), (TWICE, 8200 * S, 60)],
)
def test_a_stamp_that_nothing_settles_is_rejected(
    start: int | Twice | None, end: int | Twice | None, held_s: int | None
) -> None:
    with pytest.raises(BadStamp, match=r"ambiguous_local_time: .*TZ=UTC SLURM_TIME_FORMAT=%s"):
        settle(start, end, None if held_s is None else held_s * S, None)


@pytest.mark.parametrize(
    ("text", "span_us"),
    [
        ("00:20:32", 1232 * S),
        ("37-14:00:00", (37 * 86400 + 14 * 3600) * S),
        ("125-00:00:00", 125 * 86400 * S),
        ("01:07.402", 67_402_000),
        ("00:00.011", 11_000),
        ("03:20", 200 * S),
        ("1-00:00:01.5", 86_401_500_000),
    ],
)
def test_durations_have_three_shapes(text: str, span_us: int) -> None:
    assert duration_us(text) == span_us


@pytest.mark.parametrize("text", ["", "INVALID", "12", "1-2", "Partition_Limit"])
def test_what_is_no_duration_raises(text: str) -> None:
    with pytest.raises(ValueError, match="SLURM duration"):
        duration_us(text)


@pytest.mark.parametrize(
    ("raw", "text", "expected"),
    [
        ("90", "01:30:00", 5400 * S),
        ("", "1-00:00:00", 86400 * S),
        ("UNLIMITED", "UNLIMITED", None),
        ("Partition_Limit", "Partition_Limit", None),
        ("", "", None),
    ],
)
def test_the_raw_limit_is_in_minutes(raw: str, text: str, expected: int | None) -> None:
    assert limit_us(raw, text) == expected
