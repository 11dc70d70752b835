"""SLURM's time texts: stamps (epoch, local, with offset) to µs UTC, durations to µs. Owns the clock change's rules."""

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wattledger_core.units import US_PER_HOUR, US_PER_S

EXPORT_AS_EPOCH = "export again with TZ=UTC SLURM_TIME_FORMAT=%s"
UNSET = frozenset({"", "Unknown", "None", "N/A", "n/a", "NONE", "UNKNOWN", "0", "(null)"})
NO_LIMIT = frozenset({"", "UNLIMITED", "Partition_Limit", "INVALID", "Unknown", "None", "N/A"})
"""`Partition_Limit` is the partition's own limit, which the dump does not hold: unknown, not zero."""
_STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d(?::?\d\d)?)?")
_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d)(?:\.(\d{1,6}))?")
_SECONDS = {f":{s // 60:02d}:{s % 60:02d}": s * US_PER_S for s in range(3600)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)


class Twice(NamedTuple):
    """A local stamp that a clock change makes come twice: the earlier and the later instant, µs UTC."""

    first_us: int
    second_us: int


class BadStamp(ValueError):
    """A text that is no stamp; the message is `code: words`."""


class ZoneNeeded(ValueError):
    """A local stamp, and nobody said which zone."""


def duration_us(text: str) -> int:
    """`[D-]HH:MM:SS`, `MM:SS.mmm` and `MM:SS` in µs; ValueError for anything else (`INVALID` too)."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a SLURM duration")
    days, hours, minutes, seconds, fraction = found.groups()
    whole = int(days or 0) * 86_400 + int(hours or 0) * 3_600 + int(minutes) * 60 + int(seconds)
    return whole * US_PER_S + int((fraction or "").ljust(6, "0"))


def limit_us(raw_minutes: str, text: str) -> int | None:
    """The time limit from TimelimitRaw (minutes) or else Timelimit (`[D-]HH:MM:SS`); None: no limit, or not known."""
    if raw_minutes.isdecimal():
        return int(raw_minutes) * 60 * US_PER_S
    if text in NO_LIMIT:
        return None
    return duration_us(text)


class StampClock:
    """Reads stamps; `zone` is what local ones are in. An hour's offset is looked up once: a million rows are cheap."""

    def __init__(self, zone: ZoneInfo | None) -> None:
        self._zone = zone
        self._hours: dict[str, int | None] = {}
        self._utc_hours: dict[str, int] = {}
        self._offsets: dict[str, int] = {}

    def read(self, text: str) -> int | Twice | None:
        """µs UTC; None where SLURM says it does not know; Twice in a repeated hour.

        Raises BadStamp for what is no stamp or never came, ZoneNeeded for a local stamp without a zone."""
        hour_us = self._hours.get(text[:13])
        if hour_us is not None:
            seconds_us = _SECONDS.get(text[13:])
            if seconds_us is not None:
                return hour_us + seconds_us
        if text.isdecimal() and 9 <= len(text) <= 10:
            return int(text) * US_PER_S
        if text in UNSET:
            return None
        offset_us = self._offsets.get(text[19:])
        if offset_us is not None:
            hour_us, seconds_us = self._utc_hours.get(text[:13]), _SECONDS.get(text[13:19])
            if hour_us is not None and seconds_us is not None:
                return hour_us + seconds_us - offset_us
        return self._read_slowly(text)

    def _read_slowly(self, text: str) -> int | Twice | None:
        found = _STAMP.fullmatch(text)
        if found is None:
            raise BadStamp(_why_no_stamp(text))
        *parts, fraction, offset = found.groups()
        try:
            wall = datetime(*map(int, parts), tzinfo=UTC)  # type: ignore[arg-type, misc]
        except ValueError as error:
            raise BadStamp(f"unreadable_time: no such date or time ({error}); {EXPORT_AS_EPOCH}") from error
        wall_us = (wall - _EPOCH) // _US + int((fraction or "").ljust(6, "0"))
        if offset is not None:
            offset_us = _offset_us(offset)
            if fraction is None:  # what follows the seconds is the offset alone, so the next one is quick
                self._offsets[text[19:]] = offset_us
            self._utc_hours[text[:13]] = wall_us - wall_us % US_PER_HOUR
            return wall_us - offset_us
        return self._local(wall_us, text)

    def _local(self, wall_us: int, text: str) -> int | Twice:
        if self._zone is None:
            raise ZoneNeeded(text)
        hour_start_us = wall_us - wall_us % US_PER_HOUR
        quarters = [hour_start_us + minute * 60 * US_PER_S for minute in (0, 15, 30, 45)]
        offsets = {
            self._utc_offset_us(at, fold) for at in [*quarters, hour_start_us + US_PER_HOUR - 1] for fold in (0, 1)
        }
        if len(offsets) == 1:
            self._hours[text[:13]] = hour_start_us - offsets.pop()
        before_us, after_us = self._utc_offset_us(wall_us, 0), self._utc_offset_us(wall_us, 1)
        if before_us == after_us:
            return wall_us - before_us
        if before_us > after_us:
            return Twice(wall_us - before_us, wall_us - after_us)
        raise BadStamp(
            f"nonexistent_local_time: the clocks of {self._zone} skip this time; "
            f"is --timezone right? If so {EXPORT_AS_EPOCH}"
        )

    def _utc_offset_us(self, wall_us: int, fold: int) -> int:
        wall = (_EPOCH + timedelta(microseconds=wall_us)).replace(tzinfo=self._zone, fold=fold)
        offset = wall.utcoffset()
        assert offset is not None  # a ZoneInfo always has one
        return offset // _US


def _offset_us(text: str) -> int:
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "")
    size_us = (int(digits[:2]) * 60 + int(digits[2:] or 0)) * 60 * US_PER_S
    return -size_us if text[0] == "-" else size_us


def _why_no_stamp(text: str) -> str:
    if text.strip("#") == "":
        return f"unreadable_time: the stamp was cut to #; {EXPORT_AS_EPOCH}"
    return (
        f"unreadable_time: not an epoch or YYYY-MM-DDTHH:MM:SS stamp (SLURM_TIME_FORMAT=relative?); {EXPORT_AS_EPOCH}"
    )


class Held(NamedTuple):
    """When a run held its nodes. `start_us` None: never; `end_us` None: it still runs."""

    start_us: int | None
    end_us: int | None


def settle(start: int | Twice | None, end: int | Twice | None, held_us: int | None, not_before_us: int | None) -> Held:
    """One instant for each stamp: the pair whose distance is `held_us` (elapsed plus suspended, to a second).

    `not_before_us` (submit or eligible) rules out starts before it. Raises BadStamp when more or none are left."""
    starts = start if isinstance(start, Twice) else (start,)
    ends = end if isinstance(end, Twice) else (end,)
    fits = {
        Held(a, b)
        for a in starts
        for b in ends
        if not (a is not None and not_before_us is not None and a < not_before_us and isinstance(start, Twice))
        and (a is None or b is None or held_us is None or abs(b - a - held_us) <= US_PER_S)
        and (a is None or b is None or b >= a)
    }
    if len(fits) != 1:
        raise BadStamp(f"ambiguous_local_time: the clocks were set back and this time came twice; {EXPORT_AS_EPOCH}")
    return fits.pop()
