"""What the insert functions store: exact values, a row once however often it comes, nothing that does not fit."""

from decimal import Decimal
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client
from wattledger_core.cost import CostRow
from wattledger_core.line import DeviceTotal, Discrepancy, Line
from wattledger_core.price import Price
from wattledger_core.revision import Origin
from wattledger_sql import fact
from wattledger_sql.block import RowRefused, insert_rows
from wattledger_sql.fact import DeadLetter, Gap, Source, ThresholdRow
from wattledger_sql.insert import (
    insert_allocation_revisions,
    insert_cost_rows,
    insert_dead_letters,
    insert_discrepancies,
    insert_gaps,
    insert_marks,
    insert_node_revisions,
    insert_prices,
    insert_threshold_events,
    insert_usage_lines,
)

from tests.builders import allocation, installed, mark
from tests.builders import fact as node_fact
from tests.unit.sql_rows import QUARTER, T0, cost_row, energy_line, time_line


def rows(client: Client, sql: str) -> list[Any]:
    return [tuple(row) for row in client.query(sql).result_rows]


RENAMED = {"tenant": "tenant_id", "user": "user_name", "partition": "batch_partition", "offset": "batch_offset"}
QUANTITIES = ("span_us", "device_us", "busy_us", "in_service_us", "measured_us", "unknown_us")


@pytest.mark.parametrize(
    ("table", "fields"),
    [
        (fact.USAGE_LINES, Line._fields),
        (fact.DEVICE_TOTALS, DeviceTotal._fields),
        (fact.DISCREPANCIES, Discrepancy._fields),
        (fact.COST_ROWS, CostRow._fields),
    ],
)
def test_columns_follow_the_fields_of_the_core_value(table: fact.Fact, fields: tuple[str, ...]) -> None:
    def column(field: str) -> str:
        stamp = field.endswith("_us") and field not in QUANTITIES
        return field.removesuffix("_us") + "_at" if stamp else RENAMED.get(field, field)

    assert tuple(column(field) for field in fields) == table.columns


@pytest.mark.chdb
@pytest.mark.parametrize("table", fact.FACTS, ids=lambda table: table.table)
def test_tables_have_the_columns_of_their_fact_in_order(chdb_client: Client, table: fact.Fact) -> None:
    where = f"database = currentDatabase() AND table = '{table.table}'"
    found = [name for (name,) in rows(chdb_client, f"SELECT name FROM system.columns WHERE {where} ORDER BY position")]
    assert tuple(name for name in found if name not in ("content_hash", "inserted_at")) == (
        *table.columns, "source_partition", "source_offset",
    )  # fmt: skip


@pytest.mark.chdb
def test_microseconds_and_twelve_decimals_come_back_exactly(chdb_client: Client) -> None:
    line = time_line(start_us=T0 + 1, end_us=T0 + 899_999_999)
    row = cost_row(line, "compute", "2.5")._replace(cost=Decimal("-12345678901234567890.000000000001"))
    insert_cost_rows(chdb_client, [row], [Source(3, 41)])
    assert rows(
        chdb_client,
        "SELECT toUnixTimestamp64Micro(start_at), toUnixTimestamp64Micro(end_at), toString(cost), toString(rate), pue,"
        " source_partition, source_offset FROM v_cost_rows",
    ) == [(T0 + 1, T0 + 899_999_999, "-12345678901234567890.000000000001", "2.5", None, 3, 41)]


@pytest.mark.chdb
@pytest.mark.parametrize("amount", ["0.0000000000001", "123456789012345678901234567", "NaN", "a lot"])
def test_an_amount_that_does_not_fit_is_refused_by_name(chdb_client: Client, amount: str) -> None:
    values = list(cost_row(time_line(), "compute", "2.5"))
    values[fact.COST_ROWS.columns.index("cost")] = amount
    with pytest.raises(RowRefused, match=f"cost_rows: cost {amount} does not fit"):
        insert_rows(chdb_client, fact.COST_ROWS, [values])
    assert rows(chdb_client, "SELECT count() FROM cost_rows") == [(0,)]


@pytest.mark.chdb
def test_decimals_may_come_as_strings(chdb_client: Client) -> None:
    values = list(cost_row(time_line(), "compute", "2.5"))
    values[fact.COST_ROWS.columns.index("rate")] = "324.46"
    insert_rows(chdb_client, fact.COST_ROWS, [values])
    assert rows(chdb_client, "SELECT toString(rate) FROM v_cost_rows") == [("324.46",)]


@pytest.mark.chdb
def test_a_row_sent_again_from_elsewhere_and_in_another_cut_is_the_same_row(chdb_client: Client) -> None:
    lines = [time_line(quarter=quarter) for quarter in range(6)]
    insert_usage_lines(chdb_client, lines, [Source(0, offset) for offset in range(6)])
    insert_usage_lines(chdb_client, lines[:4], [Source(0, offset + 100) for offset in range(4)])
    insert_usage_lines(chdb_client, lines[2:])
    assert rows(chdb_client, "SELECT count(), sum(device_us) FROM v_usage_lines") == [(6, 6 * QUARTER)]


@pytest.mark.chdb
def test_the_same_block_again_is_not_even_stored_again(chdb_client: Client) -> None:
    lines = [time_line(quarter=quarter) for quarter in range(6)]
    for _ in range(3):
        insert_usage_lines(chdb_client, lines)
    assert rows(chdb_client, "SELECT count() FROM usage_lines") == [(6,)]


