"""Time-of-use weeks and their expansion to UTC; offsets are plain functions here."""

from decimal import Decimal

import pytest
from wattledger_core.tariff import Period, Segment, TariffRefused, expand, week_rates
from wattledger_core.units import QUARTER_US, US_PER_DAY, US_PER_HOUR

LOW, HIGH = Decimal("0.1"), Decimal("0.3")
WORKDAYS, FRIDAY, SUNDAY = (0, 1, 2, 3, 4), (4,), (6,)
THURSDAY_US = 0
"""1970-01-01 was a Thursday."""


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_starts() -> None:
    rates = week_rates([Period(FRIDAY, 22 * 4, 6 * 4, LOW)], HIGH)
    low = [quarter for quarter, rate in enumerate(rates) if rate == LOW]
    assert low == list(range(4 * 96 + 88, 5 * 96 + 24))


def test_a_sunday_window_over_midnight_runs_into_monday() -> None:
    rates = week_rates([Period(SUNDAY, 23 * 4, 4, LOW)], HIGH)
    assert [quarter for quarter, rate in enumerate(rates) if rate == LOW] == [0, 1, 2, 3, 668, 669, 670, 671]


def test_a_window_to_24_00_ends_at_midnight() -> None:
    rates = week_rates([Period(FRIDAY, 92, 96, LOW)], HIGH)
    assert [quarter for quarter, rate in enumerate(rates) if rate == LOW] == list(range(476, 480))


def test_periods_that_overlap_are_refused() -> None:
    with pytest.raises(TariffRefused, match="period 2 overlaps one before it at sat 05:00"):
        week_rates([Period(FRIDAY, 88, 24, LOW), Period((5,), 20, 40, HIGH)], HIGH)


def test_a_week_with_a_hole_and_no_default_is_refused() -> None:
    with pytest.raises(TariffRefused, match="no period holds at sat 00:00"):
        week_rates([Period(WORKDAYS, 0, 96, LOW)], None)


def test_a_whole_week_needs_no_default() -> None:
    assert set(week_rates([Period(tuple(range(7)), 0, 96, LOW)], None)) == {LOW}


def test_segments_are_as_long_as_the_rate_stays() -> None:
    rates = week_rates([Period(WORKDAYS, 32, 72, HIGH)], LOW)
    # from Thursday 00:00 UTC, two days in a zone at +01:00: high from 08:00 to 18:00 local on both
    found = expand(rates, THURSDAY_US, 2 * US_PER_DAY, lambda _: US_PER_HOUR)
    hour = US_PER_HOUR
    assert found == [
        Segment(0, 7 * hour, LOW),
        Segment(7 * hour, 17 * hour, HIGH),
        Segment(17 * hour, 31 * hour, LOW),
        Segment(31 * hour, 41 * hour, HIGH),
        Segment(41 * hour, 48 * hour, LOW),
    ]


def test_a_zone_at_five_forty_five_is_on_the_grid() -> None:
    rates = week_rates([Period(tuple(range(7)), 24, 96, HIGH)], LOW)
    shift_us = 5 * US_PER_HOUR + 3 * QUARTER_US
    assert expand(rates, 0, US_PER_HOUR, lambda _: shift_us) == [
        Segment(0, QUARTER_US, LOW),
        Segment(QUARTER_US, US_PER_HOUR, HIGH),
    ]


@pytest.mark.parametrize(("start_us", "shift_us"), [(1, 0), (0, 17 * 60 * 1_000_000)])
def test_what_is_off_the_grid_is_refused(start_us: int, shift_us: int) -> None:
    with pytest.raises(TariffRefused, match="quarter-hour"):
        expand(week_rates([], LOW), start_us, US_PER_HOUR, lambda _: shift_us)
