"""Local time of a zone as µs since the epoch UTC, with what a clock change shows twice or never told apart."""

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_MICROSECOND = timedelta(microseconds=1)
_NONE = timedelta()


def zoned_us(moment: datetime) -> int:
    """A moment that carries its offset, in µs since the epoch."""
    return (moment - _EPOCH_UTC) // _MICROSECOND


def local_moments_us(moment: datetime, zone: ZoneInfo) -> tuple[int, ...]:
    """The UTC moments at which clocks of the zone show this: one, two in the hour that comes twice (the earlier
    first), none in the hour that is left out."""
    first = zone.utcoffset(moment.replace(fold=0)) or _NONE
    second = zone.utcoffset(moment.replace(fold=1)) or _NONE
    if first == second:
        return ((moment - _EPOCH - first) // _MICROSECOND,)
    if first < second:
        return ()
    return ((moment - _EPOCH - first) // _MICROSECOND, (moment - _EPOCH - second) // _MICROSECOND)


@lru_cache(maxsize=65_536)
def day_start_us(day: date, zone: ZoneInfo) -> int:
    """When a day starts in a zone: its first moment, also where midnight is left out or comes twice."""
    midnight = datetime(day.year, day.month, day.day)
    return (midnight - _EPOCH - (zone.utcoffset(midnight) or _NONE)) // _MICROSECOND


def utc_day_us(day: date) -> int:
    """Midnight UTC of a day."""
    return (day.toordinal() - _EPOCH_DAY) * DAY_US
