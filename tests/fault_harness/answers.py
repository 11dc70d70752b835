"""What stands in the end, as plain keys and amounts: the shape in which the truth and the tables are compared."""

from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from tests.fault_harness.facts import Holder

TIME, ENERGY = "time", "energy"
CENTS = 10**12
"""Money is kept to 12 decimals."""


class LineKey(NamedTuple):
    """What one usage line is about. `known`: whether its energy is; `bridged`: whether a counter carried it over a
    gap; `quarter_us`: the quarter-hour in which it lies."""

    kind: str
    node: str
    group_us: int
    device: str
    quarter_us: int
    state: str
    reason: str
    tenant: str
    holder: Holder | None
    method: str
    known: bool
    bridged: bool


class Usage(NamedTuple):
    """Net of what was taken back: rows, device-time and span in µs, energy in µJ."""

    rows: int
    device_us: int
    span_us: int
    energy_uj: int


class CostKey(NamedTuple):
    """What one cost row is about."""

    component: str
    node: str
    group_us: int
    device: str
    quarter_us: int
    state: str
    tenant: str
    holder: Holder | None
    status: str
    price: str


class Money(NamedTuple):
    """Net of what was taken back: rows, quantity (µs or µJ), amount."""

    rows: int
    quantity: int
    cost: Decimal


class Total(NamedTuple):
    """What a device did in a group whoever held it: energy in µJ and its known and unknown time, or time in service."""

    rows: int
    in_service_us: int
    energy_uj: int
    measured_us: int
    unknown_us: int


TotalKey = tuple[str, str, int, str]
"""Kind, node, group start, device."""


def rounded(amount: Fraction) -> Decimal:
    """To 12 decimals, half to even, in integers."""
    scaled = amount * CENTS
    floor, rest = divmod(scaled.numerator, scaled.denominator)
    if 2 * rest > scaled.denominator or (2 * rest == scaled.denominator and floor % 2):
        floor += 1
    return Decimal(floor).scaleb(-12)


def plus(a: Money, b: Money) -> Money:
    return Money(a.rows + b.rows, a.quantity + b.quantity, a.cost + b.cost)
