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


class WatermarksUnavailable(RuntimeError):
    """What the sources have reported can't be read now: no tick may be written, for time would run ahead of events
    that are on their way."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What is known of the sources: event time in µs up to which each one's events are in the log. Before `since_us`
    nothing could be read, so no source is blamed for its silence then. `newest_tick_us`: of whichever ticker."""

    marks: Mapping[str, int]
    since_us: int = 0
    newest_tick_us: int = 0


Watermarks = Callable[[], Sight]
"""Raises WatermarksUnavailable."""


@dataclass(frozen=True, slots=True)
class TickRule:
    """A source whose watermark is older than `stale_after_us` is named as stale and no longer waited for; after a time
    in which nothing could be read it is given as long again."""

    stale_after_us: int = 300_000_000


def next_tick(sight: Sight, now_us: int, rule: TickRule) -> tuple[int, tuple[str, ...]]:
    """The time up to which every live source has reported, and who is stale. No live source: now."""
    oldest_us = now_us - rule.stale_after_us
    stale = tuple(sorted(name for name, at_us in sight.marks.items() if max(at_us, sight.since_us) < oldest_us))
    live = [at_us for name, at_us in sight.marks.items() if name not in stale]
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
        """Write the tick that is due; its time, or None when time has not moved on, or another ticker was first.
        Raises WalFull, WalUnavailable, WatermarksUnavailable.

        A source that comes back from being stale with old events moves time no further back: those events are late.
        """
        sight = self._watermarks()
        at_us, stale = next_tick(sight, self._clock.wall_us(), self._rule)
        if at_us <= max(self._last_us, sight.newest_tick_us):
            return None
        self._wal.append(tick_records(at_us, stale, self._codec), {_MEMORY: at_us.to_bytes(8, "big")})
        self._last_us = at_us
        LAST_TICK.set(at_us // 1_000_000)
        STALE_SOURCES.set(len(stale))
        return at_us

    def run(self, period_s: float, stop: threading.Event) -> None:
        """Tick until `stop`. When the log takes nothing, or the sources can't be read, a tick is skipped: the next one
        says more."""
        said = ""
        while not stop.is_set():
            try:
                self.tick()
                said = ""
            except (WalFull, WalUnavailable, WatermarksUnavailable) as error:
                if str(error) != said:
                    log.warning("tick_not_written", error=str(error))
                said = str(error)
            stop.wait(period_s)
