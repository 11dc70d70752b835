"""What samples say over time: chunks that overlap, two exporters, holes. A sample speaks for its step, no longer."""

from collections import Counter
from collections.abc import Hashable, Iterable
from decimal import Decimal
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from wattledger_audit.intake.prometheus_range import commonest

HOLE_STEPS = 3
"""Samples further apart than this many steps leave a hole; nearer ones, and the time between them, are one span."""
Key = TypeVar("Key", bound=Hashable)


class Span(NamedTuple):
    """A value held over `[start_us, end_us)`."""

    start_us: int
    end_us: int
    value: Decimal


class _Stretch(NamedTuple):
    """Neighbouring samples of one value in one document: the first, the last, the document's step."""

    first_us: int
    last_us: int
    step_us: int
    value: Decimal


class SpanStore(Generic[Key]):
    """Spans by what they are about. The same sample from another chunk, file part or exporter counts once.

    Samples are folded as they come, so a month of them takes the memory of its changes."""

    def __init__(self) -> None:
        self._stretches: dict[Key, list[_Stretch]] = {}

    def add(self, key: Key, samples: Iterable[tuple[int, Decimal]], step_us: int | None) -> None:
        """Rising samples of one series of one document; `step_us` None: the document did not tell its step."""
        into = self._stretches.setdefault(key, [])
        hole_us = HOLE_STEPS * (step_us or 0)
        current: _Stretch | None = None
        for at_us, value in samples:
            if current is not None and value == current.value and at_us - current.last_us <= hole_us:
                current = current._replace(last_us=at_us)
                continue
            if current is not None:
                into.append(current)
            current = _Stretch(at_us, at_us, step_us or 0, value)
        if current is not None:
            into.append(current)

    def about(self) -> list[Key]:
        """What there are samples of, in the order first seen."""
        return list(self._stretches)

    def spans(self, key: Key, fallback_step_us: int) -> list[Span]:
        """The spans of one key in order. `fallback_step_us` is the step of samples whose documents had none."""
        spans: list[Span] = []
        current: _Stretch | None = None
        for each in sorted(self._stretches.get(key, ())):
            each = each if each.step_us else each._replace(step_us=fallback_step_us)
            if current is None:
                current = each
            elif each.value == current.value and each.first_us - current.last_us <= HOLE_STEPS * current.step_us:
                current = current._replace(last_us=max(current.last_us, each.last_us))
            else:
                spans.append(
                    Span(current.first_us, min(current.last_us + current.step_us, each.first_us), current.value)
                )
                current = each
        if current is not None:
            spans.append(Span(current.first_us, current.last_us + current.step_us, current.value))
        return [span for span in spans if span.start_us < span.end_us]

    def single_step_us(self) -> int | None:
        """The commonest gap between stretches, for files of one sample a document; None: there is none."""
        gaps: Counter[int] = Counter()
        for stretches in self._stretches.values():
            stamps = sorted({each.first_us for each in stretches})
            gaps.update(later - earlier for earlier, later in pairwise(stamps))
        return commonest(gaps)

    def last_us(self) -> int:
        """The last sample's time; 0: there are none."""
        return max((each.last_us for found in self._stretches.values() for each in found), default=0)
