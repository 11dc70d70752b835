"""What the exports of clouds share: columns by name whatever their spelling, refused rows with their money, tenants."""

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple, Protocol

from wattledger_audit.intake.billing_fixed import EMPTY, fixed_number, service_end_us, utc_stamp_us
from wattledger_audit.intake.currency import currency_code
from wattledger_audit.intake.importer import Detection
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BillingLine
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import Source
from wattledger_audit.intake.table import Row, Table, head_rows, open_table

Cell = Callable[[Sequence[str]], str]
_WORD_EDGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_GAPS = re.compile(r"[^a-z0-9]+")


class Money(NamedTuple):
    """An amount and its ISO currency."""

    amount: Decimal
    currency: str


class CurrencyRefused(RowRefused):
    """A row whose amount is known and whose currency is not."""

    def __init__(self, column: str, amount: Decimal) -> None:
        super().__init__(column, str(amount), "bad_currency: the row names no currency by its ISO code")
        self.amount = amount


def snake(header: str) -> str:
    """`lineItem/UsageStartDate`, `BilledCost` and `usage.amount` as `line_item_usage_start_date`, `billed_cost`…"""
    return _GAPS.sub("_", _WORD_EDGE.sub("_", header).lower()).strip("_")


class Columns:
    """The columns of one file by their snake-case names."""

    def __init__(self, headers: Sequence[str]) -> None:
        self.names = [snake(header) for header in headers]
        self.width = len(headers)
        self._place = {name: place for place, name in reversed(list(enumerate(self.names)))}

    def has(self, name: str) -> bool:
        return name in self._place

    def cell(self, *names: str) -> Cell:
        """Reads a row's first filled cell of these columns; `NULL` is empty; empty where the file has none of them."""
        places = tuple(self._place[name] for name in names if name in self._place)
        if not places:
            return lambda cells: ""
        first = places[0]

        def one(cells: Sequence[str]) -> str:
            text = cells[first] if first < len(cells) else ""
            return "" if text in EMPTY else text

        def any_of(cells: Sequence[str]) -> str:
            for place in places:
                if place < len(cells) and cells[place] not in EMPTY:
                    return cells[place]
            return ""

        return one if len(places) == 1 else any_of

    def tag(self, *ends: str) -> Cell:
        """The first filled column whose name ends in `_<one of ends>`, in the order of the ends."""
        found = [name for end in ends for name in self.names if name.endswith("_" + end) and "tag" in name]
        return self.cell(*found)


class TenantNames:
    """Readable tenant names that stay apart: one name on several ids becomes `name (id)`. An id that stands without
    its name has the one that it has elsewhere in the file."""

    def __init__(self) -> None:
        self._ids: dict[str, set[str]] = {}
        self._names: dict[str, set[str]] = {}

    def see(self, name: str, identity: str) -> None:
        if name and identity:
            self._ids.setdefault(name, set()).add(identity)
            self._names.setdefault(identity, set()).add(name)

    def of(self, name: str, identity: str) -> str:
        if not name:
            known = self._names.get(identity, ())
            if len(known) != 1:
                return identity
            (name,) = known
        return f"{name} ({identity})" if identity and len(self._ids.get(name, ())) > 1 else name


class Finals:
    """Which deliveries of a file are final: those of which every row says so (has its invoice's id)."""

    def __init__(self) -> None:
        self._final: dict[str, bool] = {}

    def see(self, delivery: str, final: bool) -> None:
        self._final[delivery] = self._final.get(delivery, True) and final

    def rank(self, delivery: str) -> int:
        return int(self._final.get(delivery, False))


class CloudLayout(Protocol):
    """How one cloud's rows become lines. Both raise RowRefused; `lines` may give several (a charge, its credits)."""

    def money(self, cells: Sequence[str]) -> Money: ...

    def lines(self, row: Row, money: Money) -> list[BillingLine]: ...


def detect_header(source: Source, needed: frozenset[str], score: int, why: str) -> Detection | None:
    """The detection of a table by columns that no other format has together."""
    if any(has_columns(cells, needed) for cells in head_rows(source)):
        return Detection(score, why)
    return None


def has_columns(cells: Sequence[str], needed: frozenset[str]) -> bool:
    return needed <= {snake(cell) for cell in cells}


def open_columns(source: Source, options: ReadOptions, needed: frozenset[str]) -> tuple[Table, Columns]:
    """The table under the header that has the needed columns. Raises InputRefused."""
    table = open_table(source, options, lambda cells: has_columns(cells, needed))
    return table, Columns(table.headers)


def read_rows(source: Source, table: Table, layout: CloudLayout, rejections: Rejections) -> Iterator[BillingLine]:
    """The lines of every row in file order; rows that can't be used go to the rejections with their money."""
    width = len(table.headers)
    for row in table.rows:
        money: Money | None = None
        try:
            if len(row.cells) > width and any(row.cells[width:]):
                extra = " | ".join(row.cells[width:])
                raise RowRefused("", extra, "too_many_cells: the row has more cells than the header: quote its commas")
            money = layout.money(row.cells)
            made = layout.lines(row, money)
        except RowRefused as refused:
            known = refused.amount if isinstance(refused, CurrencyRefused) else None
            amount, currency = money or (known, "")
            rejections.add(source.name, row.line, refused.column, refused.value, refused.reason, amount, currency)
        else:
            yield from made


def read_money(amount_text: str, amount_column: str, currency_text: str, currency_column: str) -> Money:
    """Raises RowRefused (`no_amount`, `bad_amount`, `bad_currency`)."""
    amount = read_number(amount_text, amount_column, "bad_amount")
    if amount is None:
        raise RowRefused(amount_column, amount_text, "no_amount: the row has no amount")
    currency = currency_code(currency_text)
    if not currency:
        raise CurrencyRefused(currency_column, amount)
    return Money(amount, currency)


def read_number(text: str, column: str, code: str = "bad_number") -> Decimal | None:
    """Raises RowRefused where a filled cell is no number."""
    try:
        return fixed_number(text)
    except ValueError as error:
        raise RowRefused(column, text, f"{code}: {error}") from None


def read_period(start_text: str, end_text: str, columns: tuple[str, str]) -> tuple[int, int]:
    """The half-open service period. Raises RowRefused (`no_period`, `bad_time`, `bad_period`)."""
    times = []
    for text, column in zip((start_text, end_text), columns, strict=True):
        if not text:
            raise RowRefused(column, text, "no_period: the row does not say when its service was")
        try:
            times.append(utc_stamp_us(text))
        except ValueError:
            raise RowRefused(column, text, "bad_time: no ISO date and time such as 2026-10-01T08:00:00Z") from None
    end_us = service_end_us(times[0], times[1])
    if end_us is None:
        raise RowRefused(columns[1], end_text, f"bad_period: it ends before it starts ({start_text})")
    return times[0], end_us
