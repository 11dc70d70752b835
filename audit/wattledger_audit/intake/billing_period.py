"""The service periods of one file: dates by proof, and whether a date-only end is the last day or the day after it."""

from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wattledger_audit.intake.billing_fixed import service_end_us
from wattledger_audit.intake.billing_month import Days, month_days, read_month, split_range
from wattledger_audit.intake.date_form import DateForm, DateProof, UnclearDate
from wattledger_audit.intake.date_text import DateText, take_apart_date
from wattledger_audit.intake.local_time import DAY_US
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.row_refused import RowRefused

_UTC = ZoneInfo("UTC")
_DAY = timedelta(days=1)
_MINUTE_US, _LAST_SECOND_US, _LAST_MINUTE_US = 60_000_000, 59_000_000, DAY_US - 60_000_000
_MOST = 100_000


class PeriodCells(NamedTuple):
    """A row's period as written: `period` a month or range, `day` one day, else `start` and `end`."""

    start: str
    end: str
    period: str
    day: str

    def ends(self) -> tuple[str, str]:
        """The texts of its two ends; the end is empty for one day, both are where it is a month."""
        if self.has_ends():
            return self.start, self.end
        if self.period:
            return ("", "") if read_month(self.period) else split_range(self.period) or (self.period, "")
        return self.day, ""

    def has_ends(self) -> bool:
        """Whether it is written as two ends; a month or a day stands in where one of them is missing."""
        return bool(self.start and self.end) or not (self.period or self.day)


@dataclass(frozen=True, slots=True)
class PeriodForm:
    """How the file writes periods. `inclusive`: a date-only end is the last day; None: no such end came."""

    dates: DateForm
    inclusive: bool | None
    titles: tuple[str, str]

    def span_us(self, cells: PeriodCells) -> tuple[int, int]:
        """The half-open service period. Raises RowRefused (`no_period`, `bad_time`, `bad_period`)."""
        start, end = cells.ends()
        month = None if cells.has_ends() else read_month(cells.period)
        if month is not None:
            return self._days_us(month)
        if not start or (cells.has_ends() and not end):
            title = self.titles[0] if not start else self.titles[1]
            raise RowRefused(title, "", "no_period: the row does not say when its service was: fill the cell")
        try:
            return self._span_us(cells, start, end)
        except UnclearDate as error:
            if cells.period and error.code == "not_a_date":
                reason = "not_a_period: no month, quarter or range that is known here: write 2026-10, or two dates"
                raise RowRefused(self.titles[0], cells.period, reason) from None
            raise RowRefused(self.titles[0], f"{start} {end}".strip(), str(error)) from None

    def _span_us(self, cells: PeriodCells, start: str, end: str) -> tuple[int, int]:
        if not end:
            day = _bare_day(self.dates, start)
            if day is None:
                raise RowRefused(self.titles[0], start, "no_period: a moment is no period: name a month or two dates")
            if cells.period and day.day != 1:
                raise RowRefused(self.titles[0], start, "no_period: one day in a column of months: write 2026-10")
            return self._days_us(month_days(day.year, day.month) if cells.period else Days(day, day + _DAY))
        start_us = self._start_us(start)
        end_us = service_end_us(start_us, self._end_us(end))
        if end_us is None:
            raise RowRefused(self.titles[1], end, f"bad_period: it ends before it starts ({start})")
        return start_us, end_us

    def _days_us(self, days: Days) -> tuple[int, int]:
        zone = self.dates.zone or _UTC
        return self.dates.day_start_us(days.first, zone), self.dates.day_start_us(days.after, zone)

    def _start_us(self, text: str) -> int:
        day = _bare_day(self.dates, text)
        return self.dates.parse(text) if day is None else self.dates.day_start_us(day)

    def _end_us(self, text: str) -> int:
        day = _bare_day(self.dates, text)
        if day is not None:
            return self.dates.day_start_us(day + _DAY if self.inclusive else day)
        return self.dates.parse(text) + _to_next_edge_us(take_apart_date(text).time_us or 0)


