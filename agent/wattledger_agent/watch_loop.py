"""One watcher's loop: looks, lets the run book say what changed, and puts events, findings and the book's memory in the
log in one transaction. A source that does not answer ends nothing."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from wattledger_schemas import Codec

from wattledger_agent.clock import Clock
from wattledger_agent.metrics import (
    FINDINGS,
    JOB_EVENTS,
    WAITING_RUNS,
    WAL_NOT_TAKING,
    WATCHER_LAST_SUCCESS,
    WATCHER_UP,
)
from wattledger_agent.probes.device import Inventory
from wattledger_agent.run_book import RunBook
from wattledger_agent.stamps import BelievedClock
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import WalFull, WalRecord, WalUnavailable
from wattledger_agent.watchers.run import Finding
from wattledger_agent.watchers.watcher import Watcher, WatcherUnavailable

log = structlog.get_logger()
BOOK = "run_book"
_MEMORY_US = 10_000_000
"""How often the book's memory is kept when nothing happened: it also holds when each source was last looked at."""
_RETRY_FIRST_S = 1.0
_RETRY_MOST_S = 30.0


class WatchLog:
    """What all watchers share: the run book, its memory in the log, and what the log has not taken yet."""

    def __init__(self, wal: Wal, book: RunBook, node: str, codec: Codec) -> None:
        self.book = book
        self.lock = threading.RLock()
        self._wal = wal
        self._node = node
        self._codec = codec
        self._waiting: list[WalRecord] = []
        self._known = b""
        self._unsaid: tuple[object, ...] = ()
        self._kept_us = 0
        self._told_waiting: tuple[str, ...] = ()
        self._findings = 0

    @property
    def is_behind(self) -> bool:
        """Whether the log has yet to take something."""
        return bool(self._waiting) or self.book.unsaid() != self._unsaid

    def put(self, events: Sequence[dict[str, Any]], findings: Sequence[Finding], at_us: int) -> bool:
        """Append with the book's memory. What the log does not take waits, in order, for the next call: False."""
        with self.lock:
            self._waiting += [self._event(event) for event in events]
            self._waiting += [self._finding(finding, at_us) for finding in findings]
            unsaid = self.book.unsaid()
            if not self._waiting and unsaid == self._unsaid and 0 <= at_us - self._kept_us < _MEMORY_US:
                return True
            memory = self.book.dump()
            if not self._waiting and memory == self._known:
                return True
            try:
                self._wal.append(self._waiting, state={BOOK: memory})
            except (WalFull, WalUnavailable) as error:
                WAL_NOT_TAKING.set(1)
                log.warning("events_not_taken", error=str(error), waiting=len(self._waiting))
                return False
            self._waiting, self._known, self._unsaid, self._kept_us = [], memory, unsaid, at_us
            return True

    def tell_waiting(self) -> None:
        """Which runs wait for a device: a metric, and a line when there are others than before."""
        waiting = self.book.waiting()
        WAITING_RUNS.set(len(waiting))
        if new := [name for name in waiting if name not in self._told_waiting]:
            log.warning("runs_wait_for_devices", runs=new, hint="no device here has the name that they hold")
        self._told_waiting = waiting

    def _event(self, event: dict[str, Any]) -> WalRecord:
        JOB_EVENTS.labels(event["source"], event["kind"]).inc()
        key = f"{event['cluster']}/{event['job']}"
        return WalRecord("job-events", key, self._codec.encode("job_event", event), at_us=event["at_us"])

    def _finding(self, finding: Finding, at_us: int) -> WalRecord:
        """A dead letter: the agent's own count stands where a topic's offset would."""
        FINDINGS.labels(finding.source, finding.reason).inc()
        log.warning("finding", source=finding.source, reason=finding.reason, detail=finding.detail)
        self._findings += 1
        origin = f"agent/{self._node}/{finding.source}"
        record = {
            "source_topic": origin,
            "source_partition": -1,
            "source_offset": at_us + self._findings,
            "reason_code": finding.reason,
            "detail": finding.detail,
            "processor": "agent",
            "key": self._node.encode(),
            "raw": finding.raw[:4096],
        }
        return WalRecord("dead-letters", origin, self._codec.encode("dead_letter", record), at_us=at_us)


class WatchLoop:
    """Looks each period until stopped."""

    def __init__(self, watcher: Watcher, shared: WatchLog, inventory: Callable[[], Inventory], clock: Clock) -> None:
        self.name = watcher.name
        self._watcher = watcher
        self._shared = shared
        self._inventory = inventory
        self._clock = clock
        self._believed = BelievedClock(clock.wall_us(), clock.boot_us())
        self._retry_s = 0.0
        self._trouble = ""

    def _now_us(self) -> int:
        """As ticks are stamped: a clock that is off for a moment gives no run a wrong hour."""
        boot_us = self._clock.boot_us()
        self._believed.follow(self._clock.wall_us(), boot_us)
        return self._believed.at_us(boot_us)

    def step(self) -> float:
        """Look once; how long to wait beyond the usual period, s."""
        now_us = self._now_us()
        if self._shared.is_behind and not self._shared.put([], [], now_us):
            # a watcher may forget what it told the look before: that must be in the log first
            return _RETRY_FIRST_S
        try:
            sighting = self._watcher.look(now_us)
        except WatcherUnavailable as error:
            if str(error) != self._trouble:
                log.warning("watcher_unavailable", watcher=self.name, error=str(error))
            self._trouble = str(error)
            WATCHER_UP.labels(self.name).set(0)
            self._retry_s = min(self._retry_s * 2 or _RETRY_FIRST_S, _RETRY_MOST_S)
            return self._retry_s
        self._retry_s, self._trouble = 0.0, ""
        WATCHER_UP.labels(self.name).set(1)
        WATCHER_LAST_SUCCESS.labels(self.name).set(now_us // 1_000_000)
        with self._shared.lock:
            self._shared.book.follow_clock(self.name, now_us)
            observed = self._shared.book.observe(self.name, sighting, self._inventory(), now_us)
            self._shared.put(observed.events, observed.findings, now_us)
            self._shared.tell_waiting()
        return 0.0

    def run(self, stop: threading.Event, period_s: float, beat: Callable[[], None]) -> None:
        """Look until `stop`."""
        try:
            while not stop.is_set():
                wait_s = self.step()
                beat()
                stop.wait(period_s + wait_s)
        finally:
            self._watcher.close()
