"""Moments as people read them: UTC, and the wall clock of a zone with its offset."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc_text(at_us: int) -> str:
    """`2026-10-01T00:00:00Z`, with microseconds where it has any."""
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat().replace("+00:00", "Z")


def local_text(at_us: int, zone: ZoneInfo) -> str:
    """`2026-10-01T02:00:00+02:00` by the clock of a zone."""
    return (_EPOCH + timedelta(microseconds=at_us)).astimezone(zone).isoformat()
