"""Cells left blank because the row above says it: which columns of a file are so, and their values carried down.

A row without names and without a period continues the row above it. A row with a period of its own does so only where
the file never writes out a name that continues. Blank rows and total rows end what is carried.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wattledger_audit.intake.billing_columns import BillingColumns

NAMES = ("invoice_id", "tenant")
CARRIED = ("invoice_id", "tenant", "tenant_id", "project", "start", "end", "period", "day", "currency")
_PERIOD = ("start", "end", "period", "day")


class CarryRule(NamedTuple):
    """`columns` may be carried down at all, `implied` also to rows with a period of their own, `outer` (columns left of
    an invoice's own) also over the invoices below that leave them blank."""

    columns: frozenset[str]
    implied: frozenset[str]
    outer: frozenset[str]
    names: tuple[str, ...]


@dataclass(slots=True)
class CarryProof:
    """Collects, over all rows of a file, how names and periods are repeated or left blank."""

    columns: BillingColumns
    _first: Mapping[str, str] | None = None
    _last: Mapping[str, str] = field(default_factory=dict)
    _repeated: set[str] = field(default_factory=set)
    _written: set[str] = field(default_factory=set)
    _blank: Counter[str] = field(default_factory=Counter)
    _inner_blank: Counter[str] = field(default_factory=Counter)

    def is_heading(self, texts: Mapping[str, str]) -> bool:
        """Whether a row has all names, though it may have no amount: they stand above the rows that they are for."""
        return all(texts[name] for name in NAMES if name in self.columns.at)

    def add(self, texts: Mapping[str, str], new_block: bool) -> None:
        """One row that is no total; `new_block`: a blank row or a total stands above it."""
        values = {name: texts[name] for name in CARRIED if name in self.columns.at}
        names = [values[name] for name in NAMES if name in values]
        if self._first is None and any(names):
            self._first = values
        last = {} if new_block else self._last
        if names and all(names) and names == [last.get(name) for name in NAMES if name in values]:
            self._repeated.update(name for name in CARRIED if values.get(name) and last.get(name))
        self._written.update(name for name, text in values.items() if text and text == last.get(name))
        if any(names):
            self._inner_blank.update(name for name, text in values.items() if not text)
        else:
            self._blank["alone" if any(values.get(name) for name in _PERIOD) else "with_period"] += 1
        self._last = values

    def decide(self) -> CarryRule:
        """Which columns are carried. A single row without its one name, all else filled, has none: nobody's row."""
        names = tuple(name for name in NAMES if name in self.columns.at)
        first = self._first or {}
        columns = frozenset(name for name in CARRIED if first.get(name))
        implied = columns - self._repeated
        if len(names) == 1 and not self._blank["with_period"] and self._blank["alone"] < 2:
            implied -= {names[0]}
        return CarryRule(columns, implied, columns & self._outer(), names)

    def _outer(self) -> set[str]:
        """Columns left of those of one invoice that are filled once and then left blank over several of them."""
        at = self.columns.at
        inner = min((at[name].place for name in ("invoice_id", "tenant") if name in at), default=0)
        left = {name for name in CARRIED if name in at and at[name].place < inner}
        if "invoice_id" in at and "tenant" in at and at["tenant"].place < at["invoice_id"].place:
            left.add("tenant")
        return {name for name in left if self._inner_blank[name] >= 2 and name not in self._written}


@dataclass(slots=True)
class Carry:
    """Fills the blank cells of rows in file order."""

    rule: CarryRule
    _last: dict[str, str] = field(default_factory=dict)

    def end_block(self) -> None:
        """A blank row or a total: nothing above it is carried further."""
        self._last = {}

    def fill(self, texts: Mapping[str, str]) -> dict[str, str]:
        """The row's names, period and currency, blank ones as the rows above give them."""
        own = {name: texts[name] for name in CARRIED}
        last, rule = self._last, self.rule
        if not any(own[name] for name in rule.names):
            may = rule.implied if any(own[name] for name in _PERIOD) else rule.columns
            wanted = may if may.issuperset(rule.names) else frozenset[str]()
        elif self._same_group(own):
            wanted = rule.implied
        else:
            wanted = frozenset[str]()
        wanted |= rule.outer
        filled = {name: text or (last.get(name, "") if name in wanted else "") for name, text in own.items()}
        if any(own[name] for name in _PERIOD):
            filled.update({name: own[name] for name in _PERIOD})
        self._last = filled
        return filled

    def _same_group(self, own: Mapping[str, str]) -> bool:
        """The invoice above goes on, or, where no invoice is named, its tenant does."""
        if own["invoice_id"]:
            return own["invoice_id"] == self._last.get("invoice_id") and own["tenant"] in ("", self._last.get("tenant"))
        return own["tenant"] == self._last.get("tenant")
