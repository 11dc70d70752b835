"""The ticker: time as a record, in every partition of `job-events` and of `price-book`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wattledger_agent.wal_record import BROADCAST, WalRecord

TICK_TOPICS = ("job-events", "price-book")


@dataclass(frozen=True, slots=True)
class TickRule:
    """A source silent for `stale_after_us` is named as stale and no longer waited for."""

    stale_after_us: int = 300_000_000


def next_tick(watermarks: Mapping[str, int], now_us: int, rule: TickRule) -> tuple[int, tuple[str, ...]]:
    """The time up to which every live source has reported, and who is stale. No live source: now."""
    stale = tuple(sorted(name for name, at_us in watermarks.items() if now_us - at_us > rule.stale_after_us))
    live = [at_us for name, at_us in watermarks.items() if name not in stale]
    return min([now_us, *live]), stale


def tick_records(at_us: int, stale: Sequence[str], encode: Callable[[int, Sequence[str]], bytes]) -> list[WalRecord]:
    """The records of one tick: broadcast, the same bytes to each topic."""
    value = encode(at_us, stale)
    return [WalRecord(topic, "tick", value, BROADCAST, at_us) for topic in TICK_TOPICS]
