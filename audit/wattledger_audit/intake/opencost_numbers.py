"""Numbers of an OpenCost allocation: rounded to 5 decimals, null where they were NaN. What they say of GPUs."""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from wattledger_core.units import US_PER_HOUR

from wattledger_audit.intake.usage_claim import most_gpus

_ROUNDING = Fraction(5, 1_000_000)
_MOST_SLICES = 64


class GpusHeld(NamedTuple):
    """`gpus` None: not known. `share_num/share_den` is the part of each; `marks` say what was found odd."""

    gpus: int | None
    share_num: int
    share_den: int
    model: str
    marks: tuple[str, ...]


def number(value: object) -> Decimal | None:
    """A JSON number or a number in quotes; None for null, NaN, and what is none."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        return None
    try:
        found = Decimal(value)
    except ArithmeticError:
        return None
    return found if found.is_finite() else None


def gpus_held(fields: Mapping[str, object], length_us: int) -> GpusHeld:
    """From gpuCount (the average over the run), or gpuHours where that is missing; fields that are absent are 0."""
    card = fields.get("gpuAllocation")
    card = card if isinstance(card, dict) else {}
    model = str(card.get("gpuModel") or card.get("gpuDevice") or "")
    if "gpuCount" not in fields and "gpuHours" not in fields:
        return GpusHeld(0, 1, 1, model, ())
    counted, hours = number(fields.get("gpuCount")), number(fields.get("gpuHours"))
    marks: list[str] = []
    by_hours = None if hours is None else Fraction(hours) * US_PER_HOUR / length_us
    if counted is None and by_hours is None:
        return GpusHeld(None, 1, 1, model, ("gpus_unknown",))
    gpus = _unrounded(Fraction(counted), _ROUNDING) if counted is not None else None
    if gpus is None or (gpus == 0 and by_hours):
        assert by_hours is not None
        gpus = _unrounded(by_hours, _ROUNDING * US_PER_HOUR / length_us)
    elif by_hours is not None and abs(by_hours - gpus) > gpus / 100 + _ROUNDING * US_PER_HOUR / length_us:
        marks.append("gpu_hours_disagree")
    if gpus < 0:
        return GpusHeld(None, 1, 1, model, ("gpus_unknown", "negative_gpus"))
    if gpus > most_gpus(0):
        return GpusHeld(None, 1, 1, model, ("gpus_unknown", "too_many_gpus"))
    if gpus.denominator == 1:
        if card.get("isGPUShared") is True and gpus:
            marks.append("share_unknown")
        return GpusHeld(int(gpus), 1, 1, model, tuple(marks))
    if gpus < 1:
        return GpusHeld(1, gpus.numerator, gpus.denominator, model, tuple(marks))
    return GpusHeld(gpus.numerator, 1, gpus.denominator, model, tuple(marks))


def _unrounded(value: Fraction, slack: Fraction) -> Fraction:
    """The simple fraction that was rounded: 0.33333 is a third of a device. Others stay what is written."""
    simple = value.limit_denominator(_MOST_SLICES)
    return simple if abs(simple - value) <= slack else value
