"""Units of the core: integers for physics, `Decimal` for money. Owns the constants and the one money rounding."""

from decimal import ROUND_HALF_EVEN, Context, Decimal

US_PER_S = 1_000_000
US_PER_HOUR = 3_600 * US_PER_S
US_PER_DAY = 24 * US_PER_HOUR
QUARTER_US = 900 * US_PER_S
"""The UTC quarter-hour grid on which both meters cut time."""
UJ_PER_KWH = 3_600_000_000_000
PPM = 1_000_000
MONEY_QUANTUM = Decimal("0.000000000001")
MONEY_CONTEXT = Context(prec=60, rounding=ROUND_HALF_EVEN)


def round_money(amount: Decimal) -> Decimal:
    """Round to 12 decimals, half-even: done once, when a row is made (DESIGN.md section 3)."""
    return amount.quantize(MONEY_QUANTUM, context=MONEY_CONTEXT)


def quarter_floor_us(at_us: int) -> int:
    """Start of the UTC quarter-hour that holds `at_us`."""
    return at_us - at_us % QUARTER_US


def quarter_cuts_us(start_us: int, end_us: int) -> list[int]:
    """Grid points strictly inside `[start_us, end_us)`, ascending."""
    first = quarter_floor_us(start_us) + QUARTER_US
    return list(range(first, end_us, QUARTER_US))
