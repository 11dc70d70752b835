"""Which time is audited: the period asked for, else the months that the files are about."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from wattledger_core.units import US_PER_DAY, US_PER_HOUR
from wattledger_streams.tariff_file_zone import UnclearTime, utc_us

from wattledger_audit.assessment.run_book import NONE_US, RunBook
from wattledger_audit.intake.record import BillingLine
from wattledger_audit.intake.refusal import InputRefused

_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOSTLY_PERCENT = 90


class PeriodRefused(ValueError):
    """A period that can't be read; the message says how to write one."""


@dataclass(frozen=True, slots=True)
class Period:
    """`[start_us, end_us)`; `why` says where it is from."""

    start_us: int
    end_us: int
    zone: ZoneInfo
    why: str

    @property
    def title(self) -> str:
        """`2026-10` for a local month, else its two ends."""
        start, end = self.local(self.start_us), self.local(self.end_us)
        if start == month_start(start) and end == month_start(start + timedelta(days=32)):
            return f"{start:%Y-%m}"
        return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"

    @property
    def hours(self) -> int:
        """Whole hours of it: 745 for October 2026 in Berlin."""
        return (self.end_us - self.start_us) // US_PER_HOUR

    def local(self, at_us: int) -> datetime:
        """Wall clock of the period's zone, without an offset."""
        return (_EPOCH + timedelta(microseconds=at_us)).astimezone(self.zone).replace(tzinfo=None)


def month_start(moment: datetime) -> datetime:
    """Midnight of the first day of a moment's month."""
    return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def parse_period(text: str, zone: ZoneInfo) -> Period:
    """`2026-10`, or two ends `2026-10-01..2026-10-15` (the second is the first moment after). Raises PeriodRefused."""
    if _MONTH.fullmatch(text):
        start = datetime.fromisoformat(f"{text}-01")
        return _between(start, month_start(start + timedelta(days=32)), zone, "asked for")
    first, mark, last = text.partition("..")
    try:
        if not mark:
            raise UnclearTime(f"{text!r} has no two ends")
        start_us, end_us = (
            utc_us(f"{part}-01" if _MONTH.fullmatch(part) else part, zone) for part in (first.strip(), last.strip())
        )
    except UnclearTime as error:
        raise PeriodRefused(
            f"--period {text!r}: {error}: write a month as 2026-10, or two ends as 2026-10-01..2026-10-15"
        ) from None
    if start_us >= end_us:
        raise PeriodRefused(f"--period {text!r}: it ends before it starts: swap its ends")
    return Period(start_us, end_us, zone, "asked for")


def _between(start: datetime, end: datetime, zone: ZoneInfo, why: str) -> Period:
    return Period(utc_us(start.isoformat(), zone), utc_us(end.isoformat(), zone), zone, why)


def default_period(runs: RunBook, billing: Sequence[BillingLine], zone: ZoneInfo) -> Period:
    """The months that are billed and used; without billing, the month that holds most of the usage, or all its days.

    Raises `InputRefused` when usage and billing are of different months, or when there is neither.
    """
    used = _used(runs)
    billed = _billed(billing)
    if used is None and billed is None:
        raise InputRefused("no file has a run or a billed line with a time: there is nothing to audit")
    if billed is None and used is not None:
        return _of_usage(runs, used, zone)
    assert billed is not None
    months = _months(*billed, zone)
    if used is None:
        return Period(*months, zone, "the months that are billed")
    start_us, end_us = max(months[0], _months(*used, zone)[0]), min(months[1], _months(*used, zone)[1])
    if start_us >= end_us:
        named = [f"{Period(*_months(*hull, zone), zone, '').title}" for hull in (used, billed)]
        raise InputRefused(
            f"the usage is of {named[0]} and the billing of {named[1]}: give files of the same time, or say --period"
        )
    return Period(start_us, end_us, zone, "the months that are both used and billed")


def _used(runs: RunBook) -> tuple[int, int] | None:
    first_us, last_us = 1 << 62, NONE_US
    for start_us, end_us in zip(runs.start_us, runs.end_us, strict=True):
        if start_us != NONE_US:
            first_us = min(first_us, start_us)
            last_us = max(last_us, end_us, start_us + 1)
    return (first_us, last_us) if last_us != NONE_US else None


def _billed(billing: Sequence[BillingLine]) -> tuple[int, int] | None:
    """From the first to the last service period; a one-off in another month moves nothing."""
    lines = [line for line in billing if line.category in ("usage", "commitment", "shortfall")] or list(billing)
    if not lines:
        return None
    return min(line.start_us for line in lines), max(line.end_us for line in lines)


def _months(start_us: int, end_us: int, zone: ZoneInfo) -> tuple[int, int]:
    probe = Period(start_us, end_us, zone, "")
    first, last = month_start(probe.local(start_us)), probe.local(end_us - 1)
    found = _between(first, month_start(month_start(last) + timedelta(days=32)), zone, "")
    return found.start_us, found.end_us


def _of_usage(runs: RunBook, used: tuple[int, int], zone: ZoneInfo) -> Period:
    by_month: dict[tuple[int, int], int] = {}
    memo: dict[int, tuple[int, int]] = {}
    total = 0
    for start_us, end_us in zip(runs.start_us, runs.end_us, strict=True):
        if start_us == NONE_US or end_us <= start_us:
            continue
        day = start_us // US_PER_DAY
        month = memo.get(day)
        if month is None or not month[0] <= start_us < month[1]:
            month = memo[day] = _months(start_us, start_us + 1, zone)
        by_month[month] = by_month.get(month, 0) + end_us - start_us
        total += end_us - start_us
    best = max(sorted(by_month), key=lambda month: by_month[month], default=None)
    if best is not None and by_month[best] * 100 >= total * _MOSTLY_PERCENT and used[1] - used[0] >= 20 * US_PER_DAY:
        return Period(*best, zone, "the month that holds most of the usage")
    probe = Period(*used, zone, "")
    first = probe.local(used[0]).replace(hour=0, minute=0, second=0, microsecond=0)
    last = probe.local(used[1] - 1).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return _between(first, last, zone, "the days of the usage")
