"""Is a power sensor alive? Evidence from a whole trace; one batch is too short to tell."""

from dataclasses import dataclass

import numpy as np

from wattledger_core.batch import BoolArray, Int64Array
from wattledger_core.units import US_PER_S

FROZEN_MIN_US = 60 * US_PER_S
FROZEN_MIN_READINGS = 100


@dataclass(frozen=True, slots=True)
class StillRun:
    """The longest stretch over which valid readings never changed."""

    value: int
    readings: int
    start_us: int
    end_us: int

    @property
    def frozen(self) -> bool:
        """A live sensor's last digit moves within a minute of a hundred readings; one that does not is frozen (a
        published trace holds 46.19 W over 12,792 rows while the card heats from 32 to 60 °C)."""
        return self.readings >= FROZEN_MIN_READINGS and self.end_us - self.start_us >= FROZEN_MIN_US


def longest_still_run(ticks_us: Int64Array, values: Int64Array, valid: BoolArray) -> StillRun:
    """Longest run of equal consecutive valid readings; (n,) arrays."""
    ticks, readings = ticks_us[valid], values[valid]
    if len(readings) == 0:
        return StillRun(0, 0, 0, 0)
    starts = np.concatenate(([0], np.flatnonzero(readings[1:] != readings[:-1]) + 1))
    ends = np.concatenate((starts[1:], [len(readings)])) - 1
    longest = int(np.argmax(ticks[ends] - ticks[starts]))
    first, last = int(starts[longest]), int(ends[longest])
    return StillRun(int(readings[first]), last - first + 1, int(ticks[first]), int(ticks[last]))
