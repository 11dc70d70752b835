"""Quantities and time stamps as the Kubernetes API writes them, as exact numbers."""

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

_NUMBER = re.compile(r"(?P<sign>[+-]?)(?P<digits>\d+\.?\d*|\.\d+)(?P<suffix>[eE][+-]?\d{1,3}|[A-Za-z]{0,2})")
_SUFFIXES = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_quantity(text: object) -> Fraction | None:
    """A quantity (`500m`, `64Gi`, `1e3`, also a bare number) exactly; None: not one, or below 0.

    Source: the serialization of resource.Quantity in the Kubernetes API conventions.
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        return None
    found = _NUMBER.fullmatch(str(text).strip())
    if not found or found["sign"] == "-":
        return None
    suffix = found["suffix"]
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix[1:] != "i":
        return Fraction(found["digits"]) * Fraction(10) ** int(suffix[1:])
    scale = _SUFFIXES.get(suffix)
    return Fraction(found["digits"]) * scale if scale is not None else None


def stamp_us(text: object) -> int | None:
    """An RFC 3339 stamp in µs since the epoch, UTC; None: absent, unreadable, or the zero of Go (year 1) or Unix."""
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    if at.tzinfo is None:
        return None
    us = (at - _EPOCH) // timedelta(microseconds=1)
    return us if us > 0 else None
