"""CPU and memory of processes while they work: a thread that looks, and what was used between two moments."""

import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType

from wattledger_audit.processes import total_pss_bytes

_LOOK_S = 0.1
_WEIGH_EVERY = 5
_PROCESS_CLOCK = 2
"""CPUCLOCK_SCHED of Linux' clock ids: the CPU clock of a process with all its threads, ended ones too."""


def cpu_s(pids: Iterable[int]) -> float:
    """User and system time of processes with all their threads, s. They must be alive and have no children."""
    return sum(time.clock_gettime(~pid << 3 | _PROCESS_CLOCK) for pid in pids)


@dataclass(frozen=True, slots=True)
class Used:
    """Between two moments: CPU by process and of the broker, s; the peak of the processes' proportional memory."""

    wall_s: float
    parts_cpu_s: dict[str, float]
    broker_cpu_s: float
    peak_pss_mb: float

    @property
    def cpu_s(self) -> float:
        return sum(self.parts_cpu_s.values())


class Watch:
    """Looks ten times a second at the CPU clocks, twice a second at memory. Use as a context manager."""

    def __init__(self, processes: Mapping[str, int], broker: Iterable[int]) -> None:
        self._processes = dict(processes)
        self._broker = list(broker)
        self._at_s: list[float] = []
        self._cpu: list[list[float]] = []
        self._pss: list[tuple[float, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Watch":
        self._look()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        looks = 0
        while not self._stop.wait(_LOOK_S):
            self._look()
            if looks % _WEIGH_EVERY == 0:
                self._pss.append((time.time(), total_pss_bytes(self._processes.values())))
            looks += 1

    def _look(self) -> None:
        try:
            now = [*(cpu_s([pid]) for pid in self._processes.values()), cpu_s(self._broker)]
        except OSError:
            return  # one of them has just ended: whoever waits for it will say so
        self._at_s.append(time.time())
        self._cpu.append(now)

    def pss_mb(self, at_s: float) -> float:
        """Memory at the look nearest to a moment."""
        return min(self._pss, key=lambda look: abs(look[0] - at_s))[1] / 1e6

    def used(self, from_s: float, to_s: float) -> Used:
        """What was used from the last look before `from_s` to the first after `to_s` (times of the wall clock)."""
        first = self._cpu[max(bisect_left(self._at_s, from_s) - 1, 0)]
        last = self._cpu[min(bisect_left(self._at_s, to_s), len(self._at_s) - 1)]
        *parts, broker = (after - before for before, after in zip(first, last, strict=True))
        peak = max((pss for at_s, pss in self._pss if at_s <= to_s + 1), default=0)
        return Used(to_s - from_s, dict(zip(self._processes, parts, strict=True)), broker, peak / 1e6)
