"""Stamps: event time for ticks, from the wall clock but never against it going wrong. Pure policy: clocks passed in."""

from dataclasses import dataclass
from typing import Literal

SLEW_US = 500_000
"""A wall clock that is this near to where boot time says is being disciplined, not set."""
PATIENCE_US = 10_000_000
"""A step must last so long before it is believed; till then stamps go on by boot time."""
MOST_LEAD_US = 300_000_000
"""Batches further ahead than this are dead letters downstream, so what was stamped beyond it is in no ledger."""

Step = Literal["", "forward", "back"]


@dataclass(frozen=True, slots=True)
class Stamp:
    """`at_us`: the tick's event time; None: this tick must not be stamped (the clock was set back, and the time up to
    `silent_to_us` has already been said). `step`: a step of the clock was taken over with this tick, so the counter
    must not be differenced across it when it went back."""

    at_us: int | None
    step: Step = ""
    silent_to_us: int = 0


class StampKeeper:
    """Event time = boot time + an offset that follows the wall clock.

    Boot time (CLOCK_BOOTTIME) also runs while the machine sleeps, so a suspend is a plain gap and no step. Small
    differences are followed at once as long as stamps still rise. A larger one is a step: believed after it has lasted
    PATIENCE_US. After a step back the time that was already said is not said again: no stamps until wall time is past
    it, but never longer than MOST_LEAD_US.
    """

    def __init__(self, wall_us: int, boot_us: int, last_us: int = 0) -> None:
        self._offset_us = wall_us - boot_us
        self._last_us = last_us
        self._odd_since_us: int | None = None
        self._silent_to_us = 0
        if last_us > wall_us:
            self._silent_to_us = min(last_us, wall_us + MOST_LEAD_US)

    def stamp(self, wall_us: int, boot_us: int) -> Stamp:
        """The stamp of a tick taken now."""
        step = self._follow(wall_us, boot_us)
        at_us = boot_us + self._offset_us
        if at_us <= self._silent_to_us:
            return Stamp(None, step, self._silent_to_us)
        if at_us <= self._last_us < at_us + SLEW_US:
            at_us = self._last_us + 1
        self._last_us, self._silent_to_us = at_us, 0
        return Stamp(at_us, step)

    def _follow(self, wall_us: int, boot_us: int) -> Step:
        drift_us = wall_us - boot_us - self._offset_us
        if abs(drift_us) <= SLEW_US:
            self._odd_since_us = None
            self._offset_us += drift_us
            return ""
        if self._odd_since_us is None:
            self._odd_since_us = boot_us
        if boot_us - self._odd_since_us < PATIENCE_US:
            return ""
        self._odd_since_us = None
        self._offset_us += drift_us
        if drift_us > 0:
            return "forward"
        self._silent_to_us = min(self._last_us, boot_us + self._offset_us + MOST_LEAD_US)
        return "back"
