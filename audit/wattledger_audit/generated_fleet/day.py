"""The demo's day: 9 November 2026, UTC. Owns its bounds and how the tables write times."""

from datetime import UTC, datetime

from wattledger_core.units import US_PER_DAY, US_PER_HOUR, US_PER_S

DAY_START_US = int(datetime(2026, 11, 9, tzinfo=UTC).timestamp()) * US_PER_S
DAY_END_US = DAY_START_US + US_PER_DAY
TAIL_END_US = DAY_END_US + US_PER_HOUR
"""Ticks go on until here, so that everything of the day is cut off and comes out."""
MINUTE_US = 60 * US_PER_S
SITE = "fra1"
CLUSTER = "fra1-slurm"


def at(clock: str) -> int:
    """Microseconds since the epoch of `HH:MM`, `HH:MM:SS` or `HH:MM:SS.ffffff` on the demo's day; 24:00 is its end.

    Raises ValueError for anything else.
    """
    whole, _, fraction = clock.partition(".")
    hours, minutes, *seconds = whole.split(":")
    if len(seconds) > 1 or len(fraction) > 6:
        raise ValueError(f"time {clock!r} is not HH:MM, HH:MM:SS or HH:MM:SS.ffffff")
    second = int(hours) * 3600 + int(minutes) * 60 + int(seconds[0] if seconds else 0)
    return DAY_START_US + second * US_PER_S + int(fraction.ljust(6, "0"))


def second_of_day(at_us: int) -> int:
    """The first whole second of the day at or after a time: when a 1 Hz sampler first sees what began then."""
    return -(-(at_us - DAY_START_US) // US_PER_S)
