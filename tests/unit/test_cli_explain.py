"""`wattledger explain`: sums of what is shown end in exactly the figures of the report, and each product is right."""

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from wattledger_audit.command_explain import explain_command

from tests.audit_runner import USAGE_HEADER, audit_texts
from tests.unit.audit_files import BILLING, COSTS, PERIOD, USAGE, run, write

IDLE = ("weighted", "even", "separate", "normal(0.8)")
TENANTS = ("acme", "bravo", "Carolus", "delphi", "Echo Labs")
ROUNDING = Decimal("1e-11")


def explained(folder: Path, name: str, *more: str, **texts: str) -> Any:
    files = write(folder, **texts) if texts else write(folder, usage=USAGE, billing=BILLING, costs=COSTS)
    done = run(explain_command, name, *files, "--period", PERIOD, "--json", *more)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def amounts(groups: list[Any], field: str = "cost") -> Decimal:
    return sum((Decimal(each[field]) for each in groups if each[field] is not None), Decimal(0))


@pytest.mark.parametrize("idle", IDLE)
@pytest.mark.parametrize("tenant", TENANTS)
def test_sums_of_what_is_shown_are_the_figures_of_the_report(tmp_path: Path, tenant: str, idle: str) -> None:
    texts = {"usage": USAGE, "billing": BILLING, "costs": COSTS.replace("idle: weighted", f"idle: {idle}")}
    found = explained(tmp_path, tenant, **texts)
    names = {"usage": "usage.csv", "billing": "billing.csv", "costs": "costs.yaml"}
    report = audit_texts(tmp_path / "audit", {names[name]: text for name, text in texts.items()}, PERIOD).report
    rows = {(row.tenant, row.plan): row for row in report.tenants if row.tenant == tenant}
    assert {(row["tenant"], row["plan"]) for row in found["rows"]} == set(rows)
    for row in found["rows"]:
        figures = {each["name"]: each["value"] for each in row["figures"]}
        expected = rows[row["tenant"], row["plan"]]
        known = (14 if expected.energy_kwh is None else 16) - (expected.billed_gpu_hours is None)
        assert len(figures) == known
        for name, value in figures.items():
            assert value == getattr(expected, name), name
        assert amounts(row["priced"]) + amounts(row["spread"]) == Decimal(expected.cost_own or 0)
        assert amounts(row["idle"], "share") == Decimal(expected.idle_share or 0)
        assert amounts(row["billed"], "counted") == Decimal(expected.billed or 0)
        held = sum(Decimal(each["gpu_hours"]) for each in row["runs"] if each["payer"] == tenant)
        assert abs(held - Decimal(expected.gpu_hours)) < Decimal("0.00001")
        for pool in row["idle"]:
            assert amounts(pool["priced"]) + amounts(pool["spread"]) == Decimal(pool["idle_cost"])


def test_every_group_is_its_quantity_times_its_rate(tmp_path: Path) -> None:
    for tenant in TENANTS[:4]:
        for row in explained(tmp_path, tenant)["rows"]:
            assert row["priced"]
            for group in (*row["priced"], *(each for pool in row["idle"] for each in pool["priced"])):
                product = Fraction(group["quantity_exact"]) * Fraction(group["rate"]) * Fraction(group["pue"] or "1")
                assert abs(product - Fraction(group["cost"])) < Fraction(ROUNDING)
                assert abs(Decimal(group["rounding"])) < ROUNDING
                assert group["where"].startswith("costs.yaml line ")
                assert sum(Decimal(each["cost"]) for each in group["prices"]) == Decimal(group["cost"])


def test_every_part_of_an_amount_is_its_share_of_the_driver(tmp_path: Path) -> None:
    seen = set()
    for tenant in TENANTS[:4]:
        for row in explained(tmp_path, tenant)["rows"]:
            for part in row["spread"]:
                seen.add((part["component"], part["driver"]))
                share = Fraction(part["weight"]) / Fraction(part["whole_weight"])
                assert abs(Fraction(part["inside"]) * share - Fraction(part["cost"])) < Fraction(1, 10_000)
                assert part["formula"].endswith(f" = {part['cost']} EUR")
    assert seen == {
        ("compute", "installed_gpu_h"), ("pool:fabric", "installed_gpu_h"), ("pool:racks", "node_h"),
        ("pool:demand", "committed_kw"), ("pool:cooling", "kwh"), ("pool:support", "held_gpu_h"),
    }  # fmt: skip


