"""Cost rows that are parts of an amount: which amount, what its driver weighs here and in all, and the share."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

from wattledger_core.cost import CostRow
from wattledger_core.ids import digest
from wattledger_core.line import Line
from wattledger_core.span_lines import SpanLedger
from wattledger_core.units import UJ_PER_KWH, US_PER_HOUR

from wattledger_audit.assessment.cost_book import CostBook, Spread
from wattledger_audit.assessment.costing import Costed
from wattledger_audit.explain_value import SpreadGroup
from wattledger_audit.explaining_quantity import (
    GPU_HOURS,
    KWH,
    NODE_HOURS,
    exact_text,
    hours,
    quantity_text,
    share_text,
)
from wattledger_audit.report.amount_text import money_text
from wattledger_audit.report.sums import total
from wattledger_audit.shown_time import local_text

_UNITS = {"node_h": NODE_HOURS, "kwh": KWH, "committed_kw": "GPU-hours × W"}


@dataclass(slots=True)
class SpreadBook:
    """The amounts of a cost book with the rows that each was spread over, and what its driver weighs on every row."""

    book: CostBook
    zone: ZoneInfo
    rows: dict[int, list[CostRow]] = field(default_factory=dict)
    number_of: dict[str, int] = field(default_factory=dict)
    """Row id → place of its amount in the book."""
    _lines: dict[str, Line] = field(default_factory=dict)
    _node_parts: dict[str, int] = field(default_factory=dict)
    _by_time: set[int] = field(default_factory=set)
    """Amounts by committed power where no power of their GPUs is known: time stands in for it."""

    @classmethod
    def of(cls, book: CostBook, costed: Costed, ledger: SpanLedger, zone: ZoneInfo) -> "SpreadBook":
        """Finds each row's amount by the id that spreading gave it."""
        found = cls(book, zone)
        if not book.spreads:
            return found
        found._lines = {line.line_id: line for line in costed.lines}
        if any(spread.driver == "node_h" for spread in book.spreads):
            found._node_parts = {ledger.line(key, 0).line_id: parts for key, parts in ledger.node_parts.items()}
        for row in costed.rows:
            if row.rate is None and row.cost is not None:
                plain = digest("spread", row.component, row.line_id)
                numbers = (n for n, spread in enumerate(book.spreads) if spread.component == row.component)
                number = next(n for n in numbers if digest(plain, n) == row.row_id)
                found.number_of[row.row_id] = number
                found.rows.setdefault(number, []).append(row)
        for number, rows in found.rows.items():
            if book.spreads[number].driver == "committed_kw" and not found.weight(number, rows):
                found._by_time.add(number)
        return found

    def weight(self, number: int, rows: Iterable[CostRow]) -> Fraction:
        """What the driver weighs on these rows of an amount, in its own unit."""
        return sum((self._weight(number, row) for row in rows), Fraction(0))

    def _weight(self, number: int, row: CostRow) -> Fraction:
        line, driver = self._lines[row.line_id], self.book.spreads[number].driver
        if driver == "node_h":
            return hours(self._node_parts[row.line_id])
        if driver == "kwh":
            return Fraction(line.energy_uj or 0, UJ_PER_KWH)
        if driver == "committed_kw" and number not in self._by_time:
            model = self.book.power.get(line.gpu_model)
            return hours(line.device_us) * Fraction(0 if model is None else model.busy_mw, 1000)
        return hours(line.device_us)

    def unit(self, number: int) -> str:
        """The unit of a driver's weights."""
        return GPU_HOURS if number in self._by_time else _UNITS.get(self.book.spreads[number].driver, GPU_HOURS)


def spread_groups(rows: Iterable[CostRow], book: SpreadBook) -> tuple[SpreadGroup, ...]:
    """The rows that are parts of amounts, one group for each amount, in the order of the cost file."""
    grouped: dict[int, list[CostRow]] = {}
    for row in rows:
        if row.row_id in book.number_of:
            grouped.setdefault(book.number_of[row.row_id], []).append(row)
    return tuple(_group(number, found, book) for number, found in sorted(grouped.items()))


def _group(number: int, rows: list[CostRow], book: SpreadBook) -> SpreadGroup:
    spread = book.book.spreads[number]
    inside = total(row.cost for row in book.rows[number])
    weight, whole = book.weight(number, rows), book.weight(number, book.rows[number])
    cost = total(row.cost for row in rows)
    unit = book.unit(number)
    said = f"{spread.said_at}: " if spread.said_at else ""
    return SpreadGroup(
        component=spread.component,
        start=local_text(spread.start_us, book.zone),
        end=local_text(spread.end_us, book.zone),
        amount=spread.amount,
        per_device=spread.per_device,
        site=spread.site,
        gpu_model=spread.gpu_model,
        inside=inside,
        driver=spread.driver,
        weight=quantity_text(weight),
        whole_weight=quantity_text(whole),
        unit=unit,
        share=share_text(weight, whole),
        formula=f"{said}{_inside(spread, inside, whole)}; × {exact_text(weight)} ÷ {exact_text(whole)} {unit} = "
        f"{money_text(cost)} {spread.currency}",
        cost=cost,
        rows=len(rows),
        marginal=spread.marginal,
    )


def _inside(spread: Spread, inside: Decimal, whole: Fraction) -> str:
    """How the amount becomes what it is in the period."""
    long = exact_text(Fraction(spread.end_us - spread.start_us, US_PER_HOUR))
    if spread.per_device:
        per = f"{money_text(spread.amount)} a GPU for {long} h × {exact_text(whole)} GPU-hours in service ÷ {long}"
        return f"{per} = {money_text(inside)}"
    if inside == spread.amount:
        return money_text(inside)
    return f"{money_text(inside)} of {money_text(spread.amount)} for {long} h, by the time inside the period"
