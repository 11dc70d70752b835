"""Activity columns integrated over an interval: the weights of a split. Each reading speaks for the time before it."""

from bisect import bisect_left, bisect_right

from wattledger_core.batch import Batch, BoolArray, Int64Array


def integral(batch: Batch, column: Int64Array, valid: BoolArray, a_us: int, b_us: int) -> int:
    """∫ column dt over `[a_us, b_us)` in ppm·µs; time with no valid reading adds nothing."""
    ticks = batch.ticks_us
    first = bisect_right(ticks, a_us) - 1
    last = bisect_left(ticks, b_us)
    total = 0
    for pair in range(first, last):
        if valid[pair + 1]:
            span_us = min(int(ticks[pair + 1]), b_us) - max(int(ticks[pair]), a_us)
            total += span_us * int(column[pair + 1])
    return total


def integral_if_known(batch: Batch, column: Int64Array, valid: BoolArray, a_us: int, b_us: int) -> int | None:
    """The integral, or None when no reading of the interval is valid."""
    first = bisect_right(batch.ticks_us, a_us) - 1
    last = bisect_left(batch.ticks_us, b_us)
    if not bool(valid[first + 1 : last + 1].any()):
        return None
    return integral(batch, column, valid, a_us, b_us)
