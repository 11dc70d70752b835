"""How busy each kind of job keeps its device, second by second; and the noise. Integers only, a function of time."""

import numpy as np
from wattledger_core.batch import Int64Array
from wattledger_core.units import PPM

STEADY_PPM = {"heavy": 620_000, "steady": 260_000, "light": 90_000}
_TRAIN_PPM, _CHECKPOINT_PPM = 930_000, 150_000
_CHECKPOINT_EVERY_S, _CHECKPOINT_S = 1_200, 45
_INFER_PPM, _INFER_SWING_PPM, _INFER_PERIOD_S = 550_000, 220_000, 10_800
_BURST_PPM, _BURST_EVERY_S, _BURST_S = 600_000, 2_700, 360


def use_ppm(load: str, second: Int64Array) -> Int64Array:
    """Busy share in ppm at whole seconds since the job began; 0 before. Raises KeyError for an unknown load."""
    if load == "train":
        checkpoint = second % _CHECKPOINT_EVERY_S >= _CHECKPOINT_EVERY_S - _CHECKPOINT_S
        used = np.where(checkpoint, _CHECKPOINT_PPM, _TRAIN_PPM)
    elif load == "infer":
        half = _INFER_PERIOD_S // 2
        rising = np.abs(second % _INFER_PERIOD_S - half)
        used = _INFER_PPM + _INFER_SWING_PPM * (2 * rising - half) // half
    elif load == "notebook":
        used = np.where(second % _BURST_EVERY_S < _BURST_S, _BURST_PPM, 0)
    else:
        used = np.full(second.shape, STEADY_PPM[load], dtype=np.int64)
    return np.where(second >= 0, used, 0).astype(np.int64)


def noise(key: int, second: Int64Array, below: int) -> Int64Array:
    """Integers in [0, below) that look random: the mix of SplitMix64 over (key, second), so any cut reads the same."""
    mixed = second.astype(np.uint64) + np.uint64(key * 1_000_003 + 1) * np.uint64(0x9E3779B97F4A7C15 % (1 << 40))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(31))) % np.uint64(below)).astype(np.int64)


def power_mw(idle_mw: int, peak_mw: int, used_ppm: Int64Array) -> Int64Array:
    """Power of a card at a busy share: from idle to peak, on a line."""
    return idle_mw + (peak_mw - idle_mw) * used_ppm // PPM
