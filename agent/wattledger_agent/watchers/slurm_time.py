"""SLURM's stamps as µs since the epoch UTC. Local time without a zone, or in the hour that comes twice, is refused."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from wattledger_agent.watchers.slurm_number import NO_TIMES, whole_number

US_PER_S = 1_000_000
EXPORT_AS_EPOCH = "export with TZ=UTC SLURM_TIME_FORMAT=%s"
UNSET = NO_TIMES | {"", "unknown", "none", "n/a", "(null)", "0", "partition_limit", "unlimited", "invalid"}
_STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.\d+)?(Z|[+-]\d\d(?::?\d\d)?)?")
_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d)(?:\.\d+)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)


class BadStamp(ValueError):
    """A stamp that can't be used: `reason` is a code, the message what was wrong and what to do."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words)
        self.reason = reason


class Stamps:
    """Reads stamps; `zone` (such as Europe/Berlin) is what local ones are in, empty: local ones are refused."""

    def __init__(self, zone: str = "") -> None:
        self._zone = ZoneInfo(zone) if zone else None

    def moments(self, text: str) -> tuple[int, ...]:
        """µs UTC that the text can mean: none where SLURM says that it does not know, two in the hour that comes
        twice. Raises BadStamp."""
        text = text.strip()
        if text.lower() in UNSET:
            return ()
        if text.isdecimal() and 9 <= len(text) <= 11:
            return (int(text) * US_PER_S,)
        found = _STAMP.fullmatch(text)
        if found is None:
            raise BadStamp("unreadable_time", f"{text[:40]!r} is no epoch and no stamp of SLURM's: {EXPORT_AS_EPOCH}")
        *parts, offset = found.groups()
        year, month, day, hour, minute, second = map(int, parts)
        try:
            wall = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        except ValueError as error:
            raise BadStamp("unreadable_time", f"{text!r}: {error}; {EXPORT_AS_EPOCH}") from error
        wall_us = (wall - _EPOCH) // _US
        if offset is not None:
            return (wall_us - _offset_us(offset),)
        return self._local(text, wall, wall_us)

    def moment(self, text: str) -> int | None:
        """µs UTC, None where SLURM does not know. Raises BadStamp, also for a stamp that comes twice."""
        found = self.moments(text)
        if len(found) > 1:
            raise BadStamp("ambiguous_local_time", f"{text!r} came twice when clocks were set back: {EXPORT_AS_EPOCH}")
        return found[0] if found else None

    def span(self, start: str, end: str, held_us: int | None) -> tuple[int | None, int | None]:
        """Start and end of a run. `held_us` (elapsed plus suspended) tells the two meanings of a stamp apart.
        Raises BadStamp when it does not."""
        starts, ends = self.moments(start), self.moments(end)
        if len(starts) <= 1 and len(ends) <= 1:
            return (starts[0] if starts else None), (ends[0] if ends else None)
        fits = {
            (a, b) for a in starts for b in ends if held_us is not None and a <= b and abs(b - a - held_us) <= US_PER_S
        }
        if len(fits) != 1:
            words = f"{start!r} to {end!r}: clocks were set back and an hour came twice: {EXPORT_AS_EPOCH}"
            raise BadStamp("ambiguous_local_time", words)
        return fits.pop()

    def _local(self, text: str, wall: datetime, wall_us: int) -> tuple[int, ...]:
        if self._zone is None:
            words = f"{text!r} is local time without an offset: {EXPORT_AS_EPOCH}, or set the zone of that host"
            raise BadStamp("zone_needed", words)
        offsets = [wall.replace(tzinfo=self._zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1)]
        first, second = (wall_us - offset // _US for offset in offsets)
        if first == second:
            return (first,)
        if offsets[0] < offsets[1]:
            raise BadStamp("nonexistent_local_time", f"{text!r}: clocks of {self._zone} skip it; is the zone right?")
        return (first, second)


def duration_us(text: str) -> int | None:
    """`[D-]HH:MM:SS`, `MM:SS.mmm` or whole seconds in µs; None for anything else (`INVALID`, `Partition_Limit`)."""
    text = text.strip()
    if text.isdecimal():
        seconds = whole_number(text)
        return None if seconds is None else seconds * US_PER_S
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return (days * 86_400 + hours * 3_600 + minutes * 60 + seconds) * US_PER_S


def _offset_us(text: str) -> int:
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "")
    size_us = (int(digits[:2]) * 60 + int(digits[2:] or 0)) * 60 * US_PER_S
    return -size_us if text[0] == "-" else size_us
