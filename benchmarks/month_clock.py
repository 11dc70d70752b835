"""How things are timed here: wall and CPU time of a call, the best of several, and facts of the machine."""

import os
import platform
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Timed:
    """Wall seconds, and CPU seconds of this process with all its threads."""

    seconds: float
    cpu_seconds: float

    def as_json(self) -> dict[str, float]:
        return {"seconds": round(self.seconds, 3), "cpu_seconds": round(self.cpu_seconds, 3)}


def timed(call: Callable[[], object]) -> Timed:
    """One call."""
    cpu_s, began_s = _cpu_s(), time.perf_counter()
    call()
    return Timed(time.perf_counter() - began_s, _cpu_s() - cpu_s)


def best(call: Callable[[], object], times: int = 3) -> Timed:
    """The fastest of several calls: others use the machine too."""
    return min((timed(call) for _ in range(times)), key=lambda one: one.seconds)


def peak_mb() -> int:
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def machine() -> dict[str, object]:
    """What it ran on, and how busy that was."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpus": os.cpu_count(),
        "cpu": model or platform.machine(),
        "memory_gib": round(pages / 2**30),
        "python": platform.python_version(),
        "chdb": version("chdb"),
        "clickhouse_connect": version("clickhouse-connect"),
        "load_1min": round(os.getloadavg()[0], 1),
    }


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
