"""What AMD SMI's raw values and status codes mean: sentinels, shapes by version, reasons. No calls."""

import math
import re
from collections.abc import Mapping
from typing import Final

from wattledger_agent.probes.reading import (
    ABI_MISMATCH,
    GPU_LOST,
    NO_PERMISSION,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    TIMED_OUT,
    UNKNOWN_ERROR,
)

ALL_ONES_16: Final = 0xFFFF
_ALL_ONES: Final = (0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF)
_INTEGER = re.compile(r"^[+-]?\d+$")

NOT_FOUND: Final = 31
"""AMDSMI_STATUS_NOT_FOUND: the device is not there."""
NO_LIBRARY_CODES: Final = {4, 5, 18, 32, 34, 51}
"""Nothing can be read any more: module or symbol not loaded, not initialised, driver not loaded."""
DEVICE_CODES: Final = {6, 7, 12, 13, 14, 16, 20, NOT_FOUND, 52, 0xFFFF_FFFF}
"""What the calls of a device that fell off the bus end with: DRM, API, I/O and file errors, not found."""
_REASONS: Final = {
    2: NOT_SUPPORTED,
    3: NOT_SUPPORTED,
    8: TIMED_OUT,
    10: NO_PERMISSION,
    NOT_FOUND: GPU_LOST,
    42: ABI_MISMATCH,
    43: ABI_MISMATCH,  # seen with a library older than the GPU: ROCm 6.4 on an MI300X
    50: TIMED_OUT,
    54: RESET_REQUIRED,
}


def reason_of(code: int) -> str:
    """The reason that a status code stands for (amdsmi.h, amdsmi_status_t)."""
    return _REASONS.get(code, UNKNOWN_ERROR)


def number(raw: object, narrow: bool = True) -> int | None:
    """The integer behind a raw value; None where it is one of AMD's marks for "no value".

    Takes the shapes of all versions: a plain integer, a text (`N/A`), `{"value": 0, "unit": "%"}`. The wrapper maps
    only 0xFFFF to `N/A`, though its fields are 32 and 64 bits wide, so all ones of every width are marks here;
    `narrow` False: the field is wide and 65535 may be a real value.
    """
    if type(raw) is not int:
        raw = _as_integer(raw)
    if raw is None or raw in _ALL_ONES:
        return None
    return None if narrow and raw == ALL_ONES_16 else raw


def _as_integer(raw: object) -> int | None:
    if isinstance(raw, Mapping):
        raw = raw.get("value")
    if isinstance(raw, str):
        return int(raw) if _INTEGER.match(raw.strip()) else None
    if isinstance(raw, float):
        return int(raw) if math.isfinite(raw) else None
    return int(raw) if isinstance(raw, int) and not isinstance(raw, bool) else None


def text(raw: object) -> str:
    """A text of the library; empty where it says `N/A` or nothing."""
    said = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw or "")
    said = said.strip("\x00 \t\n")
    return "" if said.upper() in {"N/A", "NONE", "UNKNOWN"} else said
