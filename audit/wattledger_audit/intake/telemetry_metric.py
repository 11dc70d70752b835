"""Which metric of which exporter means what, and in which unit. Owns blanks, sentinels and the step to integers."""

import re
from decimal import ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from typing import NamedTuple

from wattledger_core.policy import Policy
from wattledger_core.units import PPM

POWER, COUNTER, BUSY = "power", "counter", "busy"
INFO, MIG_MODE, INDEX = "info", "mig_mode", "index"
CHANNELS = (POWER, COUNTER, BUSY)
DCGM, NVIDIA_SMI, AMD, AMD_SMI, OMNISTAT = (
    "dcgm-exporter", "nvidia_gpu_exporter", "AMD device-metrics-exporter", "AMD SMI exporter", "Omnistat",
)  # fmt: skip
EXPORTERS = (DCGM, NVIDIA_SMI, AMD, AMD_SMI, OMNISTAT)


class Metric(NamedTuple):
    """`channel` is a reading (power in mW, counter in µJ, busy in ppm) or what only describes a device. Of two
    metrics of one channel the lower `rank` counts. `zero_is_blank`: the exporter writes 0 where it can't read."""

    channel: str
    exporter: str
    rank: int
    unit: str
    zero_is_blank: bool = False


METRICS = {
    "DCGM_FI_DEV_POWER_USAGE": Metric(POWER, DCGM, 0, "W"),
    "DCGM_FI_DEV_POWER_USAGE_INSTANT": Metric(POWER, DCGM, 1, "W"),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": Metric(COUNTER, DCGM, 0, "mJ"),
    "DCGM_FI_DEV_GPU_UTIL": Metric(BUSY, DCGM, 0, "%"),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": Metric(BUSY, DCGM, 1, "ratio"),
    "DCGM_FI_DEV_MIG_MODE": Metric(MIG_MODE, DCGM, 0, ""),
    "nvidia_smi_power_draw_watts": Metric(POWER, NVIDIA_SMI, 0, "W"),
    "nvidia_smi_power_draw_average_watts": Metric(POWER, NVIDIA_SMI, 1, "W"),
    "nvidia_smi_power_draw_instant_watts": Metric(POWER, NVIDIA_SMI, 2, "W"),
    "nvidia_smi_energy_joules_total": Metric(COUNTER, NVIDIA_SMI, 0, "J"),
    "nvidia_smi_utilization_gpu_ratio": Metric(BUSY, NVIDIA_SMI, 0, "ratio"),
    "nvidia_smi_gpu_info": Metric(INFO, NVIDIA_SMI, 0, ""),
    "nvidia_smi_mig_mode_current": Metric(MIG_MODE, NVIDIA_SMI, 0, ""),
    "nvidia_smi_index": Metric(INDEX, NVIDIA_SMI, 0, ""),
    "gpu_package_power": Metric(POWER, AMD, 0, "W", True),
    "gpu_average_package_power": Metric(POWER, AMD, 1, "W", True),
    "gpu_power_usage": Metric(POWER, AMD, 2, "W", True),
    "gpu_energy_consumed": Metric(COUNTER, AMD, 0, "uJ", True),
    "gpu_gfx_activity": Metric(BUSY, AMD, 0, "%"),
    "amd_gpu_power": Metric(POWER, AMD_SMI, 0, "uW", True),
    "amd_gpu_use_percent": Metric(BUSY, AMD_SMI, 0, "%"),
    "rocm_average_socket_power_watts": Metric(POWER, OMNISTAT, 0, "W", True),
    "rocm_energy_joules": Metric(COUNTER, OMNISTAT, 0, "J", True),
    "rocm_utilization_percentage": Metric(BUSY, OMNISTAT, 0, "%"),
}
_BY_LOWER_NAME = {name.lower(): metric for name, metric in METRICS.items()}
KNOWN_NAME = re.compile(
    r"(?<![A-Za-z0-9_])(?:amd_)?(?:" + "|".join(sorted(METRICS, key=len, reverse=True)) + r")(?![A-Za-z0-9_])",
    re.IGNORECASE,
)
"""Finds a known metric's name in a text."""
FAMILY_NAME = re.compile(r"(?<![A-Za-z0-9_])(?:DCGM_FI_|nvidia_smi_|rocm_|(?:amd_)?gpu_(?=\w+\"?[^\n]*gpu_id))\w+")
"""Finds the name of any metric of the exporters: the first ones of a file may say nothing that is used."""

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NO_NUMBER = re.compile(r"[+-]?(?:nan|inf(?:inity)?)", re.IGNORECASE)
_SCALE = {
    "W": Decimal(1000), "mW": Decimal(1), "uW": Decimal("0.001"),
    "J": Decimal(1_000_000), "mJ": Decimal(1000), "uJ": Decimal(1),
    "%": Decimal(10_000), "ratio": Decimal(PPM),
}  # fmt: skip
_MAX_COUNTER_UJ = 5 * 10**18
"""More than a device at the highest believed power draws in thirty years; blanks of 64 bits lie above."""
_LIMIT = {
    "W": Policy().max_device_power_mw, "mW": Policy().max_device_power_mw, "uW": Policy().max_device_power_mw,
    "J": _MAX_COUNTER_UJ, "mJ": _MAX_COUNTER_UJ, "uJ": _MAX_COUNTER_UJ, "%": PPM, "ratio": PPM,
}  # fmt: skip
_BLANKS = frozenset(
    {Decimal(2**63 - 16 + k) for k in range(16)}
    | {Decimal(2**31 - 16 + k) for k in range(4)}
    | {Decimal(2**47), Decimal(2**47) * 100, Decimal(2**32 - 1), Decimal(2**32 - 2), Decimal(65_535)}
    | {Decimal(2**64 - 1), Decimal(2**64 - 2)}
)
"""What libraries and DCGM write for "no value" (0x7ffffff0 and up, 0x7ffffffffffffff0 and up, 2^47 as a float, all
ones); most lie above what is believed anyway."""


