"""Waiting for a condition in tests: never for a time alone, never for ever."""

import time
from collections.abc import Callable


def until(is_so: Callable[[], bool], what: str, within_s: float = 120, every_s: float = 0.05) -> None:
    """Wait for a condition; an AssertionError says what did not come."""
    end_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < end_s, f"not within {within_s:.0f} s: {what}"
        time.sleep(every_s)
