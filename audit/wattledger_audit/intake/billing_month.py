"""Months, quarters and ranges as one period cell writes them: `2026-10`, `Oktober 2026`, `01.10.2026 - 31.10.2026`."""

import re
from datetime import date
from typing import NamedTuple

from wattledger_audit.intake.month_name import month_number

_YEAR_FIRST = re.compile(r"(20\d\d)[-/. ]?(\d{1,2})")
_MONTH_FIRST = re.compile(r"(\d{1,2})[-/. ](20\d\d)")
_NAMED = re.compile(r"([^\W\d_]{3,9})\.?[\s\-/,']*(20\d\d|\d\d)|(20\d\d)[\s\-/,]*([^\W\d_]{3,9})\.?")
_QUARTER = re.compile(r"q([1-4])[\s\-/]*(20\d\d)|(20\d\d)[\s\-/]*q([1-4])", re.IGNORECASE)
_BETWEEN = re.compile(
    r"\s+(?:-|–|—|to|bis|until|through|thru|→)\s+|\s*(?:–|—|→|\.\.+|/(?=\d{4}-\d\d-\d\d))\s*|(?<=\d{4})-(?=\d\d?\.)"
)


class Days(NamedTuple):
    """Whole days, `after` the first one that is not in it."""

    first: date
    after: date


def month_days(year: int, month: int, months: int = 1) -> Days:
    """A month, or several from it on."""
    last = year * 12 + month - 1 + months
    return Days(date(year, month, 1), date(last // 12, last % 12 + 1, 1))


def read_month(text: str) -> Days | None:
    """The days of a month or quarter; None for anything else, a date or a range among it."""
    bare = " ".join(text.strip().split())
    if found := _QUARTER.fullmatch(bare):
        quarter, year = int(found[1] or found[4]), int(found[2] or found[3])
        return month_days(year, quarter * 3 - 2, 3)
    if found := _YEAR_FIRST.fullmatch(bare):
        return _checked(int(found[1]), int(found[2]))
    if found := _MONTH_FIRST.fullmatch(bare):
        return _checked(int(found[2]), int(found[1]))
    if found := _NAMED.fullmatch(bare):
        year_text, name = (found[2], found[1]) if found[1] else (found[3], found[4])
        return _checked(int(year_text) + (2000 if len(year_text) == 2 else 0), month_number(name) or 0)
    return None


def split_range(text: str) -> tuple[str, str] | None:
    """The two ends of a range in one cell, as written."""
    parts = [part.strip() for part in _BETWEEN.split(text.strip(), maxsplit=1)]
    return (parts[0], parts[1]) if len(parts) == 2 and all(parts) else None


def _checked(year: int, month: int) -> Days | None:
    return month_days(year, month) if 1 <= month <= 12 else None