@lru_cache(maxsize=4096)
def metric_of(name: str) -> Metric | None:
    """What a metric is; None for one that says nothing about power, energy or use of a device."""
    lower = name.lower()
    found = _BY_LOWER_NAME.get(lower) or _BY_LOWER_NAME.get(lower.removesuffix("_total"))
    if found is None and lower.startswith("amd_"):  # the prefix of device-metrics-exporter is a setting
        found = _BY_LOWER_NAME.get(lower.removeprefix("amd_"))
    return found


def is_number(text: str) -> bool:
    """Whether a sample's value is written as Prometheus writes numbers, NaN and infinities included."""
    return _NUMBER.fullmatch(text) is not None or _NO_NUMBER.fullmatch(text) is not None


@lru_cache(maxsize=65_536)
def reading(unit: str, text: str, zero_is_blank: bool = False) -> int | None:
    """A value in mW (`W mW uW`), µJ (`J mJ uJ`) or ppm (`% ratio`), rounded once; None where it is no reading: NaN,
    negative, a blank, or more than any device has."""
    if _NUMBER.fullmatch(text) is None:
        return None
    value = Decimal(text)
    if value < 0 or value in _BLANKS or (value == 0 and zero_is_blank) or value.adjusted() > 30:
        return None
    scaled = int((value * _SCALE[unit]).to_integral_value(ROUND_HALF_EVEN)) if value.adjusted() > -30 else 0
    return scaled if scaled <= _LIMIT[unit] else None


def believed(channel: str, value: int | None) -> int | None:
    """A value in the channel's own unit, None where it is none or more than any device has."""
    unit = {POWER: "mW", COUNTER: "uJ", BUSY: "ratio"}[channel]
    return value if value is not None and 0 <= value <= _LIMIT[unit] else None
