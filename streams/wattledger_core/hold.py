"""Who held a device when: allocations turned into holds, with the rules for late stops and failed nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

from wattledger_core.book import FAILED, Book, View
from wattledger_core.interval import Interval
from wattledger_core.revision import AllocationRevision


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold clipped to the interval asked for. `zombie`: the stop was requested and the device is not released yet,
    so the provider holds it. `cut`: the node failed under it."""

    start_us: int
    end_us: int
    revision: AllocationRevision
    zombie: bool = False
    cut: bool = False


def failed_intervals(book: Book, node: str, end_us: int, view: View) -> list[Interval]:
    """When the node was failed, over all time up to `end_us` (a failure ends a hold for good)."""
    return [(f.start_us, f.until_us) for f in book.facts(node, "state", 0, end_us, view) if f.state == FAILED]


def holds(
    book: Book, node: str, device: str, start_us: int, end_us: int, view: View, failures: Sequence[Interval]
) -> list[Hold]:
    """Holds of one device inside `[start_us, end_us)`, by allocation id then start. `failures`: `failed_intervals`."""
    return cut_holds(book.allocations(node, device, start_us, end_us, view), start_us, end_us, failures)


def cut_holds(
    revisions: Sequence[AllocationRevision], start_us: int, end_us: int, failures: Sequence[Interval]
) -> list[Hold]:
    """Allocations as holds inside an interval, in the order given.

    A node that fails ends what it held, whatever end is reported later; between a stop request and the release the
    hold is the provider's (ACCOUNTING.md).
    """
    found: list[Hold] = []
    for revision in revisions:
        stop_us = failure_cut_us(revision.start_us, revision.until_us, failures)
        cut = stop_us < revision.until_us
        paid_us = min(revision.paid_until_us, stop_us)
        for first_us, last_us, zombie in ((revision.start_us, paid_us, False), (paid_us, stop_us, True)):
            a, b = max(first_us, start_us), min(last_us, end_us)
            if a < b:
                found.append(Hold(a, b, revision, zombie, cut))
    return found


def failure_cut_us(start_us: int, until_us: int, failures: Sequence[Interval]) -> int:
    """When a hold ends on a node with these failures, in order: at the first that meets it, else at its own end."""
    for failed_us, back_us in failures:
        if back_us > start_us and failed_us < until_us:
            return max(failed_us, start_us)
    return until_us


def edges(found: list[Hold], start_us: int, end_us: int) -> list[int]:
    """Where holders change inside `[start_us, end_us)`, ascending, both ends included."""
    points = {start_us, end_us}
    for hold in found:
        points.add(hold.start_us)
        points.add(hold.end_us)
    return sorted(points)
