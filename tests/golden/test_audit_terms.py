"""What a contract bills of what was held: rates by SKU, plan and time, increments, minimums, cut-off rules, bearers.

Cases worked by hand. The day has 24 hours, UTC.
"""

from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.audit_cases import DAY, at, bill, billing, costs, fleet, hours, machine, reservations, row_of, run, usage
from tests.audit_runner import audit_texts, bridge_amounts, tenant_row, unexplained


class Billed(NamedTuple):
    """Runs of tenant `a` under some terms, and what they are billable for."""

    name: str
    terms: str
    runs: list[dict[str, str]]
    held: str
    billable: str


MINUTE = 1 / 60
BILLED = [
    Billed("plain", "", [run("j", "a", 0, 10, 2)], "20", "20"),
    # 10 min of 4 GPUs and 61 min of one, each rounded up to the hour: 4 + 2
    Billed(
        "rounded up to the hour, run by run", "increment: 1h",
        [run("j", "a", 0, 10 * MINUTE, 4), run("k", "a", 2, 2 + 61 * MINUTE)], "1.683333", "6",
    ),
    # no run below 30 min: 10 min of 2 GPUs counts 1; 40 min of one counts as it is
    Billed(
        "a minimum of half an hour", "minimum: 30m",
        [run("j", "a", 0, 10 * MINUTE, 2), run("k", "a", 2, 2 + 40 * MINUTE)], "1", "1.666667",
    ),
    # the minimum first, then the step: max(10, 25) = 25 min, up to 60: 1 h each
    Billed(
        "a minimum and an increment", "minimum: 25m, increment: 1h",
        [run("j", "a", 0, 10 * MINUTE), run("k", "a", 2, 3)], "1.166667", "2",
    ),
    # exactly one increment stays one
    Billed("a whole increment is not rounded up", "increment: 1h", [run("j", "a", 0, 1, 3)], "3", "3"),
    # it started 5 h before the day: overlap bills the 3 inside, end bills all 8
    Billed("a run into the day, by overlap", "billed_by: overlap", [run("j", "a", -5, 3)], "3", "3"),
    Billed("a run into the day, by its end", "billed_by: end", [run("j", "a", -5, 3)], "3", "8"),
    Billed("a run out of the day, by overlap", "billed_by: overlap", [run("j", "a", 22, 30)], "2", "2"),
    Billed("a run out of the day, by its end", "billed_by: end", [run("j", "a", 22, 30)], "2", "0"),
    Billed("a run that is open, by its end", "billed_by: end", [run("j", "a", 22, None, state="RUNNING")], "2", "0"),
    # it ends at the first moment after the day: still this day's
    Billed("a run to the day's last moment, by its end", "billed_by: end", [run("j", "a", 20, 24)], "4", "4"),
    # 2:30 before the day and 0:15 in it, up to the hour: 3 h, of which 2:30 are the day before's by overlap
    Billed(
        "an increment of a run into the day, by overlap", "increment: 1h", [run("j", "a", -2.5, 0.25)], "0.25", "0.5",
    ),
    Billed(
        "an increment of a run into the day, by its end", "increment: 1h, billed_by: end",
        [run("j", "a", -2.5, 0.25)], "0.25", "3",
    ),
    # suspended time is not billed: 2 h less 30 min, up to the hour
    Billed(
        "an increment over what was not suspended", "increment: 1h",
        [run("j", "a", 0, 2, suspended_s="1800")], "1.5", "2",
    ),
    # the provider's failure bills nothing, and is not rounded up either
    Billed(
        "a failed node bills no increment", "increment: 1h",
        [run("j", "a", 0, 10 * MINUTE, state="NODE_FAIL"), run("k", "a", 2, 3)], "1", "1",
    ),
    Billed(
        "a failed node that the tenant bears", "bearer: {NODE_FAIL: tenant}",
        [run("j", "a", 0, 1, state="NODE_FAIL")], "1", "1",
    ),
    Billed(
        "a time-out that the provider bears", "bearer: {TIMEOUT: provider}",
        [run("j", "a", 0, 1, state="TIMEOUT"), run("k", "a", 2, 4)], "2", "2",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", BILLED, ids=[case.name for case in BILLED])
def test_what_is_billable(case: Billed, tmp_path: Path) -> None:
    terms = f", {case.terms}" if case.terms else ""
    files = {
        "u.csv": usage(*case.runs), "f.csv": fleet(machine()),
        "c.yaml": costs(f"tenants: [{{name: a, contract: 3{terms}}}]"),
    }  # fmt: skip
    audited = audit_texts(tmp_path, files, DAY)
    row = tenant_row(audited, "a")
    assert Decimal(row.gpu_hours) == Decimal(case.held)
    assert Decimal(row.billable_gpu_hours) == Decimal(case.billable)
    assert unexplained(audited) == []


def test_an_increment_counts_where_the_run_was(tmp_path: Path) -> None:
    """Two sites, two prices of one tenant: 10 min at each, up to the hour; H100 at 5, A100 at 2: 7 in all."""
    log = usage(run("j", "a", 0, 10 * MINUTE), run("k", "a", 0, 10 * MINUTE, node="n2", gpu_model="A100", sku="gpu"),
                run("l", "a", 1, 1 + 10 * MINUTE, sku="gpu"))  # fmt: skip
    said = costs(
        "tenants: [{name: a, increment: 1h, contract: [{gpu_model: H100, per_gpu_hour: 5}, "
        "{gpu_model: A100, per_gpu_hour: 2}]}]"
    )
    files = {
        "u.csv": log, "c.yaml": said, "b.csv": billing(bill("z", "H100", "1", "5")),
        "f.csv": fleet(machine(site="fra"), machine("n2", 8, "A100", site="ams")),
    }  # fmt: skip
    audited = audit_texts(tmp_path, files, DAY)
    assert bridge_amounts(audited)["contract_x_measured"] == 12
    assert bridge_amounts(audited)["unbilled_usage"] == -12


CONTRACTS = [
    # which entries there are, and what 10 h on demand from 6 to 16 come to
    ("one rate for everything", "3", "30"),
    ("the SKU beats the model", "[{per_gpu_hour: 9, gpu_model: H100}, {per_gpu_hour: 2, sku: H100 on-demand}]", "20"),
    ("the model beats the plan", "[{per_gpu_hour: 9, plan: on_demand}, {per_gpu_hour: 2, gpu_model: H100}]", "20"),
    ("the plan beats nothing said", "[{per_gpu_hour: 9}, {per_gpu_hour: 2, plan: on_demand}]", "20"),
    ("another plan's rate is not its own", "[{per_gpu_hour: 4}, {per_gpu_hour: 2, plan: spot}]", "40"),
    ("another model's rate is not its own", "[{per_gpu_hour: 4}, {per_gpu_hour: 2, gpu_model: H200}]", "40"),
    # 4 h at 2 until 10:00, 6 h at 3 after it
    ("a rate that changes at ten",
     "[{per_gpu_hour: 2, to: 2026-02-10T10:00}, {per_gpu_hour: 3, from: 2026-02-10T10:00}]", "26"),
    # a promotion for one hour: 9 h at 3 and 1 h at 1
    ("a narrow rate for an hour", "[{per_gpu_hour: 3}, {per_gpu_hour: 1, plan: on_demand, from: 2026-02-10T07:00, "
     "to: 2026-02-10T08:00}]", "28"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "contract", "expected"), CONTRACTS, ids=[c[0] for c in CONTRACTS])
def test_the_agreed_rate(name: str, contract: str, expected: str, tmp_path: Path) -> None:
    files = {
        "u.csv": usage(run("j", "a", 6, 16)), "f.csv": fleet(machine()),
        "b.csv": billing(bill("a", "H100 on-demand", "10", "25")),
        "c.yaml": costs(f"tenants: [{{name: a, contract: {contract}}}]"),
    }  # fmt: skip
    assert bridge_amounts(audit_texts(tmp_path, files, DAY))["contract_x_measured"] == Decimal(expected)


def test_a_contract_changes_at_midnight_of_the_tenants_zone(tmp_path: Path) -> None:
    """2026-02-11 in Berlin starts at 23:00 UTC of the 10th: 23 h at 2 and 1 h at 3."""
    said = costs(
        "tenants: [{name: a, billing_timezone: Europe/Berlin, contract: [{per_gpu_hour: 2, to: 2026-02-11}, "
        "{per_gpu_hour: 3, from: 2026-02-11}]}]"
    )
    files = {"u.csv": usage(run("j", "a", 0, 24)), "b.csv": billing(bill("a", "H100", "24", "49")), "c.yaml": said}
    assert bridge_amounts(audit_texts(tmp_path, files, DAY))["contract_x_measured"] == 49


def test_plans_of_one_tenant_are_rows_of_their_own(tmp_path: Path) -> None:
    """The log's plan beats the cost file's; internal and trial use is never in the repricing list."""
    log = usage(
        run("j", "a", 0, 1), run("k", "a", 0, 2, plan="spot"), run("l", "a", 0, 3, plan="on-demand"),
        run("m", "a", 0, 4, plan="trial"), run("n", "rnd", 0, 5), run("o", "b", 0, 6),
    )  # fmt: skip
    said = costs("tenants: [{name: a, plan: reserved}, {name: rnd, plan: internal}]")
    files = {"u.csv": log, "f.csv": fleet(machine()), "c.yaml": said, "b.csv": billing(bill("b", "H100", "6", "1"))}
    report = audit_texts(tmp_path, files, DAY).report
    assert {(row.tenant, row.plan): row.gpu_hours for row in report.skus} == {
        ("a", "reserved"): "1.000000", ("a", "spot"): "2.000000", ("a", "on_demand"): "3.000000",
        ("a", "trial"): "4.000000", ("rnd", "internal"): "5.000000", ("b", "on_demand"): "6.000000",
    }  # fmt: skip
    assert {(row.tenant, row.plan) for row in report.tenants} == {
        ("a", ""), ("a", "trial"), ("rnd", "internal"), ("b", ""),
    }  # fmt: skip
    assert not {(row.tenant, row.plan) for row in report.repricing} & {("a", "trial"), ("rnd", "internal")}
    assert row_of(report.skus, "rnd").suggested_price_per_gpu_hour is None


def test_an_invoice_pays_for_what_is_sold_and_not_for_a_trial(tmp_path: Path) -> None:
    log = usage(run("j", "a", 0, 10), run("k", "a", 0, 4, plan="trial"))
    files = {
        "u.csv": log,
        "f.csv": fleet(machine()),
        "c.yaml": costs(),
        "b.csv": billing(bill("a", "H100", "10", "20")),
    }
    audited = audit_texts(tmp_path, files, DAY)
    assert (tenant_row(audited, "a").billed, tenant_row(audited, "a", "trial").billed) == ("20.00", "0.00")


def test_an_internal_tenant_that_is_billed_has_its_bill(tmp_path: Path) -> None:
    files = {
        "u.csv": usage(run("j", "rnd", 0, 10)), "f.csv": fleet(machine()),
        "c.yaml": costs("tenants: [{name: rnd, plan: internal}]"), "b.csv": billing(bill("rnd", "H100", "10", "20")),
    }  # fmt: skip
    audited = audit_texts(tmp_path, files, DAY)
    assert tenant_row(audited, "rnd", "internal").billed == "20.00"
    assert bridge_amounts(audited)["billed"] == 20


def test_reserved_time_is_billable_used_or_not(tmp_path: Path) -> None:
    """8 GPUs for 12 h: 96 billable, of which the holder ran 2 × 6; the bill is for 96 at 2.50."""
    files = {
        "u.csv": usage(run("j", "b", 0, 6, 2)), "r.csv": reservations(("r", "b", "n1", "", 0, 12)),
        "f.csv": fleet(machine()), "c.yaml": costs("tenants: [{name: b, plan: reserved, contract: 2.5}]"),
        "b.csv": billing(bill("b", "H100 reserved", "96", "240", period_end=at(12))),
    }  # fmt: skip
    audited = audit_texts(tmp_path, files, DAY)
    row = tenant_row(audited, "b")
    assert (row.gpu_hours, row.billable_gpu_hours, row.cost_own) == ("12.000000", "96.000000", "96.00")
    assert hours(audited)["reserved_unused"] == 84
    amounts = bridge_amounts(audited)
    assert amounts["contract_x_measured"] == amounts["billed"] == 240
    # 96 of cost over 96 billable hours; the margin of idle time is a matter of policy
    assert row.by_policy["apart"].break_even_per_gpu_hour == "1.00"
