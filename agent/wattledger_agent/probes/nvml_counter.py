"""Which run of its energy counter a card is in. Owns epochs; says nothing of energy between two readings."""

from wattledger_agent.probes.counter_track import CounterTrack
from wattledger_agent.probes.reading import Reading

_SLACK_US = 1_000_000
"""Counters are renewed some 100 ms apart, so a reading may hold the increase of a little more than the time since
the one before."""


class CounterRun:
    """One card's counter over the life of the agent.

    What can follow what is `CounterTrack`'s rule; each of its runs is an epoch here. Times are monotonic, in seconds.
    """

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._resets = 0
        self._anew = False
        self._track = CounterTrack(_SLACK_US)

    @property
    def epoch(self) -> str:
        """Boot, driver, and how often the counter began anew since the agent started."""
        return f"{self._machine}/{self._resets}"

    def run_under(self, machine: str) -> None:
        """The machine's boot and driver as they are now; another driver is another run."""
        if machine != self._machine:
            self._machine, self._track, self._anew = machine, CounterTrack(_SLACK_US), False

    def begin_anew(self) -> None:
        """The card was gone (lost, reset, driver unloaded): what it counts from now on is a new run."""
        self._anew = self._track.last_uj is not None or self._anew

    def take(self, read: Reading, now_s: float, max_power_mw: int) -> Reading:
        """The counter's reading where it can be trusted. `epoch` may have changed after it."""
        if read.value is None:
            return read
        if self._anew:
            self._resets, self._anew, self._track = self._resets + 1, False, CounterTrack(_SLACK_US)
        run = self._track.run
        found = self._track.take(read.value, round(now_s * 1_000_000), max_power_mw)
        self._resets += self._track.run - run
        return found
