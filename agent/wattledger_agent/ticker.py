"""The ticker: time as a record, in every partition of `job-events` and of `price-book`."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog
from wattledger_schemas import Codec

from wattledger_agent.clock import Clock
from wattledger_agent.metrics import LAST_TICK, STALE_SOURCES
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import BROADCAST, WalFull, WalRecord, WalUnavailable

log = structlog.get_logger()
TICK_TOPICS = ("job-events", "price-book")
_MEMORY = "__ticker__"
Watermarks = Callable[[], Mapping[str, int]]
"""Event time in µs up to which each source's events are in the log. A source that has said nothing yet reports when
it began."""


@dataclass(frozen=True, slots=True)
class TickRule:
    """A source whose watermark is older than `stale_after_us` is named as stale and no longer waited for."""

    stale_after_us: int = 300_000_000


def next_tick(watermarks: Mapping[str, int], now_us: int, rule: TickRule) -> tuple[int, tuple[str, ...]]:
    """The time up to which every live source has reported, and who is stale. No live source: now."""
    stale = tuple(sorted(name for name, at_us in watermarks.items() if now_us - at_us > rule.stale_after_us))
    live = [at_us for name, at_us in watermarks.items() if name not in stale]
    return min([now_us, *live]), stale


def tick_records(at_us: int, stale: Sequence[str], codec: Codec) -> list[WalRecord]:
    """The records of one tick: broadcast, the same bytes to each topic."""
    value = codec.encode("tick", {"at_us": at_us, "stale_sources": list(stale)})
    return [WalRecord(topic, "tick", value, BROADCAST, at_us) for topic in TICK_TOPICS]


class Ticker:
    """Writes a tick each period. Ticks never go back, not over a restart either: the log remembers the last one."""

    def __init__(self, wal: Wal, watermarks: Watermarks, clock: Clock, codec: Codec, rule: TickRule) -> None:
        self._wal = wal
        self._watermarks = watermarks
        self._clock = clock
        self._codec = codec
        self._rule = rule
        remembered = wal.last_tick(_MEMORY)
        self._last_us = int.from_bytes(remembered, "big") if remembered else 0

    def tick(self) -> int | None:
        """Write the tick that is due; its time, or None when time has not moved on. Raises WalFull, WalUnavailable.

        A source that comes back from being stale with old events moves time no further back: those events are late.
        """
        at_us, stale = next_tick(self._watermarks(), self._clock.wall_us(), self._rule)
        if at_us <= self._last_us:
            return None
        self._wal.append(tick_records(at_us, stale, self._codec), {_MEMORY: at_us.to_bytes(8, "big")})
        self._last_us = at_us
        LAST_TICK.set(at_us // 1_000_000)
        STALE_SOURCES.set(len(stale))
        return at_us

    def run(self, period_s: float, stop: threading.Event) -> None:
        """Tick until `stop`. A log that takes nothing skips a tick: the next one says more."""
        while not stop.is_set():
            try:
                self.tick()
            except (WalFull, WalUnavailable) as error:
                log.warning("tick_not_written", error=str(error))
            self._clock.sleep(period_s)
