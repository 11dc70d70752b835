"""Every named query runs, and the ones that people act on say what the rows and the core say."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client
from wattledger_core.cost import CostRow
from wattledger_core.interval import FOREVER_US
from wattledger_core.line import Line
from wattledger_core.verdict import VERDICTS, Verdict, VerdictPolicy, judge
from wattledger_core.verdict_figures import figures
from wattledger_core.verdict_idle import Use
from wattledger_sql.insert import insert_cost_rows, insert_device_totals, insert_usage_lines
from wattledger_sql.query import UnknownQuery, query, query_names
from wattledger_sql.refresh import refresh

from tests.unit.sql_ledger import insert_ledger, replayed
from tests.unit.sql_rows import QUARTER, cost_row, energy_line, time_line, total_of

LEDGER = replayed()


def run(client: Client, name: str) -> list[dict[str, Any]]:
    return list(client.query(query(name)).named_results())


@pytest.fixture
def ledger_client(chdb_client: Client) -> Client:
    insert_ledger(chdb_client, LEDGER)
    refresh(chdb_client)
    return chdb_client


@pytest.mark.chdb
@pytest.mark.parametrize("name", query_names())
def test_every_named_query_runs_and_says_what_it_answers(chdb_client: Client, name: str) -> None:
    text = query(name)
    assert text.startswith("-- ")
    assert not text.endswith(";")
    parameters = {"through_us": FOREVER_US, "lateness_us": 60_000_000, "closed_us": FOREVER_US}
    chdb_client.query(text, parameters={key: value for key, value in parameters.items() if f"{{{key}:" in text} or None)


def test_a_query_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(UnknownQuery, match=r"no query named 'jobs': .*job_cost"):
        query("jobs")


@pytest.mark.chdb
def test_tenant_summary_is_the_fold_of_the_rows(ledger_client: Client) -> None:
    expected: dict[str, list[Any]] = {}
    for row in LEDGER.cost_rows:
        sums = expected.setdefault(row.tenant, [0, 0, Decimal(0), Decimal(0)])
        if row.component == "compute" and row.state == "held":
            sums[0] += row.quantity or 0
        if row.component == "energy":
            sums[1] += row.quantity or 0
        sums[3 if row.component == "billed" else 2] += row.cost or 0
    found: dict[str, list[Any]] = {}
    for shown in run(ledger_client, "tenant_summary"):
        sums = found.setdefault(shown["tenant_id"], [0, 0, Decimal(0), Decimal(0)])
        for place, column in enumerate(("held_us", "energy_uj", "cost_total", "billed")):
            sums[place] += shown[column]
    assert found == {tenant: sums for tenant, sums in expected.items() if any(sums)}


@pytest.mark.chdb
def test_the_capacity_waterfall_adds_up_from_installed_to_billed(ledger_client: Client) -> None:
    found = {row["step"]: row for row in run(ledger_client, "capacity_waterfall")}
    assert list(found) == ["installed", "unavailable", "reserved_unused", "stranded", "free", "held", "billed"]
    states = [found[step] for step in list(found)[1:-1]]
    assert found["installed"]["device_us"] == sum(row["device_us"] for row in states) == 2 * 16 * QUARTER
    assert found["installed"]["cost_compute"] == sum(row["cost_compute"] for row in states) == Decimal("28.8")
    assert found["held"]["device_us"] == 9_400_000_000
    assert found["reserved_unused"]["device_us"] == 3_600_000_000


@pytest.mark.chdb
def test_job_cost_is_the_fold_of_the_rows_of_each_job(ledger_client: Client) -> None:
    expected: dict[str, Decimal] = {}
    for row in LEDGER.cost_rows:
        if row.job and row.component != "billed":
            expected[row.job] = expected.get(row.job, Decimal(0)) + (row.cost or 0)
    found = run(ledger_client, "job_cost")
    assert {row["job"]: row["cost_total"] for row in found} == expected
    assert [row["cost_total"] for row in found] == sorted(expected.values(), reverse=True)


@pytest.mark.chdb
def test_idle_burn_of_a_machine_is_free_time_by_time_in_service(ledger_client: Client) -> None:
    (node,) = run(ledger_client, "machine_idle_burn")
    free_us = sum(line.device_us for line in LEDGER.lines if line.state == "free")
    assert (node["node"], node["free_us"], node["in_service_us"]) == ("n1", free_us, 32 * QUARTER)
    assert node["idle_ratio"] == Decimal("0.496527")
    idle = sum((row.cost or Decimal(0) for row in LEDGER.cost_rows if row.tenant == "__idle__"), Decimal(0))
    assert node["idle_cost"] == idle


@pytest.mark.chdb
def test_coverage_counts_a_shared_device_once(chdb_client: Client) -> None:
    shared = [energy_line(job, energy_uj=5, allocation_id=job) for job in ("j1", "j2")]
    insert_usage_lines(chdb_client, shared)
    batch = total_of(*shared)._replace(measured_us=QUARTER // 2, unknown_us=QUARTER // 2)
    insert_device_totals(chdb_client, [batch, total_of(time_line())])
    insert_cost_rows(chdb_client, [cost_row(time_line(), "compute", None), cost_row(time_line(), "billed", None)])
    (found,) = run(chdb_client, "coverage")
    assert (found["measured_ratio"], found["unpriced_rows"], found["unbilled_rows"]) == (Decimal("0.5"), 1, 1)


@pytest.mark.chdb
def test_row_counts_count_a_row_once(ledger_client: Client) -> None:
    insert_usage_lines(ledger_client, LEDGER.lines[:7])
    (found,) = run(ledger_client, "row_counts")
    assert found["usage_lines"] == len(LEDGER.lines)
    assert found["cost_rows"] == len(LEDGER.cost_rows)
    for what, rows in (("line", LEDGER.lines), ("cost", LEDGER.cost_rows)):
        for entry in ("reversal", "correction"):
            assert found[f"{what}_{entry}s"] == sum(row.entry == entry for row in rows)


@pytest.mark.chdb
def test_what_has_no_price_is_named_with_its_reason(chdb_client: Client) -> None:
    insert_cost_rows(
        chdb_client, [cost_row(time_line(), "compute", None), cost_row(energy_line(energy_uj=None), "energy", "1")]
    )
    found = {(row["status"], row["component"], row["standing_rows"]) for row in run(chdb_client, "unpriced")}
    assert found == {("unpriced", "compute", 1), ("unmeasured", "energy", 1)}


def by_tenant_and_plan(use: Use) -> tuple[str, str, str]:
    return (use.tenant, "", use.plan)


def judged(lines: Iterable[Line], rows: Iterable[CostRow]) -> list[Verdict]:
    return judge(*figures(lines, rows), VerdictPolicy(), by_tenant_and_plan)


def same_verdicts(client: Client, expected: list[Verdict]) -> None:
    found = {(row["tenant_id"], row["plan"]): row for row in run(client, "who_is_below_which_floor")}
    assert set(found) == {(verdict.tenant, verdict.plan) for verdict in expected}
    for verdict in expected:
        row = found[verdict.tenant, verdict.plan]
        assert row["verdict"] == verdict.verdict
        assert row["below_cost"] == verdict.below_cost
        assert row["held_us"] == verdict.held_us
        assert verdict.unpriced_rows or row["billed_us"] == verdict.billable_us
        assert (row["billed"], row["marginal_floor"], row["own_cost"]) == (
            verdict.billed, verdict.marginal_floor, verdict.own_cost,
        )  # fmt: skip
        assert abs(row["full_floor"] - verdict.full_floor) <= Decimal("1e-11")


@pytest.mark.chdb
def test_the_floors_of_a_ledger_are_those_of_the_core(ledger_client: Client) -> None:
    same_verdicts(ledger_client, judged(LEDGER.lines, LEDGER.cost_rows))


@pytest.mark.chdb
def test_each_of_the_five_verdicts_is_that_of_the_core(chdb_client: Client) -> None:
    """A quarter-hour costs 0.915, 0.015 of it in cash; idle of 0.9 is shared by five: 0.18 each."""
    rates = {"cash": "0.04", "capital": "1", "idle": "4", "good": "40", "none": None}
    free = time_line("", state="free", tenant="__idle__", device="GPU-9")
    lines, rows = [free], [cost_row(free, "compute", "3.6")]
    for name, rate in rates.items():
        time, energy = time_line(name, device=name), energy_line(name, device=name)
        lines += [time, energy]
        rows += [
            cost_row(time, "compute", "3.6"),
            cost_row(time, "billed", rate),
            cost_row(energy, "energy", "0.4", "1.5"),
        ]
    insert_usage_lines(chdb_client, lines)
    insert_cost_rows(chdb_client, rows)
    refresh(chdb_client)
    expected = judged(lines, rows)
    assert {verdict.verdict for verdict in expected} == set(VERDICTS)
    same_verdicts(chdb_client, expected)
