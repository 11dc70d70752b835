"""Stamps: event time for ticks, from the wall clock but never against it going wrong. Pure policy: clocks passed in."""

from dataclasses import dataclass
from typing import Literal

from wattledger_agent.said_time import SaidTime

SLEW_US = 500_000
"""A wall clock that is this near to where boot time says is being disciplined, not set."""
PATIENCE_US = 10_000_000
"""A step must last so long before it is believed; till then time goes on by boot time."""
MOST_BRIDGED_US = 7 * 86_400_000_000
"""Longer outages begin anew: samples are kept for seven days, and nobody bills a week by one counter difference."""

MOST_STEP_US = 300_000_000
"""A longer step forward is not bridged: boot time knows that this time did not pass, and to claim it as said would keep
the agent silent through it when the clock is set right again. Batches that lead by more are dead letters downstream."""

Step = Literal["", "forward", "back"]


class BelievedClock:
    """Time = boot time + an offset that follows the wall clock as far as that can be believed.

    Boot time (CLOCK_BOOTTIME) also runs while the machine sleeps, so a suspend is no step. Small differences are
    followed at once, but backwards no faster than half of the time that passes: this clock is never set back by them.
    A larger one is a step: believed after it has lasted PATIENCE_US.
    """

    def __init__(self, wall_us: int, boot_us: int) -> None:
        self._offset_us = wall_us - boot_us
        self._boot_us = boot_us
        self._odd: tuple[int, int] | None = None
        """Since when the wall clock is off, and by how much."""

    def at_us(self, boot_us: int) -> int:
        """The time now, µs since the epoch."""
        return boot_us + self._offset_us

    def follow(self, wall_us: int, boot_us: int) -> Step:
        """Look at the wall clock; which step was taken over with this look, if any."""
        elapsed_us, self._boot_us = boot_us - self._boot_us, boot_us
        drift_us = wall_us - boot_us - self._offset_us
        if abs(drift_us) <= SLEW_US:
            self._odd = None
            self._offset_us += max(drift_us, -(elapsed_us // 2))
            return ""
        if self._odd is None or abs(drift_us - self._odd[1]) > SLEW_US:
            self._odd = boot_us, drift_us
        if boot_us - self._odd[0] < PATIENCE_US:
            return ""
        self._odd = None
        self._offset_us += drift_us
        return "forward" if drift_us > 0 else "back"


@dataclass(frozen=True, slots=True)
class Break:
    """Ticks before and after it are in no common batch: the counter is not differenced across it, and what was drawn
    is not known. `[from_us, to_us]` is what a gap record says of it."""

    reason: str
    from_us: int
    to_us: int


@dataclass(frozen=True, slots=True)
class Stamp:
    """`at_us`: the tick's event time; None: this tick must not be stamped, for time up to `silent_to_us` was said
    already. `now_us`: the time in either case. `step`: a step of the clock was taken over with this tick. `broken`: the
    tick does not follow on from the one before."""

    at_us: int | None
    now_us: int
    step: Step = ""
    silent_to_us: int = 0
    broken: Break | None = None


class StampKeeper:
    """Believed time, except what was said already: no stamps until it is past that.

    Whether a clock that was set back was wrong before or is wrong now nobody here can know; said twice, time would be
    billed twice. `last_us` is the tick that the next one follows on from, None: there is none.
    """

    def __init__(self, wall_us: int, boot_us: int, said: SaidTime, last_us: int | None = None) -> None:
        self._clock = BelievedClock(wall_us, boot_us)
        self._said = said
        self._last_us = last_us

    def stamp(self, wall_us: int, boot_us: int) -> Stamp:
        """The stamp of a tick taken now."""
        step = self._clock.follow(wall_us, boot_us)
        at_us = self._clock.at_us(boot_us)
        held_us = self._said.held_until(at_us)
        if held_us is not None:
            is_broken = held_us - at_us > SLEW_US
            return Stamp(None, at_us, step, held_us, self._break("clock_set_back", held_us) if is_broken else None)
        if self._last_us is None:
            return Stamp(at_us, at_us, step)
        if at_us < self._last_us or self._said.is_between(self._last_us, at_us):
            return Stamp(at_us, at_us, step, 0, self._break("clock_set_back", at_us))
        if step == "forward" and at_us - self._last_us > MOST_STEP_US:
            return Stamp(at_us, at_us, step, 0, self._break("clock_set_forward", at_us))
        if at_us - self._last_us > MOST_BRIDGED_US:
            return Stamp(at_us, at_us, step, 0, self._break("outage", at_us))
        return Stamp(at_us, at_us, step)

    def _break(self, reason: str, to_us: int) -> Break | None:
        last_us, self._last_us = self._last_us, None
        return None if last_us is None else Break(reason, last_us, max(last_us, to_us))

    def use(self, at_us: int) -> None:
        """There is a tick with this stamp: its time is said."""
        self._said.add(at_us if self._last_us is None else self._last_us, at_us)
        self._last_us = at_us
