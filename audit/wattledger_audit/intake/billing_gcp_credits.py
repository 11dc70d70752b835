"""The credits cell of Google Cloud billing exports: a list of objects as JSON or as Python writes it. Never a float."""

from decimal import Decimal
from typing import NamedTuple

from wattledger_audit.intake.billing_fixed import fixed_number
from wattledger_audit.intake.literal_text import read_literal
from wattledger_audit.intake.row_refused import RowRefused

COLUMN = "credits"


class Credit(NamedTuple):
    """One credit: `amount` as delivered (negative takes off the cost), `kind` such as PROMOTION."""

    name: str
    kind: str
    amount: Decimal


def read_credits(text: str) -> list[Credit]:
    """The credits of one row, in order. Raises RowRefused (`bad_credits`) for a cell that can't be read."""
    if text in ("", "[]", "{}"):
        return []
    items = _list(text)
    return [_credit(item, text) for item in items if item]


def _credit(item: object, text: str) -> Credit:
    if not isinstance(item, dict):
        raise _bad(text)
    try:
        amount = fixed_number(str(item.get("amount", "")))
    except ValueError:
        raise _bad(text) from None
    if amount is None:
        raise _bad(text)
    words = (item.get("full_name"), item.get("name"), item.get("id"))
    return Credit(next((str(word) for word in words if word), ""), str(item.get("type") or ""), amount)


def _list(text: str) -> list[object]:
    try:
        found = read_literal(text)
    except ValueError:
        raise _bad(text) from None
    return found if isinstance(found, list) else [found]


def _bad(text: str) -> RowRefused:
    return RowRefused(COLUMN, text, "bad_credits: no list of credits with an amount each; export the file again")
