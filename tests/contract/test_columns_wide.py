"""Packed columns over the full range of both widths, several at once, against plain Python."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattledger_schemas import BadRecord, partition_for
from wattledger_schemas.columns import column_bytes, pack_column, unpack_columns


def by_hand(cells: list[int | None], width: int) -> bytes:
    """The layout as the field docs say it, without NumPy."""
    letter = {4: "i", 8: "q"}[width]
    bitmap = bytearray((len(cells) + 7) // 8)
    for place, cell in enumerate(cells):
        if cell is not None:
            bitmap[place // 8] |= 1 << place % 8
    return struct.pack(f"<{len(cells)}{letter}", *(cell or 0 for cell in cells)) + bytes(bitmap)


@given(st.sampled_from([4, 8]), st.integers(1, 40), st.integers(1, 4), st.data())
def test_columns_are_laid_out_as_documented_and_come_back(width: int, n: int, count: int, data: st.DataObject) -> None:
    half = 1 << (8 * width - 1)
    cell = st.none() | st.integers(-half, half - 1)
    table = [data.draw(st.lists(cell, min_size=n, max_size=n)) for _ in range(count)]
    packed = []
    for row in table:
        values = np.array([c or 0 for c in row], dtype=np.int64)
        packed.append(pack_column(values, np.array([c is not None for c in row]), width))
        assert packed[-1] == by_hand(row, width)
        assert len(packed[-1]) == column_bytes(n, width)
    values, valid = unpack_columns(packed, n, width, "x")
    got = [[int(v) if ok else None for v, ok in zip(*pair, strict=True)] for pair in zip(values, valid, strict=True)]
    assert got == table


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_a_value_beyond_32_bits_is_refused_on_both_sides(value: int) -> None:
    with pytest.raises(OverflowError):
        pack_column(np.array([0, value]), np.array([True, True]), 4)


def test_two_wrong_lengths_that_sum_to_the_right_one_are_refused() -> None:
    size = column_bytes(8, 4)
    with pytest.raises(BadRecord, match=rf"column_length: power: \[{size - 1}, {size + 1}\] bytes"):
        unpack_columns([bytes(size - 1), bytes(size + 1)], 8, 4, "power")


@given(st.text(max_size=30), st.integers(1, 64))
def test_a_partition_is_in_range_and_the_same_each_time(key: str, partitions: int) -> None:
    found = partition_for(key, partitions)
    assert 0 <= found < partitions
    assert found == partition_for(key, partitions)
