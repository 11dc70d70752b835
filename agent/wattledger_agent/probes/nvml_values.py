"""NVML's return codes and raw numbers as readings: sentinels, and what can't be. Asks no library."""

import math
from typing import Any

from wattledger_agent.probes.reading import (
    GPU_LOST,
    HARDWARE_SLOWDOWN,
    IMPLAUSIBLE,
    NO_PERMISSION,
    NOT_READ,
    NOT_SUPPORTED,
    OTHER_THROTTLE,
    POWER_BRAKE,
    POWER_CAP,
    RESET_REQUIRED,
    SENTINEL,
    THERMAL,
    TIMED_OUT,
    UNKNOWN_ERROR,
    Reading,
    unknown,
)

NOT_SUPPORTED_CODE, NO_PERMISSION_CODE, NOT_FOUND_CODE = 3, 4, 6
DRIVER_NOT_LOADED_CODE, LIBRARY_NOT_FOUND_CODE, FUNCTION_NOT_FOUND_CODE = 9, 12, 13
MISMATCH_CODE, UNKNOWN_CODE = 18, 999
DRIVER_GONE = frozenset({1, DRIVER_NOT_LOADED_CODE, LIBRARY_NOT_FOUND_CODE, MISMATCH_CODE})
"""Codes after which no call can succeed until the library is initialised again."""

_REASONS = {
    NOT_SUPPORTED_CODE: NOT_SUPPORTED,
    FUNCTION_NOT_FOUND_CODE: NOT_SUPPORTED,
    25: NOT_SUPPORTED,  # ARGUMENT_VERSION_MISMATCH: a struct newer than the driver
    26: NOT_SUPPORTED,  # DEPRECATED
    NO_PERMISSION_CODE: NO_PERMISSION,
    17: NO_PERMISSION,  # OPERATING_SYSTEM: a control group or jail refuses
    NOT_FOUND_CODE: NOT_READ,
    21: NOT_READ,  # NO_DATA
    27: NOT_READ,  # NOT_READY
    10: TIMED_OUT,
    15: GPU_LOST,
    28: GPU_LOST,  # GPU_NOT_FOUND
    16: RESET_REQUIRED,
}
GONE = frozenset({GPU_LOST, RESET_REQUIRED})
"""Reasons that concern the whole card: nothing else that it says is worth keeping."""

U32_NONE = 0xFFFF_FFFF
_U64_NONE = 0xFFFF_FFFF_FFFF_FFFF
_BLANK_U32 = range(0x7FFF_FFF0, 0x8000_0000)
_BLANK_U64 = range(0x7FFF_FFFF_FFFF_FFF0, 0x8000_0000_0000_0000)
_BLANK_DOUBLE = 140_737_488_355_328
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
MOST_BYTES = 1 << 50
"""More memory than any card has."""
_COLDEST_C, _HOTTEST_C = -40, 200
_NOT_LOADING_MW, _BUSY_PPM = 1_000, 500_000
_GPM_TOLERANCE = 1.01

_UNION_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_U16_TYPE, _U16_NONE = 6, 0xFFFF

_THROTTLE_BITS = (
    (0x04, POWER_CAP),
    (0x08, HARDWARE_SLOWDOWN),
    (0x20 | 0x40, THERMAL),
    (0x80, POWER_BRAKE),
)
_NO_THROTTLE = 0x01
"""GpuIdle: the clocks are low because nothing asks for more."""
_NAMED_THROTTLE = 0xEC | _NO_THROTTLE


def reason_of(code: int) -> str:
    """The reason that stands for a return code other than success."""
    return _REASONS.get(code, UNKNOWN_ERROR)


def number(raw: int) -> Reading:
    """A raw unsigned number, or `sentinel` where it is one of the marks for "no value" (all ones, the DCGM blanks)."""
    blank = raw in (U32_NONE, _U64_NONE, _BLANK_DOUBLE) or raw in _BLANK_U32 or raw in _BLANK_U64
    return unknown(SENTINEL) if blank else Reading(raw)


def field_number(field: Any) -> Reading:
    """The number of one NVML field value. Its own return code counts: where that fails, the union holds a 0."""
    if field.nvmlReturn:
        return unknown(reason_of(field.nvmlReturn))
    kind = field.valueType
    if not 0 <= kind < len(_UNION_MEMBERS):
        return unknown(UNKNOWN_ERROR)
    raw = getattr(field.value, _UNION_MEMBERS[kind])
    if isinstance(raw, float):
        return number(round(raw)) if math.isfinite(raw) else unknown(SENTINEL)
    if kind == _U16_TYPE and raw == _U16_NONE:
        return unknown(SENTINEL)
    return number(raw)


def share_ppm(percent: int) -> Reading:
    """Percent to ppm; above 100 it is no share."""
    read = number(percent)
    if read.value is None:
        return read
    return Reading(read.value * 10_000) if 0 <= read.value <= 100 else unknown(IMPLAUSIBLE)


def gpm_share_ppm(percent: float) -> Reading:
    """A GPM percentage to ppm. Up to 1 % over the whole is rounding of two samples; more is no share (DCGM#152
    shows 129 %)."""
    if not math.isfinite(percent) or percent < 0 or percent > 100 * _GPM_TOLERANCE:
        return unknown(IMPLAUSIBLE)
    return Reading(min(round(percent * 10_000), 1_000_000))


def power_mw(read: Reading, max_limit_mw: int | None) -> Reading:
    """Power in mW. 0 (a card that answers draws something) and more than 1.5 times the highest limit can't be."""
    if read.value is None:
        return read
    too_high = max_limit_mw is not None and read.value * 2 > max_limit_mw * 3
    return unknown(IMPLAUSIBLE) if read.value <= 0 or too_high else read


def power_under_load(power: Reading, busy: Reading) -> Reading:
    """Below 1 W while busy more than half of the time: a broken sensor (MangoHud#1656 reads 80 mW)."""
    if power.value is None or busy.value is None:
        return power
    broken = power.value < _NOT_LOADING_MW and busy.value > _BUSY_PPM
    return unknown(IMPLAUSIBLE) if broken else power


def energy_uj(read: Reading) -> Reading:
    """The counter's mJ in µJ."""
    if read.value is None:
        return read
    possible = 0 <= read.value <= _INT64_MAX // 1000
    return Reading(read.value * 1000) if possible else unknown(IMPLAUSIBLE)


def energy_under_load(energy: Reading, busy: Reading) -> Reading:
    """A counter of 0 on a busy card counts nothing."""
    counts_nothing = energy.value == 0 and busy.value is not None and busy.value > 0
    return unknown(IMPLAUSIBLE) if counts_nothing else energy


def memory_bytes(used: int, total: int) -> Reading:
    """Memory in use; more than there is can't be."""
    read = number(used)
    if read.value is None:
        return read
    return read if 0 <= used <= min(total, MOST_BYTES) else unknown(IMPLAUSIBLE)


def temperature_c(raw: int) -> Reading:
    """Degrees Celsius as the card says them."""
    read = number(raw)
    if read.value is None:
        return read
    return read if _COLDEST_C <= raw <= _HOTTEST_C else unknown(IMPLAUSIBLE)


def throttle(reasons: int) -> Reading:
    """NVML's clock event reasons as the bits of `reading.POWER_CAP` and so on; an idle card is not held down."""
    read = number(reasons)
    if read.value is None:
        return read
    bits = sum(bit for mask, bit in _THROTTLE_BITS if reasons & mask)
    return Reading(bits | OTHER_THROTTLE if reasons & ~_NAMED_THROTTLE else bits)
