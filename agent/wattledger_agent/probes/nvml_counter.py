"""Which run of its energy counter a card is in. Owns epochs; says nothing of energy between two readings."""

from wattledger_agent.probes.reading import IMPLAUSIBLE, Reading, unknown

_SLACK_US = 1_000_000
"""Counters are renewed some 100 ms apart, so a reading may hold the increase of a little more than the time since
the one before."""


class CounterRun:
    """One card's counter over the life of the agent.

    A reading that falls, or that rises faster than the card can draw, is withheld once: the next one tells a bad
    read (the old line goes on, the epoch stays) from a reset (a new line rises from there, a new epoch begins). A
    value that only repeats itself proves no new line. Times are monotonic, in seconds.
    """

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._resets = 0
        self._anew = False
        self._good: tuple[int, float] | None = None
        self._odd: tuple[int, float] | None = None

    @property
    def epoch(self) -> str:
        """Boot, driver, and how often the counter began anew since the agent started."""
        return f"{self._machine}/{self._resets}"

    def run_under(self, machine: str) -> None:
        """The machine's boot and driver as they are now; another driver is another run."""
        if machine != self._machine:
            self._machine, self._good, self._odd, self._anew = machine, None, None, False

    def begin_anew(self) -> None:
        """The card was gone (lost, reset, driver unloaded): what it counts from now on is a new run."""
        self._anew = self._good is not None or self._anew

    def take(self, read: Reading, now_s: float, max_power_mw: int) -> Reading:
        """The counter's reading where it can be trusted. `epoch` may have changed after it."""
        if read.value is None:
            return read
        here = (read.value, now_s)
        if self._good is None or self._anew:
            self._resets += self._anew
            self._anew = False
        elif not _goes_on(self._good, here, max_power_mw):
            if self._odd is None or not _goes_on(self._odd, here, max_power_mw):
                self._odd = here
                return unknown(IMPLAUSIBLE)
            if read.value == self._odd[0]:
                return unknown(IMPLAUSIBLE)
            self._resets += 1
        self._good, self._odd = here, None
        return read


def _goes_on(before: tuple[int, float], here: tuple[int, float], max_power_mw: int) -> bool:
    """Whether a card that draws at most `max_power_mw` can have counted from `before` to `here` (µJ, s)."""
    gain_uj = here[0] - before[0]
    elapsed_us = round((here[1] - before[1]) * 1_000_000) + _SLACK_US
    return gain_uj >= 0 and gain_uj * 1000 <= max_power_mw * elapsed_us
