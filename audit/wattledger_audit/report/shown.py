"""The report's decimal text as people read it: rounded half-even, in thousands, `unknown` where there is none."""

from decimal import ROUND_HALF_EVEN, Context, Decimal

UNKNOWN = "unknown"
_TENTH = Decimal("0.1")
_SHOWING = Context(prec=200, rounding=ROUND_HALF_EVEN)


def rounded(text: str | Decimal, places: int) -> Decimal:
    """Half-even, and never a negative zero."""
    value = Decimal(text).quantize(Decimal(1).scaleb(-places), context=_SHOWING)
    return abs(value) if value.is_zero() else value


def number_text(text: str | Decimal | None, places: int = 2) -> str:
    """`41,200.00`; a real minus sign before what is below zero."""
    return UNKNOWN if text is None else format(rounded(text, places), ",f").replace("-", "−")


def percent_text(ratio: str | Decimal | None) -> str:
    """A share of 1 as `61.2 %`; `0 %` and `100 %` only where it is exactly that."""
    if ratio is None:
        return UNKNOWN
    share = Decimal(ratio)
    percent = rounded(_SHOWING.multiply(share, Decimal(100)), 1)
    if share not in (0, 1) and percent in (0, 100):
        percent += _TENTH.copy_sign(share) if percent == 0 else _TENTH if share > 1 else -_TENTH
    return f"{number_text(percent, 1)} %".replace(".0 %", " %")


def share_text(part: str, whole: str) -> str:
    """A part of a whole as `21.6 %`."""
    return percent_text(_SHOWING.divide(Decimal(part), Decimal(whole))) if Decimal(whole) else UNKNOWN
