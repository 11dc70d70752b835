"""The laws as SQL: they hold on a ledger with late events and late prices, and each finds what breaks it."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client
from wattledger_core.cost import CostRow
from wattledger_core.line import Line
from wattledger_sql.fact import FACTS
from wattledger_sql.insert import insert_cost_rows, insert_device_totals, insert_discrepancies, insert_usage_lines
from wattledger_sql.migrate import migrate
from wattledger_sql.query import LAW_PREFIX, query, query_names
from wattledger_sql.refresh import AGGREGATES, refresh
from wattledger_sql.verify import UNITS, LawResult, verify

from tests.unit.sql_engine import fresh_database
from tests.unit.sql_ledger import insert_ledger, replayed
from tests.unit.sql_rows import S, cost_row, time_line

LEDGER = replayed()
TIME = next(line for line in LEDGER.lines if line.kind == "time" and line.tenant == "acme")
ENERGY = next(line for line in LEDGER.lines if line.kind == "energy" and line.tenant == "acme")
BACK = next(line for line in LEDGER.lines if line.entry == "reversal")
COST = next(row for row in LEDGER.cost_rows if row.line_id == TIME.line_id and row.component == "compute")
COST_BACK = next(row for row in LEDGER.cost_rows if row.entry == "reversal" and row.component == "compute")
TOTAL = next(total for total in LEDGER.totals if total.kind == "time")
PLANT = Callable[[Client], object]


def amounts(rows: list[CostRow]) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for row in rows:
        found[row.component] = found.get(row.component, Decimal(0)) + (row.cost or 0)
    return found


def broken(results: list[LawResult]) -> set[str]:
    return {result.name for result in results if not result.ok}


TAMPERED = (
    "usage_lines",
    "device_totals",
    "cost_rows",
    "discrepancies",
    *(aggregate.table for aggregate in AGGREGATES),
)


@pytest.fixture(scope="module")
def kept_ledger(chdb_path: Path) -> Iterator[Client]:
    """A database with the ledger in it and a copy of every table; every view is refreshed and then stopped, so that
    nothing repairs a violation."""
    with fresh_database(chdb_path) as client:
        migrate(client)
        insert_ledger(client, LEDGER)
        refresh(client)
        for aggregate in AGGREGATES:
            client.command(f"SYSTEM STOP VIEW r_{aggregate.table}")
        for table in TAMPERED:
            client.command(f"CREATE TABLE kept_{table} ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM {table}")
        yield client


@pytest.fixture
def ledger_client(kept_ledger: Client) -> Client:
    """The ledger as it was inserted, whatever the test before did to it."""
    for table in TAMPERED:
        kept_ledger.command(f"TRUNCATE TABLE {table}")
        kept_ledger.command(f"INSERT INTO {table} SELECT * FROM kept_{table} SETTINGS insert_deduplicate = 0")
    return kept_ledger


def change(table: str, assignment: str, where: str) -> PLANT:
    sql = f"ALTER TABLE {table} UPDATE {assignment} WHERE {where} SETTINGS mutations_sync = 2"
    return lambda client: client.command(sql)


def delete(table: str, where: str) -> PLANT:
    return lambda client: client.command(f"DELETE FROM {table} WHERE {where}")


def both(*plants: PLANT) -> PLANT:
    return lambda client: [plant(client) for plant in plants]


def lines(*new: Line) -> PLANT:
    return lambda client: insert_usage_lines(client, new)


def cost_rows(*new: CostRow) -> PLANT:
    return lambda client: insert_cost_rows(client, new)


def replaced(row: CostRow, **changes: Any) -> PLANT:
    """The row deleted and written again with other content, as if it had always been so."""
    return both(delete("cost_rows", f"row_id = '{row.row_id}'"), cost_rows(row._replace(**changes)))


def shown(table: str, instead: str) -> PLANT:
    """One row of an aggregate written again with another number."""
    return lambda client: client.command(f"INSERT INTO {table} SELECT * REPLACE ({instead}) FROM {table} LIMIT 1")


def quarter_gone(client: Client) -> None:
    """Lines, total and cost rows of one device and quarter-hour, all at once: every sum still agrees."""
    where = f"device = '{TIME.device}' AND toUnixTimestamp64Micro(group_start_at) = {TIME.group_start_us}"
    client.command(f"DELETE FROM device_totals WHERE kind = 'time' AND {where}")
    client.command(f"DELETE FROM usage_lines WHERE kind = 'time' AND {where}")
    client.command(f"DELETE FROM cost_rows WHERE unit = 'us' AND {where}")


ROUNDED_UP = cost_row(
    time_line(device_us=1800, span_us=1800), "billed", "0.000001", cost=Decimal("0.000000000001")
)  # 5e-13 exactly: half-even is 0


CASES: list[tuple[str, PLANT, set[str]]] = [
    ("a microsecond more in a line", change("usage_lines", "device_us = device_us + 1", f"line_id = '{TIME.line_id}'"),
     {"device_time", "content_intact", "lines_priced", "usage_views"}),
    ("a microjoule less in a line", change("usage_lines", "energy_uj = energy_uj - 1", f"line_id = '{ENERGY.line_id}'"),
     {"energy", "content_intact", "lines_priced", "usage_views"}),
    ("another user on a line", change("usage_lines", "user_name = 'eve'", f"line_id = '{TIME.line_id}'"),
     {"content_intact"}),
    ("energy known where it was unknown", change("device_totals", "energy_uj = 1", f"total_id = '{TOTAL.total_id}'"),
     {"content_intact"}),
    ("a line gone", delete("usage_lines", f"line_id = '{TIME.line_id}'"),
     {"device_time", "lines_priced", "usage_views"}),
    ("a total gone", delete("device_totals", f"total_id = '{TOTAL.total_id}'"), {"device_time", "in_service"}),
    ("a total of another length", both(delete("device_totals", f"total_id = '{TOTAL.total_id}'"),
     lambda client: insert_device_totals(client, [TOTAL._replace(in_service_us=TOTAL.in_service_us - 1)])),
     {"device_time", "in_service"}),
    ("a quarter-hour gone with all that is about it", quarter_gone, {"in_service", "money_views", "usage_views"}),
    ("the last decimal of a cost", change("cost_rows", "cost = cost + 0.000000000001", f"row_id = '{COST.row_id}'"),
     {"cost_exact", "money_views", "content_intact"}),
    ("the last decimal of a cost, hash and all", replaced(COST, cost=COST.cost and COST.cost + Decimal("1e-12")),
     {"cost_exact"}),
    ("a tie rounded up", both(lines(time_line(device_us=1800, span_us=1800)), cost_rows(ROUNDED_UP)),
     {"cost_exact", "device_time", "lines_priced"}),
    ("a rate that is not what was priced", replaced(COST, rate=Decimal("3.7")), {"cost_exact"}),
    ("a priced row without a cost", replaced(COST, cost=None), {"cost_exact"}),
    ("an unpriced row without a reason", replaced(COST, cost=None, rate=None, status="unpriced", reason=""),
     {"cost_exact"}),
    ("a cost row gone", delete("cost_rows", f"row_id = '{COST.row_id}'"), {"lines_priced", "money_views"}),
    ("a cost row of no line", cost_rows(cost_row(TIME._replace(line_id="none"), "compute", "3.6")), {"lines_priced"}),
    ("a line priced twice", cost_rows(COST._replace(row_id="again")), {"lines_priced"}),
    ("a cost row moved to another tenant", replaced(COST, tenant="zeta"), {"rows_follow_lines"}),
    ("a cost row moved to another job", replaced(COST, job="j9"), {"rows_follow_lines"}),
    ("one id with two contents in lines", lines(TIME._replace(user="eve")),
     {"one_content", "device_time", "lines_priced"}),
    ("one id with two contents in cost rows", cost_rows(COST._replace(price_revision_id="other")),
     {"one_content", "lines_priced"}),
    ("a reversal that is not the negation", change("usage_lines", "busy_us = 5", f"line_id = '{BACK.line_id}'"),
     {"reversals_exact", "content_intact"}),
    ("a reversal of what is not there", change("usage_lines", "of_line_id = 'none'", f"line_id = '{BACK.line_id}'"),
     {"reversals_exact", "content_intact"}),
    ("a reversal that counts +1", change("usage_lines", "sign = 1", f"line_id = '{BACK.line_id}'"),
     {"reversals_exact", "content_intact", "lines_priced"}),
    ("a line taken back twice", lines(BACK._replace(line_id="again", cause_id="other")),
     {"reversed_once", "device_time", "lines_priced"}),
    ("a cost row taken back twice", cost_rows(COST_BACK._replace(row_id="again", cause_id="other")),
     {"reversed_once", "lines_priced"}),
    ("a cost row that takes back another's amount", replaced(COST_BACK, currency="CHF"),
     {"reversals_exact", "one_currency"}),
    ("a second currency", replaced(COST, currency="CHF"), {"one_currency"}),
    ("a line beyond its quarter-hour", lines(time_line(device_us=0, end_us=TIME.group_end_us + 900 * S)),
     {"well_formed", "lines_priced"}),
    ("a customer who pays for free time", lines(time_line(device_us=0, state="free")), {"well_formed", "lines_priced"}),
    ("an hour shown too high", shown("tenant_margin_hour", "cost_compute + 1 AS cost_compute"), {"money_views"}),
    ("a job shown too high", shown("job_cost_hour", "billed + 1 AS billed"), {"money_views"}),
    ("a model tag shown too high", shown("model_tag_cost_hour", "cost_pools + 1 AS cost_pools"), {"money_views"}),
    ("idle burn shown too low", shown("idle_burn_hour", "cost_compute - 1 AS cost_compute"), {"money_views"}),
    ("a day shown too low", shown("tenant_margin_day", "billed - 1 AS billed"), {"money_views"}),
    ("a day of idle burn shown too high", shown("idle_burn_day", "cost_total + 1 AS cost_total"), {"money_views"}),
    ("capacity shown too high", shown("capacity_hour", "device_us + 1 AS device_us"), {"usage_views"}),
    ("energy shown too high", shown("device_energy_hour", "energy_uj + 1 AS energy_uj"), {"usage_views"}),
]  # fmt: skip


@pytest.mark.chdb
def test_the_laws_hold_on_a_ledger_with_late_events_and_late_prices(ledger_client: Client) -> None:
    assert {line.entry for line in LEDGER.lines} == {"original", "reversal", "correction"}
    assert {row.entry for row in LEDGER.cost_rows} == {"original", "reversal", "correction"}
    results = verify(ledger_client, amounts(LEDGER.cost_rows))
    assert [
        (result.name, result.residual, result.rows) for result in results if not result.ok or result.residual != "0"
    ] == []
    assert [result.name for result in results] == [*UNITS, "money_topic"]


@pytest.mark.chdb
@pytest.mark.parametrize(("plant", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_planted_violation_is_found(ledger_client: Client, plant: PLANT, expected: set[str]) -> None:
    plant(ledger_client)
    results = verify(ledger_client)
    assert broken(results) == expected
    for result in results:
        assert result.ok == (result.violations == 0) == (result.residual == "0") == (not result.rows)


def test_every_law_has_a_planted_violation_and_a_query() -> None:
    assert set().union(*(case[2] for case in CASES)) == set(UNITS)
    assert {LAW_PREFIX + name for name in UNITS} == {name for name in query_names() if name.startswith(LAW_PREFIX)}


@pytest.mark.chdb
def test_the_topic_and_the_table_are_compared_to_the_last_decimal(ledger_client: Client) -> None:
    off = {**amounts(LEDGER.cost_rows), "pool:tape": Decimal("0.5")}
    off["compute"] += Decimal("1e-12")
    money = verify(ledger_client, off)[-1]
    assert (money.name, money.ok, money.residual, money.violations) == ("money_topic", False, "0.500000000001", 2)


@pytest.mark.chdb
def test_a_broken_law_names_the_place_and_the_amount(ledger_client: Client) -> None:
    change("usage_lines", "device_us = device_us + 7", f"line_id = '{TIME.line_id}'")(ledger_client)
    law = verify(ledger_client)[0]
    assert (law.name, law.residual, law.unit, law.violations) == ("device_time", "7", "us", 1)
    assert law.rows[0].what.startswith("n1/GPU-0 quarter-hour from 2026-06-01 00:00:00")
    assert law.rows[0].residual == "7"


@pytest.mark.chdb
def test_while_a_stack_runs_what_is_under_way_is_not_a_violation(ledger_client: Client) -> None:
    fresh = time_line(device="GPU-9")
    insert_usage_lines(ledger_client, [fresh])
    assert broken(verify(ledger_client)) == {"device_time", "lines_priced"}
    assert broken(verify(ledger_client, grace_s=3600)) == set()
    ledger_client.command(
        "ALTER TABLE usage_lines UPDATE inserted_at = inserted_at - INTERVAL 2 HOUR WHERE device = 'GPU-9'"
        " SETTINGS mutations_sync = 2"
    )
    assert broken(verify(ledger_client, grace_s=3600)) >= {"device_time", "lines_priced"}


@pytest.mark.chdb
def test_hours_that_are_due_are_not_wrong(ledger_client: Client) -> None:
    late = time_line(quarter=40, device="GPU-9")
    insert_cost_rows(ledger_client, [cost_row(late, "compute", "3.6")])
    assert "money_views" not in broken(verify(ledger_client))


@pytest.mark.chdb
def test_discrepancies_told_again_in_other_words_break_nothing(ledger_client: Client) -> None:
    insert_discrepancies(ledger_client, [LEDGER.discrepancies[0]._replace(detail="in other words")])
    assert broken(verify(ledger_client)) == set()


@pytest.mark.chdb
def test_the_totals_of_a_record_sent_twice_are_the_same_rows(ledger_client: Client) -> None:
    counted = "SELECT count() FROM device_totals FINAL"
    before = ledger_client.query(counted).result_rows
    again = [total._replace(offset=total.offset + 900) for total in LEDGER.totals if total.kind == "energy"]
    insert_device_totals(ledger_client, again)
    assert broken(verify(ledger_client)) == set()
    assert len(again) > 10
    assert ledger_client.query(counted).result_rows == before


@pytest.mark.chdb
def test_the_content_law_hashes_what_the_tables_hash(chdb_client: Client) -> None:
    law = "".join(query("laws/content_intact").split())
    defaults = {
        table: "".join(expression.split())
        for table, expression in chdb_client.query(
            "SELECT table, default_expression FROM system.columns"
            " WHERE database = currentDatabase() AND name = 'content_hash' AND default_kind = 'DEFAULT'"
        ).result_rows
    }
    assert set(defaults) == {fact.table for fact in FACTS} - {"marks"}
    for table, expression in defaults.items():
        assert f"FROM{table}WHEREcontent_hash!={expression}" in law
