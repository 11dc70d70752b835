"""What goes wrong with the demo's telemetry, and where: the outage, the reset, the sentinels, the untagged process."""

from typing import NamedTuple

from wattledger_audit.demo_fleet.day import at, second_of_day


class Stretch(NamedTuple):
    """A stretch of the day on one card, in whole seconds of the day, half-open."""

    node: str
    index: int
    start_s: int
    end_s: int


def _stretch(node: str, index: int, start: str, end: str) -> Stretch:
    return Stretch(node, index, second_of_day(at(start)), second_of_day(at(end)))


OUTAGE = _stretch("h100-01", -1, "09:10", "09:30")
"""The node's agent is down (all cards): the counters bridge it. On the grid of flushes."""
UNTAGGED = _stretch("h100-01", 7, "06:10", "06:40")
"""Somebody uses a card that nobody holds."""
UNTAGGED_PPM = 780_000
SENTINEL = _stretch("l40s-01", 3, "11:00", "11:05")
"""Readings fail or are nonsense, on the card that has no counter to bridge them."""
SENTINEL_MW = 2_000_000_000
INVALID_EVERY, SENTINEL_EVERY = 7, 61
"""In the stretch, seconds divisible by the first read nothing; of the others, those by the second the sentinel."""
RESET = _stretch("a100-01", 1, "11:07:12", "24:00")
"""From its start the counter runs in a new epoch, from near 0."""
RESET_START_UJ = 1_234_567
