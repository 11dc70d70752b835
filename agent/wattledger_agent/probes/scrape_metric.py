"""What a metric's value is worth: exporters' units to whole mW, µJ, ppm, bytes and °C, their blanks to reasons."""

import re
from decimal import ROUND_HALF_EVEN, Decimal
from typing import NamedTuple

from wattledger_agent.probes.reading import (
    IMPLAUSIBLE,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SENTINEL,
    Reading,
    unknown,
)

POWER, ENERGY, BUSY, MEMORY, TEMPERATURE, THROTTLE, ACTIVITY = (
    "power_mw", "energy_uj", "busy_ppm", "memory_used_bytes", "temperature_c", "throttle", "activity_ppm",
)  # fmt: skip
LIMIT, MAX_LIMIT, MEMORY_TOTAL, MIG_MODE, MIG_SLICES, MINOR, INDEX, XID, INFO, MIG_INFO = (
    "power_limit", "power_max_limit", "memory_total", "mig_mode", "mig_slices", "minor", "index", "xid", "info",
    "mig_info",
)  # fmt: skip
PROCESSES, PROCESS, PROCESS_MEMORY, COLLECTED, COLLECTED_AT, PROCESSES_COLLECTED = (
    "processes", "process", "process_memory", "collected", "collected_at", "processes_collected",
)  # fmt: skip


class Metric(NamedTuple):
    """Of two metrics of one quantity the lower `rank` counts. `of_part`: a series of a MIG instance has the instance's
    own value; otherwise the exporter repeats the parent's for each instance."""

    name: str
    quantity: str
    unit: str
    rank: int = 0
    of_part: bool = False


MAX_POWER_MW = 5_000_000
"""More than any device draws."""
MAX_TEMPERATURE_C = 200
_MAX_ENERGY_UJ = 5 * 10**18
_MAX_BYTES = 1 << 50
_SCALE = {
    "W": Decimal(1000), "J": Decimal(1_000_000), "mJ": Decimal(1000), "%": Decimal(10_000), "ratio": Decimal(1_000_000),
    "MiB": Decimal(1 << 20), "B": Decimal(1), "C": Decimal(1), "s": Decimal(1_000_000), "": Decimal(1),
}  # fmt: skip
_LIMIT = {
    "W": MAX_POWER_MW, "J": _MAX_ENERGY_UJ, "mJ": _MAX_ENERGY_UJ, "%": 1_000_000, "ratio": 1_000_000,
    "MiB": _MAX_BYTES, "B": _MAX_BYTES, "C": MAX_TEMPERATURE_C, "s": 1 << 53, "": (1 << 63) - 1,
}  # fmt: skip
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NO_NUMBER = re.compile(r"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_COLDEST_C = -40
_ROUNDING = Decimal("1.01")
"""Shares up to 1 % over the whole are rounding of two readings; 1.294 (DCGM#152) is no share."""
_WORDS = {"[not supported]": NOT_SUPPORTED, "[insufficient permissions]": NO_PERMISSION}
_EXPONENT = 40


def _blanks() -> frozenset[Decimal]:
    """What is written for "no value". DCGM keeps sixteen values for it in each of its types (`dcgm_structs.h`); Go and
    JSON write the 64-bit ones as the shortest text of a float. The rest are the vendor library's own all ones."""
    bases = (2**31 - 16, 2**47, 2**63 - 16)
    numbers = {base + step for base in bases for step in range(16)}
    numbers |= {2**63, 2**64 - 2, 2**64 - 1, 2**64, 2**32 - 2, 2**32 - 1, 100 * 2**47}
    written = ("9.223372036854776e18", "9.2233720368547758e18", "1.8446744073709552e19", "1.40737488355328e16")
    return frozenset(map(Decimal, numbers)) | frozenset(map(Decimal, written))


_BLANKS = _blanks()


def reading_of(unit: str, text: str) -> Reading:
    """A written value in mW (`W`), µJ (`J mJ`), ppm (`% ratio`), bytes (`MiB B`), °C (`C`), µs (`s`), rounded once half
    to even, or why it is none: a blank, a negative number, more than any device has."""
    if _NUMBER.fullmatch(text) is None:
        return unknown(SENTINEL if _NO_NUMBER.fullmatch(text) else _WORDS.get(text.strip().lower(), SENTINEL))
    value = Decimal(text)
    if value in _BLANKS:
        return unknown(SENTINEL)
    if value < (_COLDEST_C if unit == "C" else 0) or value.adjusted() > _EXPONENT:
        return unknown(IMPLAUSIBLE)
    if value.adjusted() < -_EXPONENT:
        return Reading(0)
    if unit == "ratio" and 1 < value <= _ROUNDING:
        return Reading(1_000_000)
    scaled = int((value * _SCALE[unit]).to_integral_value(ROUND_HALF_EVEN))
    return Reading(scaled) if scaled <= _LIMIT[unit] else unknown(IMPLAUSIBLE)


def time_us_of(text: str) -> int | None:
    """A sample's own time in µs: written in milliseconds (Prometheus' text) or in seconds (OpenMetrics)."""
    if not text or len(text) > _EXPONENT:
        return None
    value = Decimal(text)
    return int(value * (1000 if value >= 100_000_000_000 else 1_000_000)) if value > 0 else None
