"""Cost rows that a price made, grouped by what they have in common: quantity × rate, the price's versions and place."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wattledger_core.cost import CostRow
from wattledger_core.line import Line
from wattledger_core.price import Price
from wattledger_core.units import MONEY_CONTEXT, round_money

from wattledger_audit.assessment.assess import FIRST_MARGIN, Assessment
from wattledger_audit.explain_value import PricedGroup, PricePeriod
from wattledger_audit.explaining_quantity import KWH, decimal_of, exact_text, quantity_of, quantity_text, unit_of
from wattledger_audit.report.amount_text import money_text
from wattledger_audit.report.sums import total
from wattledger_audit.shown_time import local_text


class _Key(NamedTuple):
    """What the rows of a group share; the window only where rows are wanted window by window."""

    component: str
    start_us: int
    end_us: int
    sku: str
    plan: str
    site: str
    gpu_model: str
    state: str
    method: str
    unit: str
    rate: Decimal
    pue: Decimal
    where: str
    status: str
    reason: str
    marginal: bool


class PriceBook:
    """Prices of an assessment by id, its lines by id, and the clock and currency that they are shown in."""

    def __init__(self, assessment: Assessment) -> None:
        self.prices: Mapping[str, Price] = {price.price_id: price for price in assessment.book.prices}
        self.methods: Mapping[str, str] = {
            line.line_id: line.method for line in assessment.costed.lines if line.kind == "energy"
        }
        self.zone: ZoneInfo = assessment.period.zone
        self.currency = assessment.book.currency
        self._unnamed = "--per-gpu-hour" if assessment.stage == FIRST_MARGIN else ""

    def where(self, price_id: str) -> str:
        """Where a price is written: the cost file and line, or the option."""
        price = self.prices.get(price_id)
        return "" if price is None else price.reason or self._unnamed

    def add_lines(self, lines: Iterable[Line]) -> None:
        """Know more energy lines, of a closer look."""
        self.methods = {**self.methods, **{line.line_id: line.method for line in lines if line.kind == "energy"}}


def priced_groups(rows: Iterable[CostRow], book: PriceBook, by_window: bool = False) -> tuple[PricedGroup, ...]:
    """Groups of the rows that have a price, or lack one; spread amounts are not among them. In order of component,
    window, SKU and place; Σ of the groups' costs is Σ of the rows' costs."""
    grouped: dict[_Key, list[CostRow]] = {}
    for row in rows:
        if row.rate is not None or row.cost is None:
            grouped.setdefault(_key(row, book, by_window), []).append(row)
    return tuple(_group(key, found, book) for key, found in sorted(grouped.items()))


def _key(row: CostRow, book: PriceBook, by_window: bool) -> _Key:
    return _Key(
        row.component, row.start_us if by_window else 0, row.end_us if by_window else 0, row.sku, row.plan, row.site,
        row.gpu_model, row.state, book.methods.get(row.line_id, ""), row.unit, row.rate or Decimal(0),
        row.pue or Decimal(1), book.where(row.price_id), row.status, row.reason, row.marginal,
    )  # fmt: skip


def _group(key: _Key, rows: list[CostRow], book: PriceBook) -> PricedGroup:
    known = [row for row in rows if row.quantity is not None]
    quantity = sum((quantity_of(row.quantity or 0, row.unit) for row in known), Fraction(0)) if known else None
    priced = [row for row in rows if row.cost is not None]
    cost = total(row.cost for row in priced) if priced else None
    at_once = None if quantity is None else round_money(decimal_of(quantity * Fraction(key.rate) * Fraction(key.pue)))
    return PricedGroup(
        component=key.component,
        start=local_text(key.start_us, book.zone) if key.end_us else "",
        end=local_text(key.end_us, book.zone) if key.end_us else "",
        sku=key.sku,
        plan=key.plan,
        site=key.site,
        gpu_model=key.gpu_model,
        state=key.state,
        method=key.method,
        quantity=None if quantity is None else quantity_text(quantity),
        quantity_exact=None if quantity is None else str(quantity),
        unit=unit_of(key.unit),
        rate=key.rate if priced else None,
        pue=key.pue if priced and key.unit == "uj" else None,
        where=key.where,
        formula=_formula(key, quantity, cost, book.currency),
        cost=cost,
        rows=len(rows),
        rounding=None if cost is None or at_once is None else MONEY_CONTEXT.subtract(cost, at_once),
        marginal=key.marginal,
        status=key.status,
        reason=key.reason,
        prices=_periods(priced, book),
    )


def _formula(key: _Key, quantity: Fraction | None, cost: Decimal | None, currency: str) -> str:
    unit = unit_of(key.unit)
    if cost is None or quantity is None:
        amount = "unknown" if quantity is None else exact_text(quantity)
        return f"{amount} {unit}: {key.status}{f', {key.reason}' if key.reason else ''}"
    pue = f" × PUE {money_text(key.pue)}" if unit == KWH and key.pue != 1 else ""
    return f"{exact_text(quantity)} {unit} × {money_text(key.rate)}{pue} = {money_text(cost)} {currency}"


def _periods(rows: list[CostRow], book: PriceBook) -> tuple[PricePeriod, ...]:
    """The price versions behind a group, by start."""
    grouped: dict[str, list[CostRow]] = {}
    for row in rows:
        grouped.setdefault(row.price_id, []).append(row)
    found = []
    for price_id, each in grouped.items():
        price = book.prices.get(price_id)
        quantity = sum((quantity_of(row.quantity or 0, row.unit) for row in each), Fraction(0))
        start_us, end_us = (0, None) if price is None else (price.start_us, price.end_us)
        period = PricePeriod(
            price_id, local_text(start_us, book.zone), "open" if end_us is None else local_text(end_us, book.zone),
            quantity_text(quantity), total(row.cost for row in each),
        )  # fmt: skip
        found.append((start_us, price_id, period))
    return tuple(period for _, _, period in sorted(found, key=lambda item: item[:2]))
