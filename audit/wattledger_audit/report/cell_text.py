"""Figures as the page's cells show them: in thousands, rounded, never zero when they are not. decimal.js agrees."""

import re
from decimal import Context, Decimal

from wattledger_audit.report.shown import rounded

MAX_PLACES = 30
_EXACT = Context(prec=100)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.0+)?(Z|[+-]\d\d:?\d\d)?")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")


def exact(text: str | None) -> Decimal | None:
    """The number that a text says; None where it says none."""
    return Decimal(text) if text is not None and _NUMBER.fullmatch(text) else None


def shown(text: str | None, places: int = 2) -> str:
    """`-1234.567` as `-1,234.57`; `–` for None; a text that is no plain number as it is.

    What is not zero never shows as zero: then two significant digits are shown.
    """
    if text is None:
        return "–"
    number = exact(text)
    if number is None:
        return text
    value = rounded(number, places)
    if not value and number:
        value = rounded(number, min(1 - number.adjusted(), MAX_PLACES))
    return f"{value:,f}"


def percent(text: str | None) -> str:
    """A ratio as per cent: `0.1234` as `12.34 %` (with a no-break space)."""
    number = exact(text)
    if number is None:
        return shown(text)
    return f"{shown(format(number.scaleb(2, context=_EXACT), 'f'))}\N{NO-BREAK SPACE}%"


def short_percent(text: str | None) -> str:
    """A ratio that was chosen, not computed, without needless zeros: `0.2` as `20 %`."""
    number = exact(text)
    return shown(text) if number is None else f"{number.scaleb(2).normalize(_EXACT):f}\N{NO-BREAK SPACE}%"


def trimmed(text: str) -> str:
    """As `shown`, a whole number without decimals: `745.000` as `745`."""
    number = exact(text)
    return shown(text, 0) if number is not None and number == number.to_integral_value() else shown(text)


def moment(text: str) -> str:
    """An ISO 8601 time as people read it: the date alone where it is midnight, else with minutes and offset."""
    found = _MOMENT.fullmatch(text)
    if not found:
        return text
    day, clock, offset = found.groups()
    return day if clock in ("00:00", "00:00:00") else f"{day} {clock}{f' {offset}' if offset else ''}"


def places_of(text: str, at_least: int = 2, at_most: int = 6) -> int:
    """Decimal places that prices are shown with: those of the price step."""
    number = exact(text)
    exponent = number.normalize(_EXACT).as_tuple().exponent if number is not None else 0
    return min(max(at_least, -exponent if isinstance(exponent, int) else 0), at_most)
