"""Half-open intervals `[start, end)` in microseconds since the epoch, UTC. There is no second convention."""

from collections.abc import Iterable

FOREVER_US = 1 << 62
"""End of what has not ended; larger than any stamp the product accepts."""

Interval = tuple[int, int]


def overlap(a_start_us: int, a_end_us: int, b_start_us: int, b_end_us: int) -> Interval | None:
    """The common part, or None when it is empty."""
    start = max(a_start_us, b_start_us)
    end = min(a_end_us, b_end_us)
    return (start, end) if start < end else None


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Sorted union; touching intervals become one, empty ones vanish."""
    merged: list[Interval] = []
    for start, end in sorted(i for i in intervals if i[0] < i[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length_us(intervals: Iterable[Interval]) -> int:
    """Summed length of intervals that do not overlap."""
    return sum(end - start for start, end in intervals)


def clip(intervals: Iterable[Interval], start_us: int, end_us: int) -> list[Interval]:
    """The parts inside `[start_us, end_us)`, in the order given."""
    parts = (overlap(a, b, start_us, end_us) for a, b in intervals)
    return [part for part in parts if part is not None]
