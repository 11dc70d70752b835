"""Bars of the page's charts, one inline SVG a table row, from the report's values. Lengths are ‰ of the width."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

from markupsafe import Markup

from wattledger_audit.report.cell_text import exact
from wattledger_audit.report.model import CapacityState, Step

WIDTH = 1000
_HEIGHT = 20
_EMPTY = Markup("")


class Bar(NamedTuple):
    """A bar from `low` to `high` (in the figures' own unit) of a kind: total, rise, fall or share."""

    low: Decimal
    high: Decimal
    kind: str


def bridge_bars(steps: Iterable[Step]) -> list[Bar | None]:
    """The waterfall of the leakage bridge: totals from zero, changes from where the step before ended.

    An unknown amount has no bar and moves nothing.
    """
    return _waterfall((step.kind == "total", exact(step.amount)) for step in steps)


def capacity_bars(states: Iterable[CapacityState]) -> list[Bar | None]:
    """The waterfall of capacity in GPU-hours; parts are subtracted."""
    return _waterfall((state.kind == "total", _signed(state)) for state in states)


def _signed(state: CapacityState) -> Decimal | None:
    hours = exact(state.gpu_hours)
    return hours if hours is None or state.kind == "total" else -hours


def _waterfall(amounts: Iterable[tuple[bool, Decimal | None]]) -> list[Bar | None]:
    bars: list[Bar | None] = []
    level = Decimal(0)
    for is_total, amount in amounts:
        if amount is None:
            bars.append(None)
            continue
        before, level = (Decimal(0), amount) if is_total else (level, level + amount)
        kind = "total" if is_total else "rise" if amount > 0 else "fall"
        bars.append(Bar(min(before, level), max(before, level), kind))
    return bars


def drawn(bars: Sequence[Bar | None]) -> list[Markup]:
    """One SVG a bar, all on one scale that holds zero; empty where there is no bar. The table says the figures."""
    known = [bar for bar in bars if bar is not None]
    low = min((bar.low for bar in known), default=Decimal(0))
    high = max((bar.high for bar in known), default=Decimal(0))
    low, span = min(low, Decimal(0)), max(high, Decimal(0)) - min(low, Decimal(0))
    if not span:
        return [_EMPTY] * len(bars)
    zero = _place(Decimal(0), low, span)
    return [_EMPTY if bar is None else _svg([_rectangle(bar, low, span)], zero) for bar in bars]


def share_bar(parts: Iterable[tuple[str | None, str]]) -> Markup:
    """Parts of a whole (ratio as text, kind) side by side on a scale from 0 to 1; unknown parts leave a space."""
    drawn_parts: list[Markup] = []
    start = Decimal(0)
    for text, kind in parts:
        ratio = exact(text) or Decimal(0)
        end = min(max(start + ratio, Decimal(0)), Decimal(1))
        if end > start:
            drawn_parts.append(_rectangle(Bar(start, end, kind), Decimal(0), Decimal(1)))
        start = end
    return _svg(drawn_parts, 0, ruled=True)


def _place(value: Decimal, low: Decimal, span: Decimal) -> int:
    return int((value - low) * WIDTH / span)


def _rectangle(bar: Bar, low: Decimal, span: Decimal) -> Markup:
    if bar.low == bar.high:
        return _EMPTY
    left, right = _place(bar.low, low, span), _place(bar.high, low, span)
    return Markup('<rect class="bar-{}" x="{}" y="3" width="{}" height="14"/>').format(
        bar.kind, left, max(right - left, 3)
    )


def _svg(rectangles: Iterable[Markup], zero: int, ruled: bool = False) -> Markup:
    frame = Markup('<rect class="bar-frame" x="0" y="3" width="{}" height="14"/>').format(WIDTH) if ruled else _EMPTY
    axis = Markup('<line class="bar-zero" x1="{0}" x2="{0}" y1="0" y2="{1}"/>').format(zero, _HEIGHT)
    return Markup(
        '<svg class="bar" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">{}{}{}</svg>'
    ).format(WIDTH, _HEIGHT, frame, Markup("").join(rectangles), axis)
