"""The trace player: plays traces in real or accelerated time through the agent's own path, log and publisher."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog

from wattledger_agent.clock import Clock
from wattledger_agent.metrics import WAL_NOT_TAKING
from wattledger_agent.publisher import Publisher
from wattledger_agent.trace import TraceItem
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import BROADCAST, BY_KEY, WalFull, WalRecord, WalUnavailable

log = structlog.get_logger()
GROUP_RECORDS = 500
GROUP_S = 0.2
_POLL_S = 0.02
_RETRY_FIRST_S = 0.1
_RETRY_MOST_S = 2.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast: `speed` is event time over wall time (None: as fast as allowed). `confirmed` tells the newest event
    time that downstream has marked; play never runs more than `max_lead_us` ahead of it, so that accelerated play
    is not taken for a wrong clock."""

    speed: float | None = 1.0
    confirmed: Callable[[], int | None] | None = None
    max_lead_us: int = 240_000_000


@dataclass(slots=True)
class Played:
    """What was played; `last_offset` by topic and partition, as delivered."""

    records: int = 0
    last_at_us: int = 0
    last_offset: dict[tuple[str, int], int] = field(default_factory=dict)


class Player:
    """Plays items in order: pace, group, append durably; the publisher drains at the same time."""

    def __init__(self, wal: Wal, publisher: Publisher, clock: Clock, pace: Pace) -> None:
        self._wal = wal
        self._publisher = publisher
        self._clock = clock
        self._pace = pace
        self._first_us: int | None = None
        self._began_s = 0.0
        self._group: list[WalRecord] = []
        self._group_since_s = 0.0
        self.stop = threading.Event()

    def play(self, items: Iterable[TraceItem], progress: Callable[[int, int], None] | None = None) -> Played:
        """Play to the end and wait until all is delivered; the publisher is stopped then, and also when this raises.

        `progress(at_us, records)` after each group. Setting `stop` ends play early; what was taken is delivered.
        """
        played = Played()
        finished = False
        try:
            for item in items:
                self._wait_for(item.at_us)
                if self.stop.is_set():
                    break
                self._take(item)
                played.records += 1
                played.last_at_us = item.at_us
                if len(self._group) >= GROUP_RECORDS or self._group_age_s() >= GROUP_S:
                    self._flush()
                    if progress:
                        progress(item.at_us, played.records)
            self._flush()
            finished = True
        finally:
            self._publisher.stop(empty=finished)
        if progress:
            progress(played.last_at_us, played.records)
        played.last_offset = dict(self._publisher.last_offset)
        return played

    def _take(self, item: TraceItem) -> None:
        if not self._group:
            self._group_since_s = self._clock.monotonic_s()
        partition = BROADCAST if item.broadcast else BY_KEY
        self._group.append(WalRecord(item.topic, item.key, item.value, partition, item.at_us))

    def _group_age_s(self) -> float:
        return self._clock.monotonic_s() - self._group_since_s if self._group else 0.0

    def _wait_for(self, at_us: int) -> None:
        if self._first_us is None:
            self._first_us, self._began_s = at_us, self._clock.monotonic_s()
        if self._pace.speed is not None:
            self._wait_until(self._began_s + (at_us - self._first_us) / 1_000_000 / self._pace.speed)
        while self._pace.confirmed is not None and not self.stop.is_set():
            confirmed_us = max(self._pace.confirmed() or 0, self._first_us)
            if at_us <= confirmed_us + self._pace.max_lead_us:
                return
            # marks come of what was taken: it must be on its way
            self._flush()
            self._publisher.check()
            self._clock.sleep(_POLL_S)

    def _wait_until(self, due_s: float) -> None:
        while (left_s := due_s - self._clock.monotonic_s()) > 0 and not self.stop.is_set():
            if self._group and left_s > (group_left_s := GROUP_S - self._group_age_s()):
                self._clock.sleep(max(group_left_s, 0))
                self._flush()
            else:
                self._clock.sleep(min(left_s, 0.5))

    def _flush(self) -> None:
        """Make the group durable; a full log or disk makes play wait, nothing is skipped."""
        wait_s = _RETRY_FIRST_S
        while self._group:
            try:
                self._wal.append(self._group)
                self._group = []
                WAL_NOT_TAKING.set(0)
            except (WalFull, WalUnavailable) as error:
                WAL_NOT_TAKING.set(1)
                log.warning("wal_not_taking", error=str(error), retry_s=wait_s)
                self._publisher.check()
                self._clock.sleep(wait_s)
                wait_s = min(wait_s * 2, _RETRY_MOST_S)
