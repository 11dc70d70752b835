"""Runs one probe in a thread of its own: timed, reopened after trouble, and never able to hold up another probe."""

import threading
from dataclasses import dataclass

import structlog

from wattledger_agent.clock import Clock
from wattledger_agent.metrics import (
    PROBE_ABSENT,
    PROBE_FAILURES,
    PROBE_LAST_SUCCESS,
    PROBE_SECONDS,
    PROBE_TIMEOUTS,
    PROBE_UP,
)
from wattledger_agent.probes.device import Inventory
from wattledger_agent.probes.probe import Probe, ProbeUnavailable
from wattledger_agent.probes.reading import TIMED_OUT, ProbeTick

log = structlog.get_logger()
UNAVAILABLE = "probe_unavailable"
"""Reason of a reading whose probe can't work at the moment."""
_RETRY_FIRST_S = 1.0
_RETRY_MOST_S = 60.0


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One tick of one probe. `tick` None: why is in `reason`. `inventory` is the newest that the probe gave, None
    before the first."""

    tick: ProbeTick | None
    inventory: Inventory | None
    reason: str = ""


class ProbeRunner:
    """`ask` at a tick, `take` the answer within a time limit. A call that hangs leaves its thread hanging; until it
    comes back every tick of this probe is TIMED_OUT, and what it brings back is of no tick: it was read for one that
    is over. A thread that ends by an error is replaced at the next `ask`."""

    def __init__(self, probe: Probe, clock: Clock) -> None:
        self.name = probe.name
        self.absent = False
        """The hardware or library is not here: no fault of the machine."""
        self.trouble = ""
        self.lost_since_s: float | None = None
        """Monotonic time since which a probe that once worked has not."""
        self._probe = probe
        self._clock = clock
        self._condition = threading.Condition()
        self._stopping = False
        self._asked = self._begun = 0
        """Number of the newest tick that was asked for, and of the one that is read or was read last."""
        self._result: ProbeResult | None = None
        self._inventory: Inventory | None = None
        self._is_open = False
        self._retry_s = 0.0
        self._retry_at_s = 0.0
        self._thread: threading.Thread | None = None

    def ask(self) -> None:
        """Have the probe read, once it is back from the tick before."""
        if self._thread is None or not self._thread.is_alive():
            self._begin_thread()
        with self._condition:
            self._asked += 1
            self._result = None
            self._condition.notify_all()

    def take(self, until_s: float) -> ProbeResult:
        """The answer, waited for until this monotonic time."""
        with self._condition:
            while self._result is None and self._is_alive():
                left_s = until_s - self._clock.monotonic_s()
                if left_s <= 0 or not self._condition.wait(left_s):
                    break
            result, self._result = self._result, None
        if result is None:
            PROBE_TIMEOUTS.labels(self.name).inc()
            return ProbeResult(None, self._inventory, TIMED_OUT if self._is_alive() else UNAVAILABLE)
        return result

    def stop(self, wait_s: float = 2.0) -> None:
        """End the thread; one that hangs is left behind."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(wait_s)

    def _is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _begin_thread(self) -> None:
        if self._thread is not None:
            PROBE_FAILURES.labels(self.name, "died").inc()
        self._thread = threading.Thread(target=self._run, name=f"probe-{self.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                with self._condition:
                    while self._begun == self._asked and not self._stopping:
                        self._condition.wait()
                    if self._stopping:
                        return
                    self._begun = self._asked
                result = self._read()
                with self._condition:
                    if self._begun == self._asked:
                        self._result = result
                        self._condition.notify_all()
        finally:
            # also on an error nobody foresaw: the next thread opens the library anew
            self._is_open = False
            PROBE_UP.labels(self.name).set(0)
            with self._condition:
                self._condition.notify_all()
            self._probe.close()

    def _read(self) -> ProbeResult:
        began_s = self._clock.monotonic_s()
        if not self._is_open and began_s < self._retry_at_s:
            return ProbeResult(None, self._inventory, UNAVAILABLE)
        try:
            if not self._is_open:
                self._open()
            tick = self._probe.read()
            if tick.inventory_changed:
                self._inventory = self._probe.inventory()
        except ProbeUnavailable as error:
            return self._fail(error)
        PROBE_SECONDS.labels(self.name).observe(self._clock.monotonic_s() - began_s)
        PROBE_LAST_SUCCESS.labels(self.name).set(self._clock.wall_us() // 1_000_000)
        return ProbeResult(tick, self._inventory)

    def _open(self) -> None:
        self._probe.open()
        self._is_open = True
        self._inventory = self._probe.inventory()
        self._retry_s = 0.0
        self.absent, self.trouble, self.lost_since_s = False, "", None
        PROBE_UP.labels(self.name).set(1)
        PROBE_ABSENT.labels(self.name).set(0)
        notes = self._inventory.notes
        log.info("probe_open", probe=self.name, devices=len(self._inventory.devices), library=self._inventory.library)
        for note in notes:
            log.warning("probe_note", probe=self.name, note=note)

    def _fail(self, error: ProbeUnavailable) -> ProbeResult:
        if str(error) != self.trouble:
            log.warning("probe_unavailable", probe=self.name, error=str(error), absent=error.absent)
        self.absent, self.trouble = error.absent, str(error)
        PROBE_ABSENT.labels(self.name).set(int(error.absent))
        PROBE_FAILURES.labels(self.name, "absent" if error.absent else "unavailable").inc()
        PROBE_UP.labels(self.name).set(0)
        self._probe.close()
        if self._is_open:
            self.lost_since_s = self._clock.monotonic_s()
        self._is_open = False
        self._retry_s = min(self._retry_s * 2 or _RETRY_FIRST_S, _RETRY_MOST_S)
        self._retry_at_s = self._clock.monotonic_s() + self._retry_s
        return ProbeResult(None, self._inventory, UNAVAILABLE)