def test_an_amount_for_longer_than_the_period_counts_by_the_time_inside(tmp_path: Path) -> None:
    """Racks: 707.77 from 15 September to 15 November, 61 days and an hour (1465 h), of which October has 745 h."""
    racks = next(
        part for part in explained(tmp_path, "bravo")["rows"][0]["spread"] if part["component"] == "pool:racks"
    )
    assert Decimal(racks["inside"]) == round(Decimal("707.77") * 745 / 1465, 12)
    assert "of 707.77 for 1465 h" in racks["formula"]


def test_a_rate_that_changes_makes_two_groups_with_their_periods(tmp_path: Path) -> None:
    row = explained(tmp_path, "bravo")["rows"][0]
    compute = [group for group in row["priced"] if group["component"] == "compute"]
    # Berlin's 16th starts at 22:00 UTC on the 15th: 93 h 40 min before, 158 h after, on 4 GPUs
    assert [(group["rate"], group["quantity"]) for group in compute] == [("1.37", "632.000000"), ("1.51", "374.666667")]
    assert compute[1]["quantity_exact"] == "1124/3"
    assert "1124/3 GPU-hours × 1.51 = " in compute[1]["formula"]
    assert [period["end"] for period in compute[1]["prices"]] == ["2026-10-16T00:00:00+02:00"]
    assert compute[1]["where"] == "costs.yaml line 7"


def test_invoice_lines_stand_with_their_place_and_why_one_does_not_count(tmp_path: Path) -> None:
    found = explained(tmp_path, "bravo")
    lines = {line["where"]: line for line in found["rows"][0]["billed"]}
    assert set(lines) == {"billing.csv:5", "billing.csv:6"}
    assert lines["billing.csv:6"]["note"] == "prorated to the period"
    assert Decimal(lines["billing.csv:6"]["counted"]) < Decimal(lines["billing.csv:6"]["amount"])
    assert [(line["where"], line["note"]) for line in found["not_counted"]] == [
        ("billing.csv:7", "its service period lies outside the audited one")
    ]


def test_a_tenant_with_sold_and_internal_use_has_a_row_for_each(tmp_path: Path) -> None:
    rows = {row["plan"]: row for row in explained(tmp_path, "acme")["rows"]}
    assert set(rows) == {"", "internal"}
    assert [run_["job"] for run_ in rows["internal"]["runs"]] == ["j7"]
    assert sorted(run_["job"] for run_ in rows[""]["runs"]) == ["j1", "j5"]
    lines: list[Any] = [line for row in rows.values() for line in row["billed"]]
    both = amounts(lines, "counted")
    assert both == Decimal("3800.00") - Decimal("33.33") + 1


NERC = USAGE_HEADER + "j,0,a,,n1,,H100,1,1,1,2025-05-31T22:00:00Z,2025-06-01T03:00:00Z,COMPLETED,,\n"
NERC_COSTS = """\
currency: USD
timezone: UTC
fleet: [{node: n1, gpu_model: H100, gpus: 1}]
compute:
  - {gpu_model: H100, per_gpu_hour: 6.04, from: 2023-06-01, to: 2025-06-01}
  - {gpu_model: H100, per_gpu_hour: 4, from: 2025-06-01}
tenants:
  - name: a
    contract:
      - {gpu_model: H100, per_gpu_hour: 6.04, to: 2025-06-01}
      - {gpu_model: H100, per_gpu_hour: 4, from: 2025-06-01}
"""


def test_a_job_that_crosses_a_price_change_has_two_lines_with_two_rates(tmp_path: Path) -> None:
    files = write(tmp_path, usage=NERC, costs=NERC_COSTS)
    done = run(explain_command, "j", *files, "--period", "2025-05-01..2025-07-01", "--json")
    found = json.loads(done.stdout)
    assert [(line["start"], line["end"], line["quantity"], line["rate"], line["cost"]) for line in found["priced"]] == [
        ("2025-05-01T00:00:00+00:00", "2025-06-01T00:00:00+00:00", "2.000000", "6.04", "12.08"),
        ("2025-06-01T00:00:00+00:00", "2025-07-01T00:00:00+00:00", "3.000000", "4.00", "12.00"),
    ]
    assert {each["name"]: each["value"] for each in found["costs"]} == {"compute": "24.08", "cost": "24.08"}
    assert [(each["rate"], each["amount"], each["basis"]) for each in found["worth"]] == [
        ("6.04", "12.08", "contract"), ("4.00", "12.00", "contract"),
    ]  # fmt: skip
    text = run(explain_command, "j", *files, "--period", "2025-05-01..2025-07-01").stdout
    assert "2 GPU-hours × 6.04 = 12.08 USD" in text
    assert "3 GPU-hours × 4.00 = 12.00 USD" in text


