"""Time zones from the pinned `tzdata` package, never the machine's: the same sheet expands alike everywhere."""

import re
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from zoneinfo import ZoneInfo

_NAME = re.compile(r"[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+)*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class UnknownZone(ValueError):
    """No such time zone in the pinned tzdata."""


class UnclearTime(ValueError):
    """A local time that comes twice or never, or can't be read."""


def load_zone(name: str) -> ZoneInfo:
    """The zone of that IANA name. Raises `UnknownZone`."""
    parts = name.split("/") if _NAME.fullmatch(name) else []
    resource = files("tzdata").joinpath("zoneinfo", *parts)
    if not parts or not resource.is_file():
        raise UnknownZone(f"time zone {name!r} is not in tzdata: use an IANA name such as Europe/Berlin")
    with resource.open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def offset_us(zone: ZoneInfo, at_us: int) -> int:
    """Local time minus UTC at a UTC moment, in µs."""
    local = (_EPOCH + at_us * _MICROSECOND).astimezone(zone)
    return (local.utcoffset() or timedelta()) // _MICROSECOND


def utc_us(text: str, zone: ZoneInfo) -> int:
    """An ISO date or date-time as µs since the epoch; without an offset it is local time of the zone.

    Raises `UnclearTime` when it can't be read, or when clocks there show it twice or never.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UnclearTime(f"{text!r} is no date: write 2026-03-01 or 2026-03-01T12:00+01:00") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
        if moment.utcoffset() != moment.replace(fold=1).utcoffset():
            raise UnclearTime(f"{text} comes twice or never in {zone.key}: add its offset, such as +01:00")
    return (moment - _EPOCH) // _MICROSECOND
