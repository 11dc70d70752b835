"""Why an AMD GPU's clocks are held down: from residency counters of newer tables or the status word of older ones."""

from collections.abc import Mapping
from typing import Final

from wattledger_agent.probes.amd_metrics import Metrics
from wattledger_agent.probes.reading import (
    HARDWARE_SLOWDOWN,
    NOT_READ,
    NOT_SUPPORTED,
    OTHER_THROTTLE,
    POWER_CAP,
    STALE,
    THERMAL,
    Reading,
    unknown,
)

_RESIDENCIES: Final = {
    "ppt_residency_acc": POWER_CAP,
    "socket_thm_residency_acc": THERMAL,
    "vr_thm_residency_acc": THERMAL,
    "hbm_thm_residency_acc": THERMAL,
    "prochot_residency_acc": HARDWARE_SLOWDOWN,
}
_ACCUMULATION: Final = "accumulation_counter"
_BITS: Final = (
    (0, 16, POWER_CAP),
    (16, 32, OTHER_THROTTLE),  # current limits
    (32, 46, THERMAL),
    (46, 48, HARDWARE_SLOWDOWN),
    (48, 64, OTHER_THROTTLE),
)
"""Bit ranges of the status word that means the same on all ASICs (kernel, amdgpu_smu.h, SMU_THROTTLER_*_BIT)."""


class ThrottleTrack:
    """Table 1.6 and later (MI300) count how long each limit held: what grew since the last tick, held. The library's
    own `amdsmi_get_violation_status` sleeps 100 ms for the same and is not called."""

    def __init__(self) -> None:
        self._last: Mapping[str, int] = {}

    def take(self, metrics: Metrics) -> Reading:
        """Bits of `reading.py`; the first tick of a counting table has nothing to compare with."""
        now = {name: metrics.numbers[name] for name in (_ACCUMULATION, *_RESIDENCIES) if name in metrics.numbers}
        if _ACCUMULATION not in now or len(now) == 1:
            return _from_status(metrics)
        last, self._last = self._last, now
        if last.keys() != now.keys() or any(now[name] < last[name] for name in now):
            return unknown(NOT_READ)
        if now[_ACCUMULATION] == last[_ACCUMULATION]:
            return unknown(STALE)
        grown = [bit for name, bit in _RESIDENCIES.items() if name in now and now[name] > last[name]]
        return Reading(_together(grown))


def _from_status(metrics: Metrics) -> Reading:
    word = metrics.numbers.get("indep_throttle_status")
    if word is not None:
        return Reading(_together([bit for low, high, bit in _BITS if word & ((1 << high) - (1 << low))]))
    flags = [metrics.flags[name] for name in ("indep_throttle_status", "throttle_status") if name in metrics.flags]
    raw = metrics.numbers.get("throttle_status")
    if flags or raw is not None:
        # The wrapper's dictionary keeps only whether any bit is set; the older word means other things on each ASIC.
        return Reading(OTHER_THROTTLE if any(flags) or raw else 0)
    return unknown(NOT_SUPPORTED)


def _together(bits: list[int]) -> int:
    word = 0
    for bit in bits:
        word |= bit
    return word
