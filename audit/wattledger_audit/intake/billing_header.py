"""The header of a billing sheet, where one cell spans columns that a second row names: `Zeitraum` over `von`, `bis`."""

import re
from collections.abc import Sequence

from wattledger_audit.intake.billing_columns import find_billing_columns
from wattledger_audit.intake.refusal import InputRefused

_DIGIT = re.compile(r"\d")
_NOT_LETTERS = re.compile(r"[^a-z]+")
_SIDES = frozenset({
    "sollhaben", "sollhabenkz", "sollhabenkennzeichen", "shkz", "sh", "debitcredit", "debitcreditindicator", "drcr",
    "debitorcredit", "creditdebit",
})  # fmt: skip


def with_second_row(headers: Sequence[str], cells: Sequence[str]) -> list[str] | None:
    """The headers with the names of the row below; None where that row is no part of the header.

    It is where it has words only and names columns that the first row did not, losing none."""
    filled = [cell for cell in cells if cell]
    if not filled or any(_DIGIT.search(cell) for cell in filled):
        return None
    width = max(len(headers), len(cells))
    tops = [*headers, *[""] * (width - len(headers))]
    below = [*cells, *[""] * (width - len(cells))]
    joined, over = [], ""
    for top, name in zip(tops, below, strict=True):
        over = top or over
        both = f"{over} {name}"
        joined.append(top if not name else both if find_billing_columns([both]).at else name)
    before, after = set(find_billing_columns(headers).at), set(find_billing_columns(joined).at)
    return joined if after - before and before - after <= {"period"} else None


def refuse_sides(source_name: str, headers: Sequence[str]) -> None:
    """Raises InputRefused for a column that says debit or credit: which is which depends on whose account it is."""
    for header in headers:
        if _NOT_LETTERS.sub("", header.lower()) in _SIDES:
            raise InputRefused(
                f"{source_name}: column {header!r} says debit or credit apart from the amount: export signed amounts, "
                "credits below 0, and leave that column out"
            )
