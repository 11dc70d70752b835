"""Stamps that prove themselves: ISO 8601 with an offset, or an epoch by its digits. Local ones need a named zone."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from wattledger_core.units import US_PER_S

from wattledger_audit.intake.refusal import InputRefused

NO_TIME = frozenset(
    {
        "",
        "-",
        "null",
        "NULL",
        "none",
        "None",
        "NONE",
        "nan",
        "NaN",
        "NaT",
        "n/a",
        "N/A",
        "unknown",
        "Unknown",
        "\\N",
        "0",
    }
)
"""What sources write where there is no time (`0` is an unset epoch)."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
_MOST_TEXTS = 100_000
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_EPOCH_UNITS = {9: "s", 10: "s", 12: "ms", 13: "ms", 15: "us", 16: "us", 18: "ns", 19: "ns"}
_US_PER_UNIT = {"s": Decimal(US_PER_S), "ms": Decimal(1000), "us": Decimal(1), "ns": Decimal("0.001")}
_ZONE_WORD = re.compile(r"\s*(?:UTC|GMT|utc|gmt|z)$")
_BEFORE_OFFSET = re.compile(r"\s+(?=[+-]\d\d:?\d{0,2}$)")


class BadTime(ValueError):
    """A text that is no usable time; the message is `code: words`."""


class NotIso(ValueError):
    """A date in another form than ISO 8601 or an epoch: only the whole file can prove which."""


class IsoStamps:
    """Reads the stamps of one file. `zone` is what stamps without an offset are in; None: the file is refused."""

    def __init__(self, source_name: str, zone: ZoneInfo | None) -> None:
        self._name = source_name
        self._zone = zone
        self._known: dict[str, int] = {}
        self._units: dict[str, str] = {}
        self._hours: dict[str, timedelta] = {}

    def read(self, text: str, line: int, column: str, zone: ZoneInfo | None = None) -> int:
        """µs UTC. `zone`: what the column itself says it is in (`start_utc`).

        Raises BadTime for a row's own fault, NotIso for another form, InputRefused where a zone must be named."""
        known = self._known.get(text)
        if known is not None:
            return known
        if text[4:5] != "-" and _NUMBER.fullmatch(text):
            return self._epoch(text, column)
        stamp = _parsed(text)
        if stamp.tzinfo is not None:
            at_us = (stamp - _EPOCH) // _US
        elif zone is not None:
            return self._local_us(stamp, text, zone)
        elif self._zone is None:
            raise InputRefused(
                f"{self._name}, line {line}: {column} {text!r} does not say its time zone: "
                "say --timezone UTC or the zone it is in, or write the offset"
            )
        else:
            at_us = self._local_us(stamp, text, self._zone)
        if len(self._known) >= _MOST_TEXTS:
            self._known.clear()
        self._known[text] = at_us
        return at_us

    def _epoch(self, text: str, column: str) -> int:
        """An epoch whose digits say its unit; all values of a column must be of one unit."""
        unit = _EPOCH_UNITS.get(len(text.partition(".")[0]))
        if unit is None:
            raise NotIso(text)
        if self._units.setdefault(column, unit) != unit:
            raise BadTime(f"mixed_epoch: the column's first values are epoch {self._units[column]}; this one is {unit}")
        return int(Decimal(text) * _US_PER_UNIT[unit])

    def _local_us(self, stamp: datetime, text: str, zone: ZoneInfo) -> int:
        offset = self._hours.get(text[:13])
        if offset is None:
            around = {offset_at for at in _around(stamp) for offset_at in _offsets(at, zone)}
            if len(around) > 1:
                return _settled_us(stamp, zone)
            offset = self._hours[text[:13]] = around.pop()
        return (stamp.replace(tzinfo=UTC) - _EPOCH - offset) // _US


def _parsed(text: str) -> datetime:
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        try:
            stamp = datetime.fromisoformat(_BEFORE_OFFSET.sub("", _ZONE_WORD.sub("+00:00", text)))
        except ValueError:
            if text[:4].isdigit() and text[4:5] == "-":
                raise BadTime("bad_time: no such date and time; write it as 2026-10-01T08:00:00+00:00") from None
            raise NotIso(text) from None
    if len(text) <= 10 and ":" not in text:
        raise BadTime("date_without_time: a day is no instant; write it as 2026-10-01T08:00:00+00:00")
    return stamp


def _around(stamp: datetime) -> Iterator[datetime]:
    """Instants all through the stamp's clock hour, so that an offset found is the whole hour's."""
    hour = stamp.replace(minute=0, second=0, microsecond=0)
    for minute in (0, 15, 30, 45):
        yield hour.replace(minute=minute)
    yield hour.replace(minute=59, second=59)


def _offsets(wall: datetime, zone: ZoneInfo) -> tuple[timedelta, timedelta]:
    first, second = (wall.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    assert first is not None and second is not None  # a ZoneInfo always has one
    return first, second


def _settled_us(stamp: datetime, zone: ZoneInfo) -> int:
    first, second = _offsets(stamp, zone)
    if first == second:
        return (stamp.replace(tzinfo=UTC) - _EPOCH - first) // _US
    if first > second:
        raise BadTime(f"ambiguous_time: the clocks of {zone} show this time twice; write it with its offset")
    raise BadTime(f"nonexistent_time: the clocks of {zone} skip this time; write it with its offset")
