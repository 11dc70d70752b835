"""What bought machines cost in each local calendar month, of whatever hours: payments, straight or as an annuity."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wattledger_core.interval import FOREVER_US, Interval, overlap
from wattledger_core.units import US_PER_HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PLACES = 12
_LAST_YEAR = 9990


@dataclass(frozen=True, slots=True)
class Purchase:
    """One GPU's part of a purchase. `interest_rate` is a year's. `hosting_and_staff` is a month's, and goes on.

    `in_service_us` None: no date is known, so the payments run over all that is looked at.
    """

    price: Fraction
    residual: Fraction
    months: int
    interest_rate: Fraction
    in_service_us: int | None
    hosting_and_staff: Fraction


class MonthCost(NamedTuple):
    """Exact cost of one GPU over `[start_us, end_us)`, which lies inside one local calendar month."""

    start_us: int
    end_us: int
    amount: Fraction


def monthly_payment(purchase: Purchase) -> Fraction:
    """Level annuity at the end of each month, (P - R/(1+i)^n) · i / (1 - (1+i)^-n) with i a twelfth of the rate;
    without interest (P - R)/n."""
    i, n = purchase.interest_rate / 12, purchase.months
    if not i:
        return (purchase.price - purchase.residual) / n
    discount = 1 / (1 + i) ** n
    return (purchase.price - purchase.residual * discount) * i / (1 - discount)


def month_costs(purchase: Purchase, zone: ZoneInfo, span: Interval, period: Interval) -> Iterator[MonthCost]:
    """The costs of the local months that touch `period`, cut to `span` and to what is paid in them.

    A month costs its payment, hosting and staff, whole, whether it has 743 or 745 hours. Payments start at
    `in_service_us` and end to the day after `months`: of months in part, the first bears its share by hours, the last
    what is then left of one payment, so all payments sum to `months` of them.
    """
    life = _life(purchase, zone)
    payment = monthly_payment(purchase)
    for month in local_months(zone, *period):
        for start_us, end_us in _pieces(month, (max(span[0], life[0]), span[1]), life[1]):
            if overlap(start_us, end_us, *period) is None:
                continue
            part = Fraction(end_us - start_us, month[1] - month[0])
            amount = purchase.hosting_and_staff * part
            if start_us < life[1]:
                amount += payment * _payments_part(month, life, (start_us, end_us), zone)
            yield MonthCost(start_us, end_us, amount)


def local_months(zone: ZoneInfo, start_us: int, end_us: int) -> Iterator[Interval]:
    """Calendar months of the zone that touch `[start_us, end_us)`, each from its first moment to the next one's."""
    local = _local(zone, start_us)
    year, month = local.year, local.month
    while (first_us := _moment_us(zone, datetime(year, month, 1))) < end_us:
        year, month = _months_on(year, month, 1)
        yield first_us, _moment_us(zone, datetime(year, month, 1))


def money(amount: Fraction) -> Decimal:
    """Rounded once to 12 decimals, half-even."""
    return Decimal(f"{round(amount * 10**_PLACES)}E-{_PLACES}")


def hourly_rate(amount: Decimal, start_us: int, end_us: int) -> Decimal:
    """An amount for an interval as it is shown for an hour of it; only shown, never multiplied."""
    return money(Fraction(amount) * US_PER_HOUR / (end_us - start_us))


def _life(purchase: Purchase, zone: ZoneInfo) -> Interval:
    """From in service to the first moment after the last payment: the same local day, or the month's last."""
    if purchase.in_service_us is None:
        return 0, FOREVER_US
    local = _local(zone, purchase.in_service_us)
    year, month = _months_on(local.year, local.month, purchase.months)
    if year > _LAST_YEAR:
        return purchase.in_service_us, FOREVER_US
    following = datetime(*_months_on(year, month, 1), 1)
    day = min(local.day, (following - timedelta(days=1)).day)
    return purchase.in_service_us, _moment_us(zone, local.replace(year=year, month=month, day=day, tzinfo=None, fold=0))


def _pieces(month: Interval, span: Interval, life_end_us: int) -> list[Interval]:
    """The parts of a month inside the span, before and after the payments end."""
    parts = [overlap(*month, span[0], min(span[1], life_end_us)), overlap(*month, max(span[0], life_end_us), span[1])]
    return [part for part in parts if part is not None]


def _payments_part(month: Interval, life: Interval, piece: Interval, zone: ZoneInfo) -> Fraction:
    """How much of one payment falls on a piece of a month."""
    if life[1] >= month[1] or life[0] >= month[0]:
        return Fraction(piece[1] - piece[0], month[1] - month[0])
    first = next(local_months(zone, life[0], life[0] + 1))
    left = Fraction(life[0] - first[0], first[1] - first[0])
    return left * Fraction(piece[1] - piece[0], life[1] - month[0])


def _months_on(year: int, month: int, months: int) -> tuple[int, int]:
    years, index = divmod(month - 1 + months, 12)
    return year + years, index + 1


def _local(zone: ZoneInfo, at_us: int) -> datetime:
    return (_EPOCH + at_us * _MICROSECOND).astimezone(zone)


def _moment_us(zone: ZoneInfo, local: datetime) -> int:
    """UTC of a local time; of one that clocks skip, the moment at which they do."""
    return (local.replace(tzinfo=zone) - _EPOCH) // _MICROSECOND
