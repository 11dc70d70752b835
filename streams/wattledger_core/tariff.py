"""Time-of-use tariffs: a local week of quarter-hours, expanded to UTC segments. Owns no time zone: offsets come in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from wattledger_core.units import QUARTER_US, US_PER_DAY

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
QUARTERS_PER_DAY = US_PER_DAY // QUARTER_US
_QUARTERS_PER_WEEK = 7 * QUARTERS_PER_DAY
_EPOCH_WEEKDAY = 3
"""1970-01-01 was a Thursday."""


class TariffRefused(ValueError):
    """A tariff that doesn't say exactly one rate for each quarter-hour of the local week."""


@dataclass(frozen=True, slots=True)
class Period:
    """A rate per kWh on the given weekdays (0 is Monday), by local wall clock, over quarters `[from, to)` of the day.

    `to_quarter <= from_quarter` runs over midnight, and belongs to the day on which it starts.
    """

    days: tuple[int, ...]
    from_quarter: int
    to_quarter: int
    per_kwh: Decimal

    def quarters(self) -> list[int]:
        """The quarter-hours of the week that it covers, Monday 00:00 being 0."""
        length = self.to_quarter - self.from_quarter
        if length <= 0:
            length += QUARTERS_PER_DAY
        return [
            (day * QUARTERS_PER_DAY + self.from_quarter + step) % _QUARTERS_PER_WEEK
            for day in self.days
            for step in range(length)
        ]


class Segment(NamedTuple):
    """One rate over `[start_us, end_us)` UTC, on the quarter-hour grid."""

    start_us: int
    end_us: int
    per_kwh: Decimal


def week_rates(periods: Sequence[Period], default_per_kwh: Decimal | None) -> list[Decimal]:
    """The rate of each quarter-hour of the local week, Monday 00:00 first.

    Raises `TariffRefused` where two periods overlap, or where none holds and there is no default.
    """
    rates: list[Decimal | None] = [None] * _QUARTERS_PER_WEEK
    for number, period in enumerate(periods, start=1):
        for quarter in period.quarters():
            if rates[quarter] is not None:
                raise TariffRefused(
                    f"period {number} overlaps one before it at {_clock(quarter)}: cut one of them, "
                    "so that exactly one rate holds at any time"
                )
            rates[quarter] = period.per_kwh
    filled = [default_per_kwh if rate is None else rate for rate in rates]
    known = [rate for rate in filled if rate is not None]
    if len(known) < len(filled):
        raise TariffRefused(
            f"no period holds at {_clock(filled.index(None))} and there is no default: give default_per_kwh"
        )
    return known


def expand(rates: Sequence[Decimal], start_us: int, end_us: int, offset_us: Callable[[int], int]) -> list[Segment]:
    """UTC segments of a local week's rates over `[start_us, end_us)`, longest possible, in order.

    `offset_us(at_us)` is local time minus UTC at a UTC moment, so a clock change needs no rule of its own: an hour
    that comes twice has its rate twice, one that never comes has none. Raises `TariffRefused` when the ends or an
    offset are off the quarter-hour grid.
    """
    for name, at_us in (("start", start_us), ("end", end_us)):
        if at_us % QUARTER_US:
            raise TariffRefused(f"the tariff's {name} {at_us} is not on the UTC quarter-hour grid")
    segments: list[Segment] = []
    for at_us in range(start_us, end_us, QUARTER_US):
        shift_us = offset_us(at_us)
        if shift_us % QUARTER_US:
            raise TariffRefused(f"the zone's offset at {at_us} is {shift_us} µs, not whole quarter-hours")
        local_quarter = (at_us + shift_us) // QUARTER_US
        per_kwh = rates[(local_quarter + _EPOCH_WEEKDAY * QUARTERS_PER_DAY) % _QUARTERS_PER_WEEK]
        if segments and segments[-1].per_kwh == per_kwh:
            segments[-1] = segments[-1]._replace(end_us=at_us + QUARTER_US)
        else:
            segments.append(Segment(at_us, at_us + QUARTER_US, per_kwh))
    return segments


def _clock(quarter: int) -> str:
    day, rest = divmod(quarter, QUARTERS_PER_DAY)
    return f"{DAYS[day]} {rest // 4:02}:{rest % 4 * 15:02}"
