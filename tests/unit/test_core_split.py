"""Splits by hand: the parts sum to the whole, in proportion, in the order given."""

from collections.abc import Sequence
from typing import Any

import pytest
from wattledger_core.hold import Hold
from wattledger_core.split import share_weights, split_exactly

from tests.builders import S, allocation


@pytest.mark.parametrize(
    ("whole", "weights", "total", "parts"),
    [
        (10, [], None, []),
        (10, [1], None, [10]),
        (10, [1, 1, 1], None, [3, 3, 4]),  # cumulative 3.33, 6.66, 10
        (100, [3, 2, 1, 1], None, [42, 29, 14, 15]),  # 300/7 = 42, 500/7 = 71, 600/7 = 85, 100
        (10, [0, 1, 0], None, [0, 10, 0]),
        (7, [0, 0], None, [3, 4]),  # nothing to go by: equal
        (100, [3, 2], 7, [42, 29]),  # the rest of a MIG device, 29, is for the caller
        (1, [1, 1, 1, 1], None, [0, 0, 0, 1]),
        (0, [5, 6], None, [0, 0]),
        (-10, [1, 1, 1], None, [-4, -3, -3]),  # floor, not truncation: still -10
        (10**18, [10**9, 1], None, [999_999_999_000_000_000, 1_000_000_000]),  # no float would
    ],
)
def test_parts_are_differences_of_one_floored_cumulative(
    whole: int, weights: Sequence[int], total: int | None, parts: list[int]
) -> None:
    assert split_exactly(whole, weights, total) == parts


def holding(job: str, num: int, den: int, instance: str = "") -> Hold:
    changes: dict[str, Any] = {"share_num": num, "share_den": den, "gpu_instance": instance}
    return Hold(0, S, allocation(job, 0, 1, offset=0, known_s=0, **changes))


@pytest.mark.parametrize(
    ("holders", "weights", "denominator", "contradicts"),
    [
        ([], [], 1, False),
        ([holding("a", 1, 1)], [1], 1, False),
        ([holding("a", 1, 4)], [1], 4, False),
        ([holding("a", 1, 4), holding("b", 1, 4)], [1, 1], 4, False),
        ([holding("a", 1, 2), holding("b", 1, 3)], [3, 2], 6, False),
        ([holding("a", 3, 7, "1"), holding("b", 2, 7, "2")], [3, 2], 7, False),
        # two exclusive holders of one device: a contradiction, half each
        ([holding("a", 1, 1), holding("b", 1, 1)], [1, 1], 2, True),
        ([holding("a", 1, 1), holding("b", 1, 4)], [4, 1], 5, True),
        # two jobs in one MIG instance of 2/7: 1/7 each; the other instance keeps its 3/7
        ([holding("a", 2, 7, "1"), holding("b", 2, 7, "1"), holding("c", 3, 7, "2")], [1, 1, 3], 7, True),
        ([holding("a", 3, 7, "1"), holding("b", 3, 7, "1")], [3, 3], 14, True),
    ],
)
def test_shares_are_integer_weights_of_the_whole_device(
    holders: list[Hold], weights: list[int], denominator: int, contradicts: bool
) -> None:
    assert share_weights(holders) == (weights, denominator, contradicts)
