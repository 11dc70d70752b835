"""The one file of the workers that asks the system what time it is; everything else takes time from records."""

import time


def monotonic_s() -> float:
    """Seconds of a clock that never steps: for timeouts and the watchdog only."""
    return time.monotonic()
