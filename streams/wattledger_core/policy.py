"""The frozen rules the folds follow. A change of a rule is a new value with an effective date, never an edit."""

from dataclasses import dataclass

from wattledger_core.units import US_PER_S


@dataclass(frozen=True, slots=True)
class Policy:
    """`lateness_us` L: what is known before e + L prices and joins what ended at e. `future_limit_us`: a batch that
    ends further ahead of the newest mark is a dead letter. `gap_floor_us` and `gap_periods`: the longest pair that
    the trapezoid may bridge is max(gap_periods × period, gap_floor_us)."""

    lateness_us: int = 60 * US_PER_S
    future_limit_us: int = 300 * US_PER_S
    gap_periods: int = 3
    gap_floor_us: int = 5 * US_PER_S
    max_device_power_mw: int = 5_000_000
    """Above what any device draws: a reading, or a counter's rise, beyond it is not believed."""
    disagree_ppm: int = 100_000
    """Counter and integrated power that differ by more than this share are marked `disagree`."""