def test_the_jobs_of_a_tenant_cost_what_the_tenant_costs(tmp_path: Path) -> None:
    rows = explained(tmp_path, "acme")["rows"]
    tenant: Decimal = amounts([group for row in rows for group in (*row["priced"], *row["spread"])])
    jobs = [explained(tmp_path, job) for job in ("j1", "j5", "j7")]
    cost: Decimal = amounts([group for job in jobs for group in (*job["priced"], *job["spread"])])
    assert abs(tenant - cost) < Decimal("1e-9")
    for job in jobs:
        total = next(each["value"] for each in job["costs"] if each["name"] == "cost")
        assert Decimal(total) == amounts(job["priced"]) + amounts(job["spread"])


def test_a_job_of_a_failed_node_is_paid_by_the_provider(tmp_path: Path) -> None:
    found = explained(tmp_path, "j3")
    (held,) = found["runs"]
    assert (held["payer"], held["where"], held["nodes"], held["state"]) == (
        "the provider",
        "usage.csv:4",
        "n2",
        "NODE_FAIL",
    )
    assert "NODE_FAIL" in held["why"]
    assert {group["state"] for group in found["priced"]} == {"unavailable"}
    assert found["worth"] == []
    assert found["gpu_hours"] == "1008.000000"


def test_a_job_id_of_two_clusters_is_named_with_its_cluster(tmp_path: Path) -> None:
    header = "job_id,cluster,tenant,node,gpu_model,gpus,start,end\n"
    usage = header + "".join(
        f"7,{cluster},t,{cluster}1,H100,{gpus},2026-10-01T00:00:00Z,2026-10-01T01:00:00Z\n"
        for cluster, gpus in (("east", 1), ("west", 2))
    )
    (path,) = write(tmp_path, usage=usage)
    refused = run(explain_command, "7", path)
    assert refused.exit_code == 2
    assert "east/7, west/7" in refused.output
    done = run(explain_command, "west/7", path, "--per-gpu-hour", "2.5", "--json")
    found = json.loads(done.stdout)
    assert (found["cluster"], found["gpu_hours"], found["priced"][0]["cost"]) == ("west", "2.000000", "5.00")
    assert found["priced"][0]["where"] == "--per-gpu-hour"


def test_without_costs_there_is_usage_and_billing_and_no_cost(tmp_path: Path) -> None:
    found = explained(tmp_path, "bravo", usage=USAGE, billing=BILLING)
    (row,) = found["rows"]
    assert (row["priced"], row["spread"], row["idle"]) == ([], [], [])
    assert {each["name"] for each in row["figures"]} == {
        "gpu_hours", "billable_gpu_hours", "billed", "billed_gpu_hours", "effective_rate_per_gpu_hour",
    }  # fmt: skip


def test_an_unknown_name_is_a_usage_error_that_gives_near_ones(tmp_path: Path) -> None:
    files = write(tmp_path, usage=USAGE)
    done = run(explain_command, "brvo", *files)
    assert done.exit_code == 2
    assert "did you mean 'bravo'" in done.output


def test_a_name_that_is_both_is_the_tenant_unless_it_is_said(tmp_path: Path) -> None:
    (path,) = write(tmp_path, usage=USAGE.replace("j4,", "bravo,"))
    both = run(explain_command, "bravo", path, "--json")
    assert json.loads(both.stdout)["kind"] == "tenant"
    assert "--as job" in both.stderr
    assert json.loads(run(explain_command, "bravo", path, "--json", "--as", "job").stdout)["tenants"] == ["Carolus"]
    assert run(explain_command, "bravo", path, "--as", "node").exit_code == 2


def test_names_are_shown_as_they_are_and_can_not_steer_the_terminal(tmp_path: Path) -> None:
    evil = "[red]\x1b[2Jx"
    (path,) = write(tmp_path, usage=USAGE.replace("vision", evil).replace("j1,", f"{evil},"))
    text = run(explain_command, "acme", path).stdout
    assert "\x1b" not in text
    assert "[red]" in text


@pytest.mark.parametrize(("name", "jobs"), [("938", {"938+0", "938_4"}), ("938+0", {"938+0"}), ("exp2", {"exp2"})])
def test_a_leader_s_id_is_all_its_components_and_tasks(tmp_path: Path, name: str, jobs: set[str]) -> None:
    line = "{},0,a,,n1,,H100,1,1,1,2026-10-01T0{}:00:00Z,2026-10-01T0{}:30:00Z,COMPLETED,,\n"
    names = ("938+0", "938_4", "exp2", "exp2_3")
    usage = USAGE_HEADER + "".join(line.format(job, n, n) for n, job in enumerate(names))
    found = explained(tmp_path, name, usage=usage, costs=NERC_COSTS)
    assert {each["job"] for each in found["runs"]} == jobs
