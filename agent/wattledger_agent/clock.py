"""Time for the agent. The only file here that asks the system."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time stamps; monotonic time measures; boot time also counts while the machine sleeps."""

    def wall_us(self) -> int: ...

    def boot_us(self) -> int: ...

    def monotonic_s(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clocks."""

    def wall_us(self) -> int:
        return time.time_ns() // 1000

    def boot_us(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class ManualClock:
    """A clock that moves only when told, or when something sleeps on it. `step` moves the wall clock alone."""

    def __init__(self, wall_us: int = 0) -> None:
        self.now_us = wall_us
        self.stepped_us = 0

    def wall_us(self) -> int:
        return self.now_us + self.stepped_us

    def boot_us(self) -> int:
        return self.now_us

    def monotonic_s(self) -> float:
        return self.now_us / 1_000_000

    def sleep(self, seconds: float) -> None:
        self.now_us += round(seconds * 1_000_000)

    def step(self, by_us: int) -> None:
        """Set the wall clock forward or back, as an administrator or NTP does."""
        self.stepped_us += by_us
