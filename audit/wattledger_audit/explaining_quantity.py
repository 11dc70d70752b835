"""Quantities in explanations: hours and kWh as decimal text, and exactly where six decimals are not all of it."""

from decimal import Decimal
from fractions import Fraction

from wattledger_core.pricing_row import UJ_UNIT
from wattledger_core.units import MONEY_CONTEXT, UJ_PER_KWH

from wattledger_audit.assessment.billable import PARTS_PER_HOUR
from wattledger_audit.report.amount_text import fraction_hours

GPU_HOURS, KWH, NODE_HOURS = "GPU-hours", "kWh", "node-hours"
_SHARE = Decimal("0.00000001")


def hours(parts: int) -> Fraction:
    """Device-time in parts as GPU-hours."""
    return Fraction(parts, PARTS_PER_HOUR)


def quantity_of(amount: int, unit: str) -> Fraction:
    """The quantity of a cost row in the unit that its price is for: GPU-hours, or kWh."""
    return Fraction(amount, UJ_PER_KWH if unit == UJ_UNIT else PARTS_PER_HOUR)


def unit_of(unit: str) -> str:
    """What a cost row's quantity is shown in."""
    return KWH if unit == UJ_UNIT else GPU_HOURS


def quantity_text(amount: Fraction) -> str:
    """Six decimals."""
    return fraction_hours(amount) or "0.000000"


def exact_text(amount: Fraction) -> str:
    """In full: decimal where it ends within six places (`7.5`), else as a fraction (`22/3`)."""
    text = quantity_text(amount)
    if Fraction(text) != amount:
        return str(amount)
    return text.rstrip("0").rstrip(".")


def share_text(part: Fraction, whole: Fraction) -> str:
    """A share of 1, eight decimals."""
    found = part / whole if whole else Fraction(0)
    return format(decimal_of(found).quantize(_SHARE, context=MONEY_CONTEXT), "f")


def decimal_of(amount: Fraction) -> Decimal:
    """To 60 digits."""
    return MONEY_CONTEXT.divide(Decimal(amount.numerator), Decimal(amount.denominator))
