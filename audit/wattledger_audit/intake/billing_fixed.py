"""Numbers and stamps in the one fixed form that cloud exports use: a decimal point, UTC where no offset is written."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from wattledger_core.units import US_PER_S

from wattledger_audit.intake.number_form import is_exponent_id
from wattledger_audit.intake.refusal import InputRefused

EMPTY = frozenset({"", "NULL", "null", "Null", "None", "none", "NaN", "nan", "\\N"})
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
_ZONE_NAME = re.compile(r"\s*(?:UTC|GMT|Z)$")


def fixed_number(text: str) -> Decimal | None:
    """The number, exponents included; None where the cell is empty or says `NULL`. Raises ValueError."""
    if text in EMPTY:
        return None
    if _NUMBER.fullmatch(text) is None:
        raise ValueError("no number written as 1234.5")
    return Decimal(text)


@lru_cache(maxsize=65_536)
def utc_stamp_us(text: str) -> int:
    """µs UTC of an ISO stamp with `T` or a blank, with or without seconds; without an offset it is UTC. A day is its
    start. Raises ValueError."""
    at = datetime.fromisoformat(_ZONE_NAME.sub("+00:00", text))
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // _US


def month_text(at_us: int) -> str:
    """`2026-10` of an instant, UTC."""
    return (_EPOCH + at_us * _US).strftime("%Y-%m")


def day_text(at_us: int) -> str:
    """`2026-10-05` of an instant, UTC."""
    return (_EPOCH + at_us * _US).strftime("%Y-%m-%d")


def service_end_us(start_us: int, end_us: int) -> int | None:
    """The end of a service period. A charge for an instant (start = end) gets one second, so that it lies in a month;
    None where the end is before the start."""
    if end_us == start_us:
        return start_us + US_PER_S
    return end_us if end_us > start_us else None


def refuse_shortened_id(source_name: str, line: int, column: str, text: str) -> None:
    """Raises `InputRefused` for an id that a spreadsheet has turned into a number: different ids may now look alike."""
    if is_exponent_id(text):
        raise InputRefused(
            f"{source_name}, line {line}: {column} {text!r} is an id that a spreadsheet has shortened to a number, so "
            "different ids may look alike: export the file again without opening and saving it in a spreadsheet, or "
            "format the column as text first"
        )
