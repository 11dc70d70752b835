"""What a usage row says of its length and its GPU-hours: an end where none stands, and how many GPUs it held."""

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from wattledger_core.units import US_PER_HOUR

from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.usage_claim import MOST_PARTS, UsageClaim, most_gpus
from wattledger_audit.intake.usage_words import could_be_span, is_bare_number, span_us

_ELAPSED_SLACK_US = 1_000_000
_STILL = frozenset({"RUNNING", "SUSPENDED", "PENDING"})
_SIMPLE_PARTS = 64
_PAIR = re.compile(r"\d+:\d\d")


class UnitNeeded(InputRefused):
    """A duration that says no unit, and nothing else in its row that would."""

    def __init__(self, name: str, line: int, title: str, text: str) -> None:
        super().__init__(
            f"{name}, line {line}: {title} {text!r} says no unit: call the column duration_s, duration_min or "
            "duration_h, or add a column with the end"
        )


def is_unclear(text: str) -> bool:
    """Whether a duration can be several: a number without a unit, or `10:30`."""
    return is_bare_number(text) or _PAIR.fullmatch(text) is not None


def end_of(
    text: str, start_us: int, end_us: int | None, rare: Mapping[str, int], unclear: str, marks: list[str], state: str
) -> int | None:
    """The end, from the duration where there is none, held against start, duration and suspension.

    `rare` has `duration` and `suspended` in µs; `unclear` is a duration whose unit nothing says. Raises RowRefused.
    """
    elapsed_us, suspended_us = rare.get("duration"), rare.get("suspended", 0)
    if end_us is None and elapsed_us is not None and state not in _STILL:
        marks.append("end_from_duration")
        return start_us + elapsed_us + suspended_us
    if end_us is None:
        return None
    if end_us < start_us:
        raise RowRefused("end", text, "end_before_start: it ends before it starts; correct the row")
    if suspended_us > end_us - start_us:
        raise RowRefused("suspended", text, "suspended_over_run: it was suspended longer than it ran; correct the row")
    lengths = (end_us - start_us, end_us - start_us - suspended_us)
    if elapsed_us is not None and all(abs(length - elapsed_us) > _ELAPSED_SLACK_US for length in lengths):
        marks.append("elapsed_disagrees")
    if unclear and not any(_could_be(unclear, length) for length in lengths):
        marks.append("elapsed_disagrees")
    return end_us


def needs_a_unit(unclear: str, end_us: int | None, state: str) -> bool:
    """Whether the end hangs on a duration whose unit nothing says."""
    return bool(unclear) and end_us is None and state not in _STILL


def _could_be(text: str, length_us: int) -> bool:
    if not _PAIR.fullmatch(text):
        return could_be_span(text, length_us, _ELAPSED_SLACK_US)
    return any(abs((span_us(each) or 0) - length_us) <= 60 * _ELAPSED_SLACK_US for each in (text, f"{text}:00"))


def with_gpu_hours(claim: UsageClaim, hours: Decimal, held_us: int | None) -> UsageClaim:
    """The claim with its GPUs from the row's GPU-hours where no count stands, or marked where the two disagree.

    `held_us` None: it still runs, so its hours say nothing yet. Raises RowRefused."""
    if held_us is None or held_us <= 0:
        return claim
    ratio = Fraction(US_PER_HOUR, held_us)
    slack = Fraction(1, 2 * 10 ** _places(hours)) * ratio
    devices = Fraction(hours) * ratio
    if claim.gpus is not None:
        said = Fraction(claim.gpus * claim.share_num, claim.share_den)
        if min(abs(devices - said), abs(devices - claim.gpus)) <= max(slack, said / 100):
            return claim
        return claim._replace(marks=(*claim.marks, "gpu_hours_disagree"))
    if devices > most_gpus(len(claim.nodes)):
        raise RowRefused("gpu_hours", str(hours), "too_many_gpus: no machine has so many; are these hours of GPUs?")
    marks = (*(mark for mark in claim.marks if mark != "gpus_unknown"), "gpus_from_gpu_hours")
    share = Fraction(claim.share_num, claim.share_den)
    count = _simple(devices / share, slack / share)
    if share != 1 and count.denominator > 1:
        return claim
    if count.denominator == 1:
        return claim._replace(gpus=int(count), marks=marks)
    gpus, part = (Fraction(1), count) if count < 1 else (Fraction(count.numerator), Fraction(1, count.denominator))
    return claim._replace(gpus=int(gpus), share_num=part.numerator, share_den=part.denominator, marks=marks)


def _places(number: Decimal) -> int:
    """How many decimals it is written with."""
    exponent = number.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _simple(value: Fraction, slack: Fraction) -> Fraction:
    """The simplest number of devices that can have been rounded to this one; one that is simple stays as written."""
    whole = Fraction(round(value))
    if abs(whole - value) <= slack and (whole or not value):
        return whole
    if value.denominator <= _SIMPLE_PARTS:
        return value
    near = (Fraction(round(value * parts), parts) for parts in range(2, _SIMPLE_PARTS + 1))
    return next((each for each in near if each and abs(each - value) <= slack), value.limit_denominator(MOST_PARTS))
