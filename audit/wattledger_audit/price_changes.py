"""What a price sheet changes of the published book, held to the rule that what has started is frozen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wattledger_core.event import Tick
from wattledger_core.price import Price
from wattledger_core.pricing_check import check_change
from wattledger_core.revision import Origin
from wattledger_schemas import BadRecord, Codec
from wattledger_streams.log_reader import LogReader
from wattledger_streams.mapping import from_wire_price_record
from wattledger_streams.settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class Book:
    """The newest revision of every published price, and the newest tick: the book's own time."""

    prices: dict[str, Price]
    now_us: int


def published_prices(settings: WorkerSettings) -> Book:
    """Read the whole book."""
    codec, prices, now_us = Codec.for_url(settings.registry_url), dict[str, Price](), 0
    reader = LogReader(settings.kafka(), settings.topic("price-book"), 0, "wattledger-prices")
    try:
        for record in reader.read_until(reader.end_offset()):
            try:
                decoded = codec.decode(record.value)
                item = from_wire_price_record(decoded.subject, decoded.record, 0, record.offset)
            except BadRecord:
                continue  # the meter puts it into dead-letters
            if isinstance(item, Tick):
                now_us = max(now_us, item.at_us)
            else:
                prices[item.price_id] = item
    finally:
        reader.close()
    return Book(prices, now_us)


def check_changes(prices: Sequence[Price], book: Book, reason: str) -> list[Price]:
    """The prices that are new or changed, in the order given.

    Raises PriceFrozen when one changes more than the end of what has started, or starts in the past with no reason.
    """
    changed = []
    for price in prices:
        old = book.prices.get(price.price_id)
        if old is not None and _says(old) == _says(price):
            continue
        given = replace(price, reason=price.reason or reason)
        check_change(old, given, book.now_us)
        changed.append(given)
    return changed


def _says(price: Price) -> Price:
    return replace(price, revision_id="", origin=Origin(0, 0), known_us=0, author="", reason="")
