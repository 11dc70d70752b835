"""Crash-only: what escapes a processor ends the process with nothing acknowledged; a supervisor starts it again."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from wattledger_streams.clock import monotonic_s

log = structlog.get_logger()
EXIT_ESCAPED = 70
EXIT_STALLED = 71
_BEAT_S = 0.5


@asynccontextmanager
async def or_exit(processor: str) -> AsyncIterator[None]:
    """Whatever escapes the block, cancellation included, ends the process: Faust would acknowledge what the block
    left behind when it restarts or stops the actor (reference: faust-streaming issues 527 and 606)."""
    try:
        yield
    except asyncio.CancelledError:
        # A stop or a rebalance: what is in flight is not acknowledged and comes again.
        log.warning("processor_cancelled", processor=processor)
        os._exit(EXIT_ESCAPED)
    except BaseException:
        log.exception("processor_crashed", processor=processor)
        os._exit(EXIT_ESCAPED)


class Watchdog:
    """Ends the process when its loop has not beaten for `limit_s`: a stalled worker holds partitions that another
    could work on. A worker that waits for marks beats; one whose event loop hangs does not."""

    def __init__(self, limit_s: float, on_stall: Callable[[], None] | None = None) -> None:
        self._limit_s = limit_s
        self._last_s = monotonic_s()
        self._on_stall = on_stall or (lambda: os._exit(EXIT_STALLED))
        self._stop = threading.Event()

    def beat(self) -> None:
        self._last_s = monotonic_s()

    async def keep_beating(self) -> None:
        """In a task of its own: who waits for the broker, ClickHouse or marks lets the loop turn, and beats on."""
        while True:
            self.beat()
            await asyncio.sleep(_BEAT_S)

    def start(self) -> None:
        if self._limit_s > 0:
            threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _watch(self) -> None:
        while not self._stop.wait(min(1.0, self._limit_s / 4)):
            if monotonic_s() - self._last_s > self._limit_s:
                log.error("worker_stalled", limit_s=self._limit_s)
                self._on_stall()
                return
