"""One row of a billing sheet: its cells by meaning, its amount net of tax, its currency, and what it looks like."""

from collections.abc import Mapping
from decimal import Decimal

from wattledger_audit.intake.billing_category import category_of
from wattledger_audit.intake.billing_sheet import LABELS, BillingSheet, split_quantity
from wattledger_audit.intake.currency import currency_beside, currency_code
from wattledger_audit.intake.number_form import NotANumber
from wattledger_audit.intake.row import Exact, Row
from wattledger_audit.intake.row_refused import RowRefused

_PERIOD = ("start", "period", "day")
_BLANK = frozenset({"-", "–", "—", "n/a", "N/A", "na", "NA"})


class SheetRow:
    """`texts` has every meaning, empty where the row lacks it."""

    __slots__ = ("cells", "line", "preferred", "sheet", "texts")

    def __init__(self, row: Row, sheet: BillingSheet, preferred: str | None) -> None:
        self.line, self.cells = row
        self.sheet, self.preferred = sheet, preferred
        self.texts: Mapping[str, str] = sheet.columns.texts(row.cells)

    @property
    def amount_column(self) -> str:
        """The header of the column with the amount that counts."""
        return self.sheet.columns.title(self._amount_field)

    @property
    def _amount_field(self) -> str:
        return "amount" if self.sheet.columns.has("amount") else "gross"

    def refused(self, field: str, reason: str, value: str = "") -> RowRefused:
        """A refusal of the row for this cell."""
        return RowRefused(self.sheet.columns.title(field), value or self.texts[field], reason)

    def number(self, field: str) -> Decimal | None:
        """A cell's number; None where it is blank. Raises RowRefused (`bad_<field>`)."""
        return self._parsed(field, self.texts[field])

    def _parsed(self, field: str, text: str) -> Decimal | None:
        try:
            return self.sheet.numbers.parse(text) if text and text not in _BLANK else None
        except NotANumber as error:
            raise self.refused(field, f"bad_{field}: {error.words}") from None

    def quantity(self) -> tuple[Decimal | None, str]:
        """Quantity and unit, the unit also from beside the number (`744 GPU-h`) or from the header."""
        number, beside = split_quantity(self.texts["quantity"])
        quantity = self._parsed("quantity", number)
        unit = self.texts["unit"] or beside or self.sheet.columns.unit
        return quantity, unit if quantity is not None else ""

    def price_not_set(self) -> bool:
        """Whether the unit price is -1; one that is no number says nothing."""
        try:
            return self.number("unit_price") == -1
        except RowRefused:
            return False

    def amount(self) -> Decimal | None:
        """The amount net of tax; None where the cell is blank. Raises RowRefused (`bad_amount`, `no_tax`)."""
        if self._amount_field == "amount":
            return self.number("amount")
        gross, tax = self.number("gross"), self.number("tax")
        if gross is not None and tax is None:
            reason = "no_tax: the amount has tax in it and the row does not say how much: fill the cell, 0 for none"
            raise self.refused("tax", reason, str(gross))
        return None if gross is None or tax is None else gross - tax

    def currency(self, named: str) -> str:
        """The currency: that of its own column (`named`), then a sign beside the amount, then the file's; else empty.

        Raises RowRefused (`bad_currency`, `currency_conflict`).
        """
        cell = self.texts[self._amount_field]
        said = currency_code(named, self.preferred) if named else ""
        if named and not said:
            raise self.refused("currency", "bad_currency: no ISO code such as USD", named)
        bare = isinstance(cell, Exact) or (cell[-1:].isdigit() and cell[:1].isdigit())
        beside = "" if bare else currency_beside(cell, said or self.preferred)
        if said and beside and said != beside:
            reason = f"currency_conflict: the amount is in {beside}, the currency column says {said}"
            raise self.refused(self._amount_field, reason)
        return said or beside or self.sheet.currency

    def is_cut(self) -> bool:
        """Whether the row ends before the column of its amount."""
        columns = self.sheet.columns
        return len(self.cells) < columns.width and columns.at[self._amount_field].place >= len(self.cells)

    def category(self, amount: Decimal) -> str:
        """The revenue category by the row's own column, else by its words."""
        texts = self.texts
        return category_of(amount, texts["description"], texts["sku"], texts["plan"], named=texts["category"])

    def is_full(self, label: str) -> bool:
        """Whether the row has names and a period of its own, as a billed line has, beside what looks like a label."""
        names = [name for name in ("invoice_id", "tenant", "quantity") if self.sheet.columns.has(name)]
        full = all(self.texts[name] for name in names) and any(self.texts[name] for name in _PERIOD)
        return full and label not in names

    def is_tax(self, amount: Decimal) -> bool:
        """Whether a row without a tenant says, in any of its words, that it is the tax on the rows above."""
        return not self.texts["tenant"] and category_of(amount, *(self.texts[name] for name in LABELS)) == "tax"

    def names_what_for(self) -> bool:
        """Whether it says what it is for, or at least whose it is: a bare amount is nobody's."""
        if not self.sheet.columns.has("sku", "description"):
            return True
        return any(self.texts[name] for name in ("sku", "description", "tenant", "tenant_id", "invoice_id"))
