"""How a file writes dates: their order and time zone by proof over all its dates, or refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wattledger_audit.intake import local_time
from wattledger_audit.intake.date_text import ORDERS, YMD, DateText, UnclearDate, no_date, take_apart_date
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused

__all__ = ["DateForm", "DateProof", "UnclearDate"]

_FIRST_YEAR = 1970
_ORDER_WORDS = {"dmy": "day first", "mdy": "month first", "ymd": "year first"}


class _Seen(NamedTuple):
    line: int
    column: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.column} {self.text!r}"


@dataclass(frozen=True, slots=True)
class DateForm:
    """`orders` is the order of numeric dates by separator; `zone` is that of times that do not say their own."""

    orders: Mapping[str, str]
    zone: ZoneInfo | None

    def parse(self, text: str) -> int:
        """The moment in µs since the epoch UTC; a date alone is the start of that day. Raises `UnclearDate`, whose
        text is a rejection's reason: also for a local time that a clock change shows twice or never."""
        moments = self.moments_us(text)
        if len(moments) == 1:
            return moments[0]
        key = self.zone.key if self.zone else ""
        if moments:
            raise UnclearDate("repeated_hour", f"{text!r} comes twice in {key}, at a clock change: add its offset")
        raise UnclearDate(
            "skipped_hour", f"{text!r} never comes in {key}, at a clock change: mend it or add its offset"
        )

    def moments_us(self, text: str) -> tuple[int, ...]:
        """Every moment that the text can be: two in the hour that a clock change repeats (earlier first), none in the
        one that it leaves out, otherwise one. Raises `UnclearDate` for what is no date."""
        if len(text) >= 16 and text[4] == "-" and text[7] == "-" and text[10] in "T ":
            try:
                moment = datetime.fromisoformat(text)
            except ValueError:
                pass
            else:
                if moment.year < _FIRST_YEAR:
                    raise no_date(text)
                if moment.tzinfo is not None:
                    return (local_time.zoned_us(moment),)
                return local_time.local_moments_us(moment, self._zone(text))
        parts = take_apart_date(text)
        day, time_us = self._day(text, parts), parts.time_us
        if parts.offset_us is not None:
            return (local_time.utc_day_us(day) + (time_us or 0) - parts.offset_us,)
        if time_us is None:
            return (local_time.day_start_us(day, self._zone(text)),)
        if time_us == local_time.DAY_US:
            if day == date.max:
                raise no_date(text)
            return (local_time.day_start_us(day + timedelta(days=1), self._zone(text)),)
        moment = datetime(day.year, day.month, day.day) + timedelta(microseconds=time_us)
        return local_time.local_moments_us(moment, self._zone(text))

    def parse_day(self, text: str) -> date | None:
        """The day, when the text is a date without a time; None when it has one. Raises `UnclearDate`."""
        parts = take_apart_date(text)
        return None if parts.time_us is not None else self._day(text, parts)

    def day_start_us(self, day: date, zone: ZoneInfo | None = None) -> int:
        """The first moment of a day in `zone`, or in the form's own. Raises `UnclearDate` where there is none."""
        return local_time.day_start_us(day, zone or self._zone(day.isoformat()))

    def _zone(self, text: str) -> ZoneInfo:
        if self.zone is None:
            raise UnclearDate("no_timezone", f"{text!r} has no offset: say --timezone, such as Europe/Berlin or UTC")
        return self.zone

    def _day(self, text: str, parts: DateText) -> date:
        days = dict(parts.days)
        if len(set(days.values())) == 1 and (not parts.separator or parts.separator not in self.orders):
            return next(iter(days.values()))
        order = self.orders.get(parts.separator)
        if order is None:
            raise UnclearDate("unclear_date_order", f"{text!r} can be two days: say --date-order dmy or mdy")
        if order not in days:
            words = _ORDER_WORDS[order]
            raise UnclearDate("not_a_date", f"{text!r} is no date with the {words}, as this file has it: mend it")
        return days[order]


@dataclass(slots=True)
class _OrderProof:
    """What dates with one separator prove: the first value that excludes each order, the first that is unclear."""

    excluded: dict[str, _Seen] = field(default_factory=dict)
    unclear: _Seen | None = None

    def add(self, seen: _Seen, days: Mapping[str, date]) -> None:
        for order in ORDERS:
            if order not in days and order not in self.excluded:
                self.excluded[order] = seen
        if self.unclear is None and len(set(days.values())) > 1:
            self.unclear = seen

    def decide(self, source_name: str, asked: str | None) -> str | None:
        """The order; None when it makes no difference. Raises `InputRefused`."""
        left = [order for order in ORDERS if order not in self.excluded]
        if not left:
            if asked:
                return asked
            places = sorted({seen for order, seen in self.excluded.items() if order != YMD} or self.excluded.values())
            raise InputRefused(
                f"{source_name}, {' and '.join(map(str, places))} do not go together in one order of day and month: "
                "make them alike, or say --date-order and the rows written otherwise are left out"
            )
        if self.unclear is None:
            return left[0] if len(left) == 1 else None
        if len(left) == 1:
            if asked and asked != left[0]:
                raise InputRefused(
                    f"{source_name}, {self.excluded[asked]} has the {_ORDER_WORDS[left[0]]}, --date-order {asked} says "
                    f"otherwise, so {self.unclear} is unclear: leave --date-order out, or mend that line"
                )
            return left[0]
        if asked in left:
            return asked
        flags = " or ".join(f"--date-order {order} ({_ORDER_WORDS[order]})" for order in left)
        raise InputRefused(f"{source_name}, {self.unclear} can be more than one day: say {flags}")


@dataclass(slots=True)
class DateProof:
    """Collects what every date of a file proves. What is no date proves nothing: its row is rejected later."""

    _orders: dict[str, _OrderProof] = field(default_factory=dict)
    _zoneless: _Seen | None = None

    def add(self, line: int, column: str, text: str) -> None:
        """One cell that is meant to hold a date."""
        if text[4:5] == "-" and text[7:8] == "-" and (self._zoneless is not None or text[-1:] == "Z"):
            return
        try:
            parts = take_apart_date(text)
        except UnclearDate:
            return
        if self._zoneless is None and parts.offset_us is None:
            self._zoneless = _Seen(line, column, text)
        if parts.separator:
            proof = self._orders.setdefault(parts.separator, _OrderProof())
            proof.add(_Seen(line, column, text), dict(parts.days))

    def decide(self, source_name: str, options: ReadOptions, default_zone: ZoneInfo | None = None) -> DateForm:
        """The file's form; `default_zone` is that of times without one where `--timezone` does not say.

        Raises `InputRefused` that names the line, the value and `--date-order` or `--timezone`.
        """
        orders: dict[str, str] = {}
        for separator, proof in self._orders.items():
            order = proof.decide(source_name, options.date_order)
            if order:
                orders[separator] = order
        zone = options.timezone or default_zone
        if zone is None and self._zoneless is not None:
            raise InputRefused(
                f"{source_name}, {self._zoneless} has no offset, so it can be any hour of a day's length: "
                "say --timezone, such as --timezone Europe/Berlin or --timezone UTC"
            )
        return DateForm(orders, zone)
