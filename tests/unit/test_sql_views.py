"""The refreshable views: equal to the folded facts, whatever is replayed, corrected or lost; the live estimate."""

from decimal import Decimal
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client
from wattledger_core.late import reverse_line
from wattledger_core.line import Line
from wattledger_core.revision import Mark, Origin
from wattledger_sql.fact import Source
from wattledger_sql.insert import (
    insert_allocation_revisions,
    insert_cost_rows,
    insert_device_totals,
    insert_marks,
    insert_node_revisions,
    insert_usage_lines,
)
from wattledger_sql.refresh import AGGREGATES, ages, refresh

from tests.builders import allocation, installed
from tests.unit.sql_rows import QUARTER, T0, S, cost_row, energy_line, time_line, total_of

pytestmark = pytest.mark.chdb


def rows(client: Client, sql: str) -> list[Any]:
    return [tuple(row) for row in client.query(sql).result_rows]


def price(client: Client, *lines: Line, compute: str | None = "3.6", billed: str | None = "4") -> None:
    """Insert lines with their cost rows: 0.9 for a quarter-hour, and 1 billed; 0.015 for its energy."""
    insert_usage_lines(client, lines)
    for line in lines:
        if line.kind == "energy":
            insert_cost_rows(client, [cost_row(line, "energy", "0.4", "1.5")])
        else:
            insert_cost_rows(client, [cost_row(line, "compute", compute), cost_row(line, "billed", billed)])


MARGIN = (
    "SELECT tenant_id, toString(cost_total), toString(billed), toString(margin) FROM v_tenant_margin_{} ORDER BY ALL"
)


def test_margin_by_hour_and_day_is_what_the_rows_fold_to(chdb_client: Client) -> None:
    price(chdb_client, *[time_line(quarter=quarter) for quarter in range(5)], energy_line(quarter=4))
    refresh(chdb_client)
    assert rows(
        chdb_client, "SELECT hour_at, toString(cost_total), held_us FROM v_tenant_margin_hour ORDER BY hour_at"
    ) == [
        (rows(chdb_client, f"SELECT toDateTime({(T0 // S)}, 'UTC')")[0][0], "3.6", 4 * QUARTER),
        (rows(chdb_client, f"SELECT toDateTime({(T0 // S + 3600)}, 'UTC')")[0][0], "0.915", QUARTER),
    ]
    assert rows(chdb_client, MARGIN.format("day")) == [("tenant-j1", "4.515", "5", "0.485")]
    assert rows(
        chdb_client, "SELECT toString(cost_energy), toString(cost_marginal), energy_uj FROM v_tenant_margin_day"
    ) == [("0.015", "0.015", 90_000_000_000)]


def test_a_replay_does_not_inflate_a_view(chdb_client: Client) -> None:
    lines = [time_line(quarter=quarter) for quarter in range(4)]
    for cut in (lines, lines[:3], lines[1:], lines):
        price(chdb_client, *cut)
        refresh(chdb_client)
    assert rows(chdb_client, MARGIN.format("hour")) == [("tenant-j1", "3.6", "4", "0.4")]
    assert rows(chdb_client, MARGIN.format("day")) == [("tenant-j1", "3.6", "4", "0.4")]


def test_a_correction_of_an_old_hour_shows_and_a_holder_that_vanished_is_gone(chdb_client: Client) -> None:
    first = time_line("j1")
    price(chdb_client, first, *[time_line("j1", quarter) for quarter in range(4 * 60, 4 * 120)])
    refresh(chdb_client)
    back, other = reverse_line(first, "late"), time_line("j2", entry="correction", cause_id="late")
    price(chdb_client, other)
    insert_usage_lines(chdb_client, [back])
    insert_cost_rows(
        chdb_client,
        [
            cost_row(back, "compute", "3.6", of_row_id=cost_row(first, "compute", "3.6").row_id),
            cost_row(back, "billed", "4", of_row_id=cost_row(first, "billed", "4").row_id),
        ],
    )
    refresh(chdb_client)
    first_day = f" WHERE day_on = toDate(fromUnixTimestamp64Micro({T0}, 'UTC'))"
    assert rows(chdb_client, "SELECT tenant_id, toString(cost_total) FROM v_tenant_margin_day" + first_day) == [
        ("tenant-j2", "0.9")
    ]
    assert rows(
        chdb_client, f"SELECT tenant_id, device_us FROM v_capacity_hour WHERE toUnixTimestamp(hour_at) = {T0 // S}"
    ) == [("tenant-j2", QUARTER)]