@pytest.mark.chdb
def test_two_contents_under_one_id_are_both_kept(chdb_client: Client) -> None:
    line = time_line()
    insert_usage_lines(chdb_client, [line, line._replace(device_us=line.device_us - 1)])
    chdb_client.command("OPTIMIZE TABLE usage_lines FINAL")
    assert rows(chdb_client, "SELECT count(), uniqExact(line_id) FROM v_usage_lines") == [(2, 1)]


@pytest.mark.chdb
def test_unknown_energy_is_not_zero_energy(chdb_client: Client) -> None:
    unknown, zero = energy_line(energy_uj=None, line_id="x"), energy_line(energy_uj=0, line_id="x")
    insert_usage_lines(chdb_client, [unknown, zero])
    assert rows(chdb_client, "SELECT energy_uj FROM v_usage_lines ORDER BY energy_uj") == [(0,), (None,)]


@pytest.mark.chdb
def test_rows_of_two_months_go_to_their_own_partitions_by_their_own_time(chdb_client: Client) -> None:
    lines = [time_line(quarter=quarter) for quarter in (-1, 0, -2, 1)]
    assert insert_usage_lines(chdb_client, lines) == 4
    assert rows(
        chdb_client,
        "SELECT partition, sum(rows) FROM system.parts WHERE database = currentDatabase() AND table = 'usage_lines'"
        " AND active GROUP BY partition ORDER BY partition",
    ) == [("202605", 2), ("202606", 2)]


@pytest.mark.chdb
def test_revisions_keep_open_ends_unknowns_and_what_they_list(chdb_client: Client) -> None:
    insert_allocation_revisions(
        chdb_client, [allocation("j", 0, None, offset=4, known_s=1, marks=("late",), memory_bytes=1 << 40)]
    )
    insert_node_revisions(
        chdb_client,
        [
            *installed(("GPU-0", "GPU-1")),
            node_fact("reservation", 5, 9, offset=2, known_s=0, reserved_devices=("GPU-1",)),
        ],
    )
    assert rows(
        chdb_client, "SELECT end_at, stop_requested_at, cpus, memory_bytes, marks FROM v_allocation_revisions"
    ) == [(None, None, None, 1 << 40, ["late"])]
    assert rows(
        chdb_client,
        "SELECT kind, arrayMap(d -> (d.device, d.device_index, d.idle_floor_mw), devices), reserved_devices"
        " FROM v_node_revisions ORDER BY kind",
    ) == [
        ("inventory", [("GPU-0", 0, None), ("GPU-1", 1, None)], []),
        ("reservation", [], ["GPU-1"]),
        ("service", [], []),
    ]


@pytest.mark.chdb
def test_marks_keep_the_latest_of_each_pair_of_partitions(chdb_client: Client) -> None:
    insert_marks(chdb_client, [mark(60, offset=7), mark(120, offset=9)], [Source(0, 1), Source(0, 2)])
    insert_marks(chdb_client, [mark(60, offset=7), mark(60, offset=3, partition=1)], [Source(0, 1), Source(1, 1)])
    assert rows(
        chdb_client,
        "SELECT allocations_partition, origin_partition, toUnixTimestamp64Micro(marked_at), origin_offset FROM v_marks"
        " ORDER BY ALL",
    ) == [(0, 0, 120_000_000, 9), (1, 1, 60_000_000, 3)]


@pytest.mark.chdb
def test_raw_bytes_of_dead_letters_come_back_as_they_were(chdb_client: Client) -> None:
    letter = DeadLetter("gpu-samples", 1, 5, "undecodable", "magic byte 7", "meter", b"n1", bytes(range(256)))
    insert_dead_letters(chdb_client, [letter])
    assert rows(chdb_client, "SELECT hex(record_value), reason_code FROM v_dead_letters") == [
        (bytes(range(256)).hex().upper(), "undecodable")
    ]


@pytest.mark.chdb
def test_small_facts_are_stored_once_however_often_they_come(chdb_client: Client) -> None:
    event = ThresholdRow(
        "e", "burn", "n1", "raised", T0, "", "n1", "warning", Decimal(2) / 3, None, "ratio", "two thirds idle"
    )
    found = Discrepancy("d", "overlap", "n1", "GPU-0", T0, 1 << 62, "a,b", "x,y", "shares scaled to 1")
    price = Price("p", "r", Origin(0, 3), 0, "energy", T0, None, Decimal("0.3"), "EUR", pue=Decimal("1.25"))
    for source in ([Source(0, 0)], [Source(0, 1)]):
        insert_threshold_events(chdb_client, [event], source)
        insert_discrepancies(chdb_client, [found], source)
        insert_prices(chdb_client, [price], source)
        insert_gaps(chdb_client, [Gap("n1", "a", "gpu-samples", 4, 7, 3, None, None, "the disk is full")], source)
    assert rows(chdb_client, "SELECT toString(value), threshold FROM v_threshold_events") == [("0.666666666667", None)]
    assert rows(chdb_client, "SELECT record_count, from_at FROM v_gaps") == [(3, None)]
    assert rows(chdb_client, "SELECT toString(pue), end_at FROM v_prices") == [("1.25", None)]
    assert rows(chdb_client, "SELECT end_at, tenant_id FROM v_discrepancies") == [(None, "a,b")]
