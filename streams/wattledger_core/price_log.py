"""The price book as a log: revisions in offset order, each stamped with the last tick above it.

Ticks never fall, so what is known at any moment is a prefix of the log: a view is a count of entries.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from wattledger_core.event import Tick
from wattledger_core.ids import digest
from wattledger_core.price import Price
from wattledger_core.pricing_check import PriceRefused, check_change, check_price, stamped
from wattledger_core.revision import UNKNOWN_TICK_US, Origin


@dataclass(slots=True)
class PriceHistory:
    """The revisions of one price id, with their places in the log; the hull says when any of them holds."""

    indexes: list[int] = field(default_factory=list)
    revisions: list[Price] = field(default_factory=list)
    first_us: int = 0
    until_us: int = 0

    def add(self, index: int, price: Price) -> None:
        self.first_us = min(self.first_us, price.start_us) if self.indexes else price.start_us
        self.until_us = max(self.until_us, price.until_us)
        self.indexes.append(index)
        self.revisions.append(price)

    def standing(self, count: int) -> Price | None:
        """The latest revision among the first `count` entries of the log."""
        place = bisect_left(self.indexes, count)
        return self.revisions[place - 1] if place else None


class PriceLog:
    """Feed records of `price-book` in offset order with `add`. One partition; the log is the state."""

    def __init__(self) -> None:
        self.newest_tick_us = UNKNOWN_TICK_US
        self.refused: dict[Origin, str] = {}
        """Why a record was left out, by where it stood: malformed, or a change of a price that had started."""
        self._entries: list[Price] = []
        self._known_us: list[int] = []
        self._index: dict[Origin, int] = {}
        self._last: Origin | None = None
        self._histories: dict[str, PriceHistory] = {}
        self._by_kind: dict[str, list[PriceHistory]] = {}

    def add(self, item: Price | Tick) -> Price | None:
        """Take the next record; the price as kept (with `known_us` and `revision_id`), or None.

        None: a tick, a record at or below an offset already seen (a duplicate), or a refused one (see `refused`).
        """
        if isinstance(item, Tick):
            self.newest_tick_us = max(self.newest_tick_us, item.at_us)
            return None
        if self._last is not None and item.origin <= self._last:
            return None
        self._last = item.origin
        origin = item.origin
        name = digest("price-revision", item.price_id, origin.partition, origin.offset, origin.seq)
        price = stamped(item, self.newest_tick_us, name)
        history = self._histories.get(price.price_id)
        try:
            check_price(price)
            if history is not None:
                check_change(history.revisions[-1], price, self.newest_tick_us)
        except PriceRefused as refusal:
            self.refused[origin] = str(refusal)
            return None
        self._keep(price, history)
        return price

    def _keep(self, price: Price, history: PriceHistory | None) -> None:
        index = len(self._entries)
        self._entries.append(price)
        self._known_us.append(price.known_us)
        self._index[price.origin] = index
        if history is None:
            history = self._histories[price.price_id] = PriceHistory()
            self._by_kind.setdefault(price.kind, []).append(history)
        history.add(index, price)

    @property
    def entries(self) -> Sequence[Price]:
        """Every kept revision in offset order; it only grows, so its length tells one state from another."""
        return self._entries

    def known_before(self, cutoff_us: int) -> int:
        """How many entries were known before the cutoff: the base view of what is cut off there."""
        return bisect_left(self._known_us, cutoff_us)

    def index_of(self, price: Price) -> int:
        """Place of a kept revision, by its origin. Raises `KeyError` when it isn't here."""
        return self._index[price.origin]

    def before(self, index: int) -> Price | None:
        """What the revision at `index` revises, or None when its price is new there."""
        return self._histories[self._entries[index].price_id].standing(index)

    def histories(self, kind: str) -> Sequence[PriceHistory]:
        """Histories of the prices of that kind, in order of first occurrence."""
        return self._by_kind.get(kind, ())
