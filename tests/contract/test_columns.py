"""Packed columns: what goes in comes out, in NumPy and in ClickHouse."""

import numpy as np
import pytest
from clickhouse_connect.driver.client import Client
from hypothesis import given
from hypothesis import strategies as st
from wattledger_schemas import BadRecord, job_key, partition_for, tenant_cost_key
from wattledger_schemas.columns import pack_column, unpack_column, unpack_columns, unpack_sql


@given(
    st.sampled_from([4, 8]),
    st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.booleans()), min_size=1, max_size=70),
)
def test_a_column_comes_back(width: int, cells: list[tuple[int, bool]]) -> None:
    values = np.array([value for value, _ in cells], dtype=np.int64)
    valid = np.array([ok for _, ok in cells])
    got, got_valid = unpack_column(pack_column(values, valid, width), len(cells), width)
    assert got_valid.tolist() == valid.tolist()
    assert got[valid].tolist() == values[valid].tolist()


@pytest.mark.parametrize("length", [0, 1, 123, 125, 127])
def test_a_column_of_the_wrong_length_is_refused(length: int) -> None:
    # 31 ticks of 4 bytes and a bitmap of 4 are 128 bytes
    with pytest.raises(BadRecord, match="column_length"):
        unpack_columns([bytes(128), bytes(length)], 31, 4, "power_mw")


def test_a_value_that_does_not_fit_is_refused_unless_it_is_invalid() -> None:
    values = np.array([2**31], dtype=np.int64)
    with pytest.raises(OverflowError):
        pack_column(values, np.array([True]), 4)
    assert unpack_column(pack_column(values, np.array([False]), 4), 1, 4)[1].tolist() == [False]


@pytest.mark.chdb
@pytest.mark.parametrize(("width", "large"), [(4, 3_000_000), (8, 1 << 40)])
def test_clickhouse_unpacks_the_same(empty_chdb_client: Client, width: int, large: int) -> None:
    values = np.array([1, -2, large, 4, 5, 6, 7, 8, 9], dtype=np.int64)
    valid = np.array([True, True, True, False, True, True, True, False, True])
    column = pack_column(values, valid, width)
    rows = empty_chdb_client.query(unpack_sql(), parameters={"column_hex": column.hex(), "ticks": 9}).result_rows
    expected = [int(value) if ok else None for value, ok in zip(values, valid, strict=True)]
    assert [value for _, value in rows] == expected


@pytest.mark.parametrize(("key", "partition"), [("h100-01", 1), ("a100-01", 2), ("c1/42", 2), ("", 0), ("å", 1)])
def test_partitions_never_change(key: str, partition: int) -> None:
    assert partition_for(key, 4) == partition


def test_keys() -> None:
    assert job_key("c1", "42") == "c1/42"
    assert tenant_cost_key("acme", "n1") == "acme"
    assert tenant_cost_key("__idle__", "n1") == "__idle__/n1"
