"""A date or date-time as text taken apart: the days it can mean, its time, its offset. Knows no file."""

import re
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import NamedTuple

from wattledger_audit.intake.local_time import DAY_US
from wattledger_audit.intake.month_name import WEEKDAY, month_number

DMY, MDY, YMD = "dmy", "mdy", "ymd"
ORDERS = (DMY, MDY, YMD)
_MINUTE_US, _HOUR_US = 60_000_000, 3_600_000_000
_YEARS = range(1970, 10_000)
_SHORT_YEARS = range(10, 50)
_SERIALS = range(32_874, 73_051)
"""Day numbers of a spreadsheet for the years 1990 to 2099."""
_SERIAL_ZERO = date(1899, 12, 30)

_TIME = r"(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2})(?:[.,](?P<f>\d{1,12}))?)?(?:\s*(?P<half>[ap])\.?m\.?)?(?: uhr)?"
_ZONE = r"(?P<zone>z|utc|gmt|(?:utc|gmt)?[+-]\d{2}(?::?\d{2})?)(?: [a-z]{3,5})?"
_TAIL = re.compile(rf"(?:(?:t|[\s,]+|[\s,]*\bat\s+|\s+um\s+){_TIME})?(?:\s*{_ZONE})?", re.ASCII)
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:t?(\d\d)(\d\d)(\d\d)?(z)?)?", re.ASCII)
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)", re.ASCII)
_NUMERIC = re.compile(r"(\d{1,2})([-/.])\s?(\d{1,2})\2\s?(\d{4}|\d{2})(?!\d)", re.ASCII)
_DAY_MONTH = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?[\s.\-/,]*([a-zä]{3,9})\.?[\s\-/,']*(\d{4}|\d{2})(?![\d:])")
_MONTH_DAY = re.compile(r"([a-zä]{3,9})\.?[\s\-/]*(\d{1,2})(?:st|nd|rd|th)?[\s,\-/]+(\d{4})(?![\d:])")
_YEAR_MONTH = re.compile(r"(\d{4})[\s\-/]*([a-zä]{3,9})\.?[\s\-/]*(\d{1,2})(?!\d)")
_SERIAL = re.compile(r"(\d{5})(?:[.,](\d+))?", re.ASCII)
_WEEKDAY = re.compile(rf"{WEEKDAY}[.,]*\s+(?=\S)")


class UnclearDate(ValueError):
    """No date, or not one moment. The text is a rejection's reason: `code: words`."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(f"{code}: {words}")
        self.code = code
        self.words = words


class DateText(NamedTuple):
    """`days` is what the date can mean, by order; one with an empty order where the text leaves no choice.

    `separator` is what stands between numbers of a date that has an order. `time_us` is since local midnight (None:
    a date alone); `offset_us` is local minus UTC (None: not said).
    """

    days: tuple[tuple[str, date], ...]
    separator: str
    time_us: int | None
    offset_us: int | None


@lru_cache(maxsize=65_536)
def take_apart_date(text: str) -> DateText:
    """The parts of a date. Raises `UnclearDate` for what is none, whatever the file's form."""
    low = text.strip().lower()
    serial = _SERIAL.fullmatch(low)
    if serial:
        return _serial(text, serial)
    compact = _COMPACT.fullmatch(low)
    if compact:
        return _compact(text, compact)
    low = _WEEKDAY.sub("", low, count=1) if low[:1].isalpha() else low
    days, separator, end = _days(low)
    tail = _TAIL.fullmatch(low, end)
    if not days or tail is None:
        raise no_date(text)
    return DateText(days, separator, _time_us(text, tail), _offset_us(text, tail.group("zone")))


def no_date(text: str) -> UnclearDate:
    """The refusal of a text that is no date at all."""
    shown = repr(text if len(text) <= 60 else text[:57] + "...")
    return UnclearDate("not_a_date", f"{shown} is no date that is known here: write it as 2026-03-01T12:00:00+01:00")


def _days(low: str) -> tuple[tuple[tuple[str, date], ...], str, int]:
    """What the date at the text's start can mean, its separator, and where it ends."""
    if found := _YEAR_FIRST.match(low):
        return _fixed(found.group(1), int(found.group(3)), found.group(4)), "", found.end()
    if found := _NUMERIC.match(low):
        first, separator, second, third = found.groups()
        orders = {DMY: (third, second, first)}
        if separator != ".":
            orders[MDY] = (third, first, second)
            if len(third) == 2:
                orders[YMD] = (first, second, third)
        days = ((order, _day(year, int(month), day)) for order, (year, month, day) in orders.items())
        return tuple((order, day) for order, day in days if day), separator, found.end()
    for pattern, places in ((_DAY_MONTH, (3, 2, 1)), (_MONTH_DAY, (3, 1, 2)), (_YEAR_MONTH, (1, 2, 3))):
        if found := pattern.match(low):
            year, month, day = (found.group(place) for place in places)
            return _fixed(year, month_number(month) or 0, day), "", found.end()
    return (), "", 0


def _fixed(year: str, month: int, day: str) -> tuple[tuple[str, date], ...]:
    found = _day(year, month, day)
    return (("", found),) if found else ()


def _day(year: str, month: int, day: str) -> date | None:
    number = int(year)
    if len(year) == 2:
        number = 2000 + number if number in _SHORT_YEARS else 0
    elif len(year) != 4:
        return None
    if number not in _YEARS:
        return None
    try:
        return date(number, month, int(day))
    except ValueError:
        return None


def _time_us(text: str, tail: re.Match[str]) -> int | None:
    if tail.group("h") is None:
        return None
    hour, minute, second = int(tail.group("h")), int(tail.group("m")), int(tail.group("s") or 0)
    fraction_us = int((tail.group("f") or "").ljust(6, "0")[:6])
    half = tail.group("half")
    if half:
        if not 1 <= hour <= 12:
            raise no_date(text)
        hour = hour % 12 + (12 if half == "p" else 0)
    end_of_day = hour == 24 and minute == second == fraction_us == 0
    if minute > 59 or second > 59 or (hour > 23 and not end_of_day):
        raise no_date(text)
    return hour * _HOUR_US + minute * _MINUTE_US + second * 1_000_000 + fraction_us


def _offset_us(text: str, zone: str | None) -> int | None:
    if zone is None:
        return None
    digits = zone.removeprefix("utc").removeprefix("gmt").replace(":", "")
    if digits in ("", "z"):
        return 0
    hours, minutes = int(digits[1:3]), int(digits[3:5] or 0)
    if hours > 14 or minutes > 59:
        raise no_date(text)
    return (hours * _HOUR_US + minutes * _MINUTE_US) * (-1 if digits[0] == "-" else 1)


def _serial(text: str, found: re.Match[str]) -> DateText:
    number, fraction = int(found.group(1)), Decimal(f"0.{found.group(2) or 0}")
    if number not in _SERIALS:
        raise no_date(text)
    seconds = int((fraction * 86_400).quantize(Decimal(1), ROUND_HALF_UP))
    time_us = seconds * 1_000_000 if fraction else None
    return DateText((("", _SERIAL_ZERO + timedelta(days=number)),), "", time_us, None)


def _compact(text: str, found: re.Match[str]) -> DateText:
    year, month, day, hour, minute, second, zone = found.groups()
    days = _fixed(year, int(month), day)
    if not days:
        raise no_date(text)
    if hour is None:
        return DateText(days, "", None, None)
    time_us = int(hour) * _HOUR_US + int(minute) * _MINUTE_US + int(second or 0) * 1_000_000
    if int(minute) > 59 or int(second or 0) > 59 or time_us > DAY_US:
        raise no_date(text)
    return DateText(days, "", time_us, 0 if zone else None)
