"""Totals over cost rows that refuse to hide what has no price."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from wattledger_core.cost import UNMEASURED, UNPRICED, CostRow
from wattledger_core.units import MONEY_CONTEXT

LISTED = 5


class UnpricedTotal(ValueError):
    """Rows without a price stand in what was to be summed; the message counts and names them."""


class MixedCurrencies(ValueError):
    """Rows of several currencies cannot be summed without exchange rates."""


@dataclass(frozen=True, slots=True)
class Total:
    """A sum, with what it could not include: standing rows without a price, and without a measured quantity."""

    amount: Decimal
    currency: str
    unpriced_rows: int
    unmeasured_rows: int


def total(rows: Iterable[CostRow], allow_unpriced: bool = False) -> Total:
    """Σ cost of the rows, exactly. Reversed rows cancel, unpriced ones too: only what stands counts.

    Raises `UnpricedTotal` when rows without a price stand, unless asked for; `MixedCurrencies` for several.
    """
    amount = Decimal(0)
    currencies: set[str] = set()
    unpriced: Counter[str] = Counter()
    unmeasured = 0
    for row in rows:
        if row.cost is not None:
            amount = MONEY_CONTEXT.add(amount, row.cost)
            currencies.add(row.currency)
        elif row.status == UNPRICED:
            unpriced[_subject(row)] += row.sign
        elif row.status == UNMEASURED:
            unmeasured += row.sign
    if len(currencies) > 1:
        raise MixedCurrencies(f"rows are in {', '.join(sorted(currencies))}: sum each currency apart")
    standing = {subject: count for subject, count in unpriced.items() if count}
    if standing and not allow_unpriced:
        raise UnpricedTotal(_refusal(standing))
    return Total(amount, min(currencies, default=""), sum(standing.values()), unmeasured)


def _subject(row: CostRow) -> str:
    """What a missing or contradicting price would have to be about."""
    where = f"{row.gpu_model} at {row.site}"
    if row.component != "billed":
        return f"{row.component} of {where} ({row.reason})"
    return f"billed to {row.tenant}, plan {row.plan}, sku {row.sku or '-'}, {where} ({row.reason})"


def _refusal(standing: dict[str, int]) -> str:
    named = sorted(standing.items(), key=lambda item: (-item[1], item[0]))
    listed = "; ".join(f"{count} of {subject}" for subject, count in named[:LISTED])
    more = f"; and {len(named) - LISTED} more kinds" if len(named) > LISTED else ""
    return (
        f"{sum(standing.values())} rows have no price: {listed}{more}. "
        "Publish the missing prices, end one of two that contradict, or ask for a total without them"
    )
