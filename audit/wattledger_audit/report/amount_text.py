"""Exact values as the decimal text of `report.json`: hours, kWh, money, ratios. None stays None."""

from decimal import Decimal
from fractions import Fraction

from wattledger_core.units import MONEY_CONTEXT, UJ_PER_KWH, US_PER_HOUR

from wattledger_audit.assessment.billable import PARTS_PER_HOUR

_MICRO = Decimal("0.000001")
_RATIO = Decimal("0.0001")


def _divided(amount: int | Fraction, whole: int, quantum: Decimal) -> Decimal:
    share = Fraction(amount) / whole
    return MONEY_CONTEXT.divide(Decimal(share.numerator), Decimal(share.denominator)).quantize(
        quantum, context=MONEY_CONTEXT
    )


def us_hours(device_us: int) -> str:
    """Device-time in µs as GPU-hours, six decimals."""
    return format(_divided(device_us, US_PER_HOUR, _MICRO), "f")


def part_hours(parts: int) -> str:
    """Device-time in parts (1/5040 µs) as GPU-hours, six decimals."""
    return format(_divided(parts, PARTS_PER_HOUR, _MICRO), "f")


def fraction_hours(hours: Fraction | None) -> str | None:
    """Exact hours, six decimals."""
    return None if hours is None else format(_divided(hours, 1, _MICRO), "f")


def kwh(energy_uj: int | None) -> str | None:
    """Energy in kWh, six decimals."""
    return None if energy_uj is None else format(_divided(energy_uj, UJ_PER_KWH, _MICRO), "f")


def money(amount: Decimal | None) -> str | None:
    """An amount, every decimal that it has, at least two."""
    return None if amount is None else money_text(amount)


def money_text(amount: Decimal) -> str:
    """An amount, trailing zeros beyond two decimals left off: nothing is rounded."""
    text = format(amount, "f")
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals.rstrip('0').ljust(2, '0')}" if amount else "0.00"


def ratio(part: int | Decimal | Fraction, whole: int | Decimal | Fraction) -> str:
    """A share, four decimals; 0 of nothing is 0."""
    if not whole:
        return "0.0000"
    return format(_divided(Fraction(part) / Fraction(whole), 1, _RATIO), "f")


def ratio_or_none(part: Decimal | None, whole: Decimal | None) -> str | None:
    """A share, None where either is unknown or the whole is nothing."""
    return None if part is None or not whole else ratio(part, whole)


def counted(number: int, thing: str) -> str:
    """`1 tenant`, `1,200 tenants`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def cents(amount: Decimal) -> str:
    """An amount for a sentence: to the cent, thousands separated."""
    return f"{amount.quantize(Decimal('0.01'), context=MONEY_CONTEXT):,f}"