@dataclass(slots=True)
class PeriodProof:
    """Collects what every period of a file proves. `who` is whom a row is for, so that rows that follow are seen."""

    _dates: DateProof = field(default_factory=DateProof)
    _times: bool = False
    _pairs: dict[tuple[str, str], int] = field(default_factory=dict)
    _rows: dict[tuple[str, ...], set[tuple[str, str]]] = field(default_factory=dict)

    def add(self, line: int, titles: tuple[str, str], who: tuple[str, ...], cells: PeriodCells) -> None:
        start, end = ends = cells.ends()
        for title, text in zip(titles, ends, strict=True):
            if text:
                self._dates.add(line, title, text)
                self._times = self._times or _has_local_time(text)
        if start and end and len(self._rows) < _MOST:
            self._pairs.setdefault(ends, line)
            self._rows.setdefault(who, set()).add(ends)

    def decide(self, source_name: str, options: ReadOptions, titles: tuple[str, str], said: bool | None) -> PeriodForm:
        """The file's form; `said` is what the end's header says. Raises InputRefused that names the flag."""
        dates = self._dates.decide(source_name, options, None if self._times else options.days_in or _UTC)
        if options.period_end:
            return PeriodForm(dates, options.period_end == "inclusive", titles)
        if said is not None:
            return PeriodForm(dates, said, titles)
        return PeriodForm(dates, self._inclusive(source_name, dates), titles)

    def _inclusive(self, source_name: str, dates: DateForm) -> bool | None:
        days = {pair: _day_pair(dates, pair) for pair in self._pairs}
        known = {pair: found for pair, found in days.items() if found is not None}
        if not known:
            return None
        strong = {pair: first == last or _whole_months(first, last) for pair, (first, last) in known.items()}
        edge = {pair: _month_edge(*found) for pair, found in known.items()}
        for proofs in (strong, self._chains(known), edge):
            said = {verdict: pair for pair, verdict in proofs.items() if verdict is not None}
            if len(said) == 2:
                first, second = said[True], said[False]
                raise InputRefused(
                    f"{source_name}, line {self._pairs[first]}: the period {_shown(first)} ends on its last day, and "
                    f"line {self._pairs[second]}: {_shown(second)} on the day after it: make them alike, or say "
                    "--period-end inclusive or exclusive"
                )
            if said:
                return next(iter(said))
        pair = next(iter(known))
        raise InputRefused(
            f"{source_name}, line {self._pairs[pair]}: nothing in the file shows whether the period {_shown(pair)} "
            "has its last day in it: say --period-end inclusive or exclusive"
        )

    def _chains(self, known: dict[tuple[str, str], tuple[date, date]]) -> dict[tuple[str, str], bool | None]:
        """Rows of one tenant and SKU that follow each other: on the day after the end, or on the end itself."""
        found: dict[tuple[str, str], bool | None] = {}
        for pairs in self._rows.values():
            starts = {known[pair][0] for pair in pairs if pair in known}
            for pair in pairs & known.keys():
                last = known[pair][1]
                if (last in starts) != (last + _DAY in starts):
                    found[pair] = last not in starts
        return found


def _bare_day(dates: DateForm, text: str) -> date | None:
    """The day of a date without time; a midnight without an offset is such a date too. None: it has a time."""
    parts = take_apart_date(text)
    if parts.time_us == 0 and parts.offset_us is None:
        return dates.parse_day(_date_part(text))
    return dates.parse_day(text)


def _date_part(text: str) -> str:
    """What stands before the time of a date-time at midnight."""
    head = text.strip()
    return head.partition("T")[0].partition(" ")[0] if head[:1].isdigit() else head


def _day_pair(dates: DateForm, pair: tuple[str, str]) -> tuple[date, date] | None:
    try:
        first, last = (_bare_day(dates, text) for text in pair)
    except UnclearDate:
        return None
    return (first, last) if first is not None and last is not None and first <= last else None


def _has_local_time(text: str) -> bool:
    """Whether a text has a time within the day whose zone only a person can say."""
    try:
        parts: DateText = take_apart_date(text)
    except UnclearDate:
        return False
    if parts.time_us is None or parts.offset_us is not None:
        return False
    return (parts.time_us + _to_next_edge_us(parts.time_us)) % DAY_US != 0


def _to_next_edge_us(time_us: int) -> int:
    """What is missing of an end such as 23:59:59 or 23:59, which means the whole last second or minute."""
    in_minute_us = time_us % _MINUTE_US
    if in_minute_us >= _LAST_SECOND_US or (time_us >= _LAST_MINUTE_US and in_minute_us == 0):
        return _MINUTE_US - in_minute_us
    return 0


def _whole_months(first: date, last: date) -> bool | None:
    """A period from the first of a month that ends with a month (inclusive) or on a first (exclusive)."""
    return _month_edge(first, last) if first.day == 1 else None


def _month_edge(first: date, last: date) -> bool | None:
    if (last + _DAY).day == 1:
        return True
    return False if last.day == 1 and last > first else None


def _shown(pair: tuple[str, str]) -> str:
    return f"{pair[0]} to {pair[1]}"