def test_rows_that_were_lost_show_after_everything_is_refreshed(chdb_client: Client) -> None:
    price(chdb_client, *[time_line("j1", quarter) for quarter in range(0, 4 * 130, 4)])
    refresh(chdb_client)
    lost = f"DELETE FROM cost_rows WHERE start_at < fromUnixTimestamp64Micro({T0 + 4 * 4 * QUARTER}, 'UTC')"
    chdb_client.command(lost)
    refresh(chdb_client, everything=True)
    assert rows(chdb_client, "SELECT count(), toString(sum(cost_total)) FROM v_tenant_margin_hour") == [(126, "113.4")]
    assert rows(chdb_client, "SELECT toString(sum(cost_total)) FROM v_tenant_margin_day") == [("113.4",)]


def test_old_hours_are_swept_in_small_steps_side_by_side_even_when_nothing_is_inserted(chdb_client: Client) -> None:
    price(chdb_client, *[time_line("j1", quarter) for quarter in range(0, 4 * 130, 4)])
    refresh(chdb_client)
    chdb_client.command(
        "ALTER TABLE cost_rows UPDATE inserted_at = inserted_at - INTERVAL 1 DAY WHERE 1 SETTINGS mutations_sync = 2"
    )
    before = rows(chdb_client, "SELECT max(refreshed_at) FROM tenant_margin_hour")[0][0]
    for at_least in (6, 12, 18):
        refresh(chdb_client)
        found = rows(
            chdb_client,
            "SELECT DISTINCT toUnixTimestamp(hour_at) FROM tenant_margin_hour"
            " WHERE toUnixTimestamp64Micro(refreshed_at) >"
            f" toUnixTimestamp64Micro(toDateTime64('{before}', 6, 'UTC')) ORDER BY 1",
        )
        assert len(found) >= at_least
        assert len(found) < 130, "a refresh without new rows must not read every hour again"
        assert found == [(T0 // S + 3600 * hour,) for hour in range(len(found))], "the earliest first, side by side"


def test_a_total_with_unpriced_rows_says_so_beside_it(chdb_client: Client) -> None:
    price(chdb_client, time_line(), time_line(quarter=1), energy_line(energy_uj=None))
    price(chdb_client, time_line(quarter=2), time_line(quarter=3), compute=None, billed=None)
    refresh(chdb_client)
    columns = "toString(cost_total), toString(billed), unpriced_rows, unbilled_rows, unmeasured_rows, currency"
    expected = [("1.8", "2", 2, 2, 1, "EUR")]
    assert rows(chdb_client, f"SELECT {columns} FROM v_tenant_margin_hour") == expected
    assert rows(chdb_client, f"SELECT {columns} FROM v_tenant_margin_day") == expected
    assert rows(chdb_client, f"SELECT {columns} FROM v_job_cost_hour") == expected
    assert rows(chdb_client, f"SELECT {columns} FROM v_model_tag_cost_hour") == expected


def test_several_currencies_are_not_passed_off_as_one(chdb_client: Client) -> None:
    price(chdb_client, time_line())
    insert_cost_rows(chdb_client, [cost_row(time_line(quarter=1), "compute", "3.6", currency="USD")])
    refresh(chdb_client)
    assert rows(chdb_client, "SELECT currency FROM v_tenant_margin_hour") == [("EUR,USD",)]
    assert rows(chdb_client, "SELECT currency FROM v_tenant_margin_day") == [("EUR,USD",)]


def test_idle_burn_is_what_nobody_held_by_state(chdb_client: Client) -> None:
    nobody: dict[str, Any] = {"tenant": "__idle__", "cluster": "", "allocation_id": "", "plan": "", "sku": ""}
    free = time_line("", state="free", **nobody)
    idle = energy_line("", state="idle", **nobody)
    down = free._replace(line_id="down", state="unavailable", tenant="__unavailable__", device="GPU-1")
    insert_usage_lines(chdb_client, [free, idle, down])
    insert_cost_rows(
        chdb_client,
        [cost_row(free, "compute", "3.6"), cost_row(idle, "energy", "0.4", "1.5"), cost_row(down, "compute", "3.6")],
    )
    price(chdb_client, time_line(quarter=1))
    refresh(chdb_client)
    expected = [("free", QUARTER, "0.9", 0), ("idle", 0, "0.015", 90_000_000_000), ("unavailable", QUARTER, "0.9", 0)]
    for view in ("v_idle_burn_hour", "v_idle_burn_day"):
        assert (
            rows(chdb_client, f"SELECT state, device_us, toString(cost_total), energy_uj FROM {view} ORDER BY state")
            == expected
        )


def test_device_energy_keeps_unknown_time_apart(chdb_client: Client) -> None:
    known = energy_line(idle_energy_uj=1_000, busy_us=QUARTER // 2)
    insert_usage_lines(chdb_client, [known, energy_line(quarter=1, energy_uj=None)])
    refresh(chdb_client)
    columns = "energy_uj, idle_energy_uj, busy_us, measured_us, unknown_us"
    assert rows(chdb_client, f"SELECT {columns} FROM v_device_energy_hour") == [
        (90_000_000_000, 1_000, QUARTER // 2, QUARTER, QUARTER)
    ]


def test_energies_beyond_64_bits_are_summed_exactly(chdb_client: Client) -> None:
    lines = [energy_line(quarter=quarter, energy_uj=9 * 10**18) for quarter in range(4)]
    insert_usage_lines(chdb_client, lines)
    refresh(chdb_client)
    assert rows(chdb_client, "SELECT energy_uj FROM v_device_energy_hour") == [(36 * 10**18,)]


def test_every_aggregate_shows_its_age(chdb_client: Client) -> None:
    price(chdb_client, time_line(), energy_line())
    refresh(chdb_client)
    found = {age.table: age for age in ages(chdb_client)}
    assert set(found) == {aggregate.table for aggregate in AGGREGATES} - {
        "idle_burn_hour",
        "idle_burn_day",
        "discrepancy_count_hour",
    }
    assert all(age.newest_age_s is not None and 0 <= age.newest_age_s < 60 for age in found.values())


def running(client: Client, *, now_s: int, metered: int, **changes: Any) -> None:
    """j1 on GPU-0 from the first second, priced for `metered` quarter-hours, and a mark at `now_s`."""
    base = T0 // S
    for at_s, partition in ((now_s, 0), (now_s + 600, 1)):
        insert_marks(client, [Mark(Origin(partition, 9), (base + at_s) * S)], [Source(0, 9)])
    insert_node_revisions(client, installed(("GPU-0",), start_s=base))
    held = allocation("j1", base, None, offset=5, known_s=base, device="GPU-0", sku="h100", **changes)
    insert_allocation_revisions(client, [held])
    for quarter in range(metered):
        line = time_line(quarter=quarter)
        price(client, line)
        insert_device_totals(client, [total_of(line)])


LIVE = "SELECT toString(cost_metered), toString(cost_running), toString(billed_running), running_us FROM v_live_cost"


def test_live_cost_adds_what_runs_up_to_the_latest_common_mark(chdb_client: Client) -> None:
    running(chdb_client, now_s=2250, metered=2)
    assert rows(chdb_client, LIVE) == [("1.8", "0.45", "0.5", QUARTER // 2)]
    assert rows(chdb_client, "SELECT is_estimate, toUnixTimestamp64Micro(as_of_at) FROM v_live_cost") == [
        (True, T0 + 2250 * S)
    ]


def test_the_live_cost_reads_totals_as_they_lie_and_those_sent_twice_change_nothing(chdb_client: Client) -> None:
    running(chdb_client, now_s=2250, metered=2)
    before = rows(chdb_client, LIVE)
    insert_device_totals(chdb_client, [total_of(time_line(quarter=1)), total_of(time_line(quarter=0))])
    assert rows(chdb_client, LIVE) == before
    plan = "\n".join(row[0] for row in rows(chdb_client, "EXPLAIN indexes = 1 SELECT * FROM v_running_cost"))
    reads = [part for part in plan.split("ReadFromMergeTree (")[1:] if ".device_totals)" in part.splitlines()[0]]
    assert len(reads) == 1
    assert "FINAL" not in reads[0], "a scan of every total, compared, for each look at the live cost"


def test_live_cost_stops_where_the_tenant_asked_to_stop(chdb_client: Client) -> None:
    running(chdb_client, now_s=2250, metered=2, stop_requested_us=T0 + 1890 * S)
    assert rows(chdb_client, LIVE) == [("1.8", "0.09", "0.1", 90 * S)]


def test_live_cost_charges_a_share_its_part(chdb_client: Client) -> None:
    running(chdb_client, now_s=2250, metered=2, share_num=3, share_den=7)
    assert rows(chdb_client, "SELECT running_us FROM v_live_cost") == [(450 * S * 3 // 7,)]


def test_live_cost_without_a_rate_says_how_much_time_that_is(chdb_client: Client) -> None:
    running(chdb_client, now_s=450, metered=0)
    columns = "toString(cost_estimate), running_us, running_without_rate_us"
    assert rows(chdb_client, f"SELECT {columns} FROM v_live_cost") == [("0", 450 * S, 450 * S)]
    assert rows(chdb_client, "SELECT cost_estimate FROM v_running_cost") == [(None,)]


def test_money_in_views_is_decimal(chdb_client: Client) -> None:
    price(chdb_client, time_line())
    refresh(chdb_client)
    assert rows(chdb_client, "SELECT margin FROM v_tenant_margin_hour") == [(Decimal("0.100000000000"),)]
