"""Laws of a node's shared resources: all of it is somebody's at any moment, and by minutes one sees the same."""

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from wattledger_core.node_share import Claimed, Unclaimed, share_resources

MINUTES = 40
UNIT = 1_000_000
"""So large that rounding to whole units does not show."""
CPUS, MEMORY = 12 * UNIT, 5040 * UNIT
NODE_OWNER = 100
minutes = st.integers(0, MINUTES)


@st.composite
def spans(draw: st.DrawFn) -> tuple[int, int]:
    start, end = sorted((draw(minutes), draw(minutes)))
    return start, end


@st.composite
def claims(draw: st.DrawFn) -> list[Claimed]:
    return [
        Claimed(*draw(spans()), owner, (draw(st.integers(0, 9)) * UNIT, draw(st.integers(0, 4000)) * UNIT),
                (draw(st.booleans()), draw(st.booleans())))
        for owner in range(draw(st.integers(0, 6)))
    ]  # fmt: skip


@st.composite
def unclaimed(draw: st.DrawFn) -> list[Unclaimed]:
    """The node in service over one stretch or two that may touch, and up to three unheld devices."""
    first, last = draw(spans())
    middle = draw(st.integers(first, last))
    gap = draw(st.sampled_from([0, 0, 1]))
    found = [
        Unclaimed(first, middle, NODE_OWNER, 0, True),
        Unclaimed(min(middle + gap, last), last, NODE_OWNER + 1, 0, True),
    ]
    for number in range(draw(st.integers(0, 3))):
        found.append(Unclaimed(*draw(spans()), 200 + number % 2, draw(st.integers(0, 3)), False))
    return found


def by_minutes(
    place: int, installed: int, held: list[Claimed], loose: list[Unclaimed], edges: list[int]
) -> dict[tuple[int, int], Fraction]:
    """The same, minute by minute, by the words of the rule."""
    found: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for window, (from_, to) in enumerate(pairwise(edges)):
        for minute in range(from_, to):
            node = next((u for u in loose if u.node and u.start_us <= minute < u.end_us), None)
            if node is None:
                continue
            left = Fraction(installed)
            for said in (True, False):
                standing = [c for c in held if c.start_us <= minute < c.end_us and c.said[place] == said]
                wanted = sum(c.amounts[place] for c in standing)
                scale = min(Fraction(1), left / wanted) if wanted else Fraction(0)
                for claim in standing:
                    found[window, claim.owner] += claim.amounts[place] * scale
                left -= wanted * scale
            devices = [u for u in loose if not u.node and u.start_us <= minute < u.end_us and u.weight]
            whole = sum(u.weight for u in devices)
            for device in devices:
                found[window, device.owner] += left * device.weight / whole
            if not devices:
                found[window, node.owner] += left
    return found


@settings(max_examples=300, deadline=None)
@given(claims(), unclaimed(), st.lists(minutes, max_size=3))
def test_shares_are_those_of_every_minute_and_sum_to_what_is_installed(
    held: list[Claimed], loose: list[Unclaimed], cuts: list[int]
) -> None:
    edges = sorted({0, MINUTES, *cuts})
    for place, (installed, (sums, exceeded_by)) in enumerate(
        zip((CPUS, MEMORY), share_resources((CPUS, MEMORY), held, loose, edges), strict=True)
    ):
        expected = by_minutes(place, installed, held, loose, edges)
        for key in set(sums) | set(expected):
            # each stretch of shared time is rounded to whole units once
            assert abs(sums.get(key, 0) - expected.get(key, Fraction(0))) <= 2 * MINUTES, key
        for window, (from_, to) in enumerate(pairwise(edges)):
            service = sum(max(min(u.end_us, to) - max(u.start_us, from_), 0) for u in loose if u.node)
            assert sum(amount for (at, _), amount in sums.items() if at == window) == installed * service
        most = max(
            (sum(c.amounts[place] for c in held if c.said[place] and c.start_us <= minute < c.end_us)
             for minute in range(MINUTES)),
            default=0,
        )  # fmt: skip
        assert (exceeded_by is not None) == (most > installed)


def test_windows_before_and_after_the_edges_are_not_counted() -> None:
    held = [Claimed(0, 40, 1, (4 * UNIT, 0), (True, True))]
    loose = [Unclaimed(0, 40, NODE_OWNER, 0, True)]
    (cpu, _), _ = share_resources((CPUS, MEMORY), held, loose, [10, 20, 25])
    assert cpu == {(0, 1): 40 * UNIT, (0, NODE_OWNER): 80 * UNIT, (1, 1): 20 * UNIT, (1, NODE_OWNER): 40 * UNIT}
