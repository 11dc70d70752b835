"""Whether a reading of an energy counter can follow the ones before it: resets apart from single bad reads."""

from dataclasses import dataclass

from wattledger_agent.probes.reading import IMPLAUSIBLE, Reading, unknown

SLACK_US = 60_000_000
"""How much older than its scrape an exporter's reading may be (its own interval is 30 s where nobody changed it)."""


@dataclass(slots=True)
class CounterTrack:
    """One counter over time. Within one `run` the values let through never fall.

    A value below the last one, or above what the device can have used since, is not believed at once: if the next
    reading rises from there the counter was reset and a new run begins; if it goes on from the last believed value, it
    was a bad read. Either way the counter gives nothing for that reading. A value that only repeats itself proves
    nothing. `slack_us`: how much older than the moment of reading what was read may be.
    """

    slack_us: int = SLACK_US
    run: int = 0
    last_uj: int | None = None
    last_us: int = 0
    _suspect_uj: int | None = None
    _suspect_us: int = 0

    def take(self, value_uj: int, at_us: int, max_power_mw: int) -> Reading:
        """The value, or IMPLAUSIBLE. `at_us` is monotonic; `max_power_mw` is the most that the device can draw."""
        if self.last_uj is None or self._follows(self.last_uj, self.last_us, value_uj, at_us, max_power_mw):
            self._believe(value_uj, at_us)
            return Reading(value_uj)
        suspect_uj = self._suspect_uj
        if suspect_uj == value_uj:
            return unknown(IMPLAUSIBLE)
        if suspect_uj is not None and self._follows(suspect_uj, self._suspect_us, value_uj, at_us, max_power_mw):
            self.run += 1
            self._believe(value_uj, at_us)
            return Reading(value_uj)
        self._suspect_uj, self._suspect_us = value_uj, at_us
        return unknown(IMPLAUSIBLE)

    def _believe(self, value_uj: int, at_us: int) -> None:
        if value_uj != self.last_uj:
            # how long it stood still counts as time in which energy was used
            self.last_us = at_us
        self.last_uj, self._suspect_uj = value_uj, None

    def _follows(self, from_uj: int, from_us: int, to_uj: int, to_us: int, max_power_mw: int) -> bool:
        most_uj = max_power_mw * (to_us - from_us + self.slack_us) // 1000
        return from_uj <= to_uj <= from_uj + most_uj
