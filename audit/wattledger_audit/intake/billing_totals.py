"""Total rows of a billing sheet: told by their word or by their sum, checked against the rows above, never counted."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache

from wattledger_audit.intake.total_row import is_total_word

_GRAND = re.compile(r"grand|gesamt|overall|all |invoice|rechnung", re.IGNORECASE)
_MORE_WORDS = frozenset({"ergebnis", "gesamtergebnis", "teilergebnis", "grand total", "overall result", "result"})
_BARE = frozenset({
    "total", "totals", "subtotal", "sub-total", "sub total", "grand total", "invoice total", "sum", "summe", "gesamt",
    "zwischensumme", "gesamtsumme", "rechnungsbetrag", *_MORE_WORDS,
})  # fmt: skip
_MOST_NAMES = 100_000
_LABEL_PARTS = ("tot", "sum", "som", "gesamt", "betrag", "ergebnis", "result", "all ", "∑", "σ", "ς")
_is_total_word = lru_cache(maxsize=65_536)(is_total_word)


@dataclass(slots=True)
class _Sum:
    """Per currency: all rows, and those of tax among them."""

    rows: int = 0
    all: dict[str, Decimal] = field(default_factory=dict)
    tax: dict[str, Decimal] = field(default_factory=dict)

    def add(self, amount: Decimal, currency: str, is_tax: bool) -> None:
        self.rows += 1
        self.all[currency] = self.all.get(currency, Decimal(0)) + amount
        if is_tax:
            self.tax[currency] = self.tax.get(currency, Decimal(0)) + amount

    def amounts(self, currency: str) -> tuple[Decimal, Decimal] | None:
        """The sum with and without tax; None where rows are in several currencies and the total names none."""
        key = currency if currency in self.all else next(iter(self.all), "") if len(self.all) == 1 else None
        if key is None or (currency and key and key != currency):
            return None
        total = self.all.get(key, Decimal(0))
        return total, total - self.tax.get(key, Decimal(0))


@dataclass(slots=True)
class RunningTotals:
    """Sums of the rows so far: the whole file, and the rows since the last total or blank row, and by tenant."""

    _file: _Sum = field(default_factory=_Sum)
    _group: _Sum = field(default_factory=_Sum)
    _block: _Sum = field(default_factory=_Sum)
    _named: dict[str, _Sum] = field(default_factory=dict)

    def add(self, amount: Decimal, currency: str, names: Iterable[str], is_tax: bool) -> None:
        """One row that counts or is refused; of its `names` (tenant, invoice) there may be totals ("acme Total")."""
        for total in (self._file, self._group, self._block):
            total.add(amount, currency, is_tax)
        for name in {name.casefold() for name in names if name}:
            if name in self._named or len(self._named) < _MOST_NAMES:
                self._named.setdefault(name, _Sum()).add(amount, currency, is_tax)

    def end_group(self) -> None:
        """After a total row."""
        self._group = _Sum()

    def end_block(self) -> None:
        """After a blank row."""
        self._block = _Sum()

    @property
    def empty(self) -> bool:
        """No row has come yet."""
        return self._file.rows == 0

    @staticmethod
    def may_have_label(cells: Iterable[str]) -> bool:
        """Whether any cell has a part of a word that totals are called by: most rows are done with here."""
        text = "\x1f".join(cells).lower()
        return any(part in text for part in _LABEL_PARTS)

    def is_label(self, text: str) -> bool:
        """Whether a cell says that its row is a total: `Total`, `Grand total`, `acme Total`, `Ergebnis`."""
        if not text:
            return False
        low = " ".join(text.casefold().split())
        return low in _MORE_WORDS or _is_total_word(text) or bool(self._name_in(text))

    def _name_in(self, label: str) -> str:
        """The tenant or invoice that a label names beside the word of a total; empty if none."""
        low = " ".join(label.casefold().split())
        head, _, last = low.rpartition(" ")
        if head.rstrip(": ") in self._named and (last in _MORE_WORDS or _is_total_word(last)):
            return head.rstrip(": ")
        words = low.split(" ")
        for at in range(1, len(words)):
            name = " ".join(words[at:]).strip(": ")
            if name in self._named and _is_total_word(" ".join(words[:at])):
                return name
        return ""

    @staticmethod
    def is_bare_label(text: str) -> bool:
        """Whether a label is a total's and can be nothing else, such as a product's name."""
        return text.strip(" :").casefold() in _BARE

    def is_sum(self, amount: Decimal, currency: str, names: Iterable[str] = ()) -> bool:
        """Whether an amount is the sum of rows above: of all, of the last group, or of those with one of the names."""
        return any(amount in (found or ()) for found in self._sums(currency, names))

    def _sums(self, currency: str, names: Iterable[str]) -> list[tuple[Decimal, Decimal] | None]:
        named = (self._named.get(name.casefold()) for name in names)
        groups = [self._file, self._group, self._block, *(total for total in named if total)]
        return [total.amounts(currency) for total in groups if total.rows]

    def verdict(self, label: str, names: Iterable[str], amount: Decimal | None, currency: str) -> str:
        """The reason to put beside a total row: that it repeats its rows, or that it does not."""
        if amount is None:
            return "total_row: a total row without an amount; totals are not counted"
        sums = self._sums(currency, (*names, self._name_in(label)))
        if any(amount in (found or ()) for found in sums):
            return "total_row: it repeats the rows above it and is not counted once more"
        if None in sums:
            return "total_row: its rows are in several currencies, so it is not checked; totals are not counted"
        named = self._named.get(self._name_in(label))
        whole = self._group.rows == 0 or _GRAND.search(label) is not None
        expected = (named or (self._file if whole else self._group)).amounts(currency)
        rows = f"{expected[0]:f}" if expected else "nothing"
        return f"total_row: the file's own total is {amount:f}, its rows sum to {rows}"
