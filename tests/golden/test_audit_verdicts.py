"""Floors, shares of idle and verdicts, worked by hand from ACCOUNTING.md, "Two floors, five verdicts".

One machine of 4 GPUs at 1 per GPU-hour, a day of 24 hours: 96. Tenant `a` holds 36 GPU-hours, `b` 12; 48 are free.
A held GPU draws 1 kW at 0.50 per kWh, a free one nothing: the marginal floor of `a` is 18, its own cost 54.
"""

from decimal import Decimal
from pathlib import Path

import pytest
from wattledger_audit.audit_run import Audited
from wattledger_audit.report.model import Figures
from wattledger_core.verdict import COVERS_CASH, DEPENDS, HEALTHY, INSUFFICIENT, LOSES_CASH

from tests.audit_cases import DAY, bill, billing, costs, fleet, idle_costs, machine, row_of, run, usage
from tests.audit_runner import audit_texts, tenant_row, unexplained

LOG = usage(run("j", "a", 0, 18, 2), run("k", "b", 0, 12))
ENERGY = "energy: {pue: 1, default_per_kwh: 0.50}\npower: [{busy_w: 1000, idle_w: 0}]"
PRICES = "target_margin: 20%\nprice_step: 0.05"


def audit(
    folder: Path, *lines: dict[str, str], said: str = ENERGY, more: str = PRICES, log: str = LOG, machines: str = ""
) -> Audited:
    """The audit of the day, with these billed lines."""
    files = {"u.csv": log, "f.csv": machines or fleet(machine(gpus=4)), "c.yaml": costs(said, more)}
    return audit_texts(folder, files | {"b.csv": billing(*lines)}, DAY)


def figures(audited: Audited, tenant: str) -> dict[str, Figures]:
    return tenant_row(audited, tenant).by_policy


def test_idle_is_shared_by_the_chosen_rule(tmp_path: Path) -> None:
    """48 idle. Weighted by 36 : 12. Even: 24 each. Normal 80 %: a fifth of 96 is 19.2 of the 48, shared 36 : 12."""
    audited = audit(tmp_path, bill("a", "H100", "36", "90"), bill("b", "H100", "12", "30"))
    shares = {
        policy: [Decimal(figures(audited, tenant)[policy].idle_share or 0) for tenant in ("a", "b")]
        for policy in ("apart", "weighted", "even", "normal")
    }
    assert shares == {
        "apart": [0, 0], "weighted": [36, 12], "even": [24, 24], "normal": [Decimal("14.4"), Decimal("4.8")],
    }  # fmt: skip
    assert tenant_row(audited, "a").cost_own == "54.00"
    assert tenant_row(audited, "a").marginal_floor == "18.00"
    assert unexplained(audited) == []


def test_another_normal_utilisation(tmp_path: Path) -> None:
    """Normal 60 %: 40 % of 96 is 38.4 of the 48: 28.8 and 9.6. Normal 40 %: 57.6 is more than there is: all 48."""
    lines = (bill("a", "H100", "36", "90"), bill("b", "H100", "12", "30"))
    at_60 = audit(tmp_path / "60", *lines, more="idle: normal(0.6)")
    at_40 = audit(tmp_path / "40", *lines, more="idle: normal(0.4)")
    assert [figures(at_60, name)["normal"].idle_share for name in ("a", "b")] == ["28.80", "9.60"]
    assert [figures(at_40, name)["normal"].idle_share for name in ("a", "b")] == ["36.00", "12.00"]
    assert tenant_row(at_60, "a").idle_share == "28.80"


@pytest.mark.parametrize(
    ("billed", "verdict", "margin"),
    [
        # below 18 it does not pay its power
        ("17.99", LOSES_CASH, "-72.01"),
        ("18", COVERS_CASH, "-72.00"),
        ("53.99", COVERS_CASH, "-36.01"),
        # 54 of its own; 90 with the weighted share, which is the largest of a's
        ("54", DEPENDS, "-36.00"),
        ("89.99", DEPENDS, "-0.01"),
        ("90", HEALTHY, "0.00"),
        ("100", HEALTHY, "10.00"),
    ],
)
def test_the_verdict_at_each_floor(billed: str, verdict: str, margin: str, tmp_path: Path) -> None:
    row = tenant_row(audit(tmp_path, bill("a", "H100", "36", billed), bill("b", "H100", "12", "90")), "a")
    assert (row.verdict, row.margin, row.below_cost) == (verdict, margin, Decimal(margin) < 0)


def test_a_small_tenant_is_healthy_only_if_even_shares_are_covered_too(tmp_path: Path) -> None:
    """b: own 12 + 6 = 18; weighted 30, even 42. At 41 an even share would not be covered: it depends."""
    for billed, verdict in (("41.99", DEPENDS), ("42", HEALTHY)):
        row = tenant_row(audit(tmp_path / billed, bill("a", "H100", "36", "99"), bill("b", "H100", "12", billed)), "b")
        assert (row.verdict, Decimal(row.margin or 0)) == (verdict, Decimal(billed) - 30)


def test_break_even_and_the_suggested_price(tmp_path: Path) -> None:
    """a: (54 + 36) ÷ 36 = 2.50; ÷ 0.8 = 3.125, up to 0.05: 3.15. Apart: 1.50, 1.875, 1.90."""
    row = tenant_row(audit(tmp_path, bill("a", "H100", "36", "40")), "a")
    assert (row.break_even_per_gpu_hour, row.suggested_price_per_gpu_hour) == ("2.50", "3.15")
    apart = row.by_policy["apart"]
    assert (apart.break_even_per_gpu_hour, apart.suggested_price_per_gpu_hour) == ("1.50", "1.90")
    # normal: 54 + 14.4 = 68.4 ÷ 36 = 1.90; ÷ 0.8 = 2.375: 2.40
    normal = row.by_policy["normal"]
    assert (normal.break_even_per_gpu_hour, normal.suggested_price_per_gpu_hour) == ("1.90", "2.40")


def test_break_even_is_over_what_is_billable_and_not_over_what_was_held(tmp_path: Path) -> None:
    """One exclusive GPU for 6 h on the machine of 4: own 24 + 3 of power, 6 billable hours: 4.50 each."""
    audited = audit(tmp_path, bill("a", "H100", "6", "40"), log=usage(run("j", "a", 0, 6, exclusive="yes")))
    row = tenant_row(audited, "a")
    assert (row.cost_own, row.billable_gpu_hours) == ("27.00", "6.000000")
    assert row.by_policy["apart"].break_even_per_gpu_hour == "4.50"


def test_what_was_billed_without_usage_has_no_price_and_says_why(tmp_path: Path) -> None:
    row = tenant_row(audit(tmp_path, bill("z", "H100", "10", "20")), "z")
    assert row.break_even_per_gpu_hour is None
    assert row.break_even_reason == "no billable quantity"
    assert (row.margin, row.verdict) == ("20.00", "insufficient data")
    assert row.reason == "no usage goes with what was billed"


def test_a_credit_without_a_product_is_the_tenants_as_a_whole(tmp_path: Path) -> None:
    audited = audit(tmp_path, bill("a", "H100", "36", "90"), bill("a", "SLA credit", "", "-1", ""))
    assert tenant_row(audited, "a").billed == "89.00"
    assert (row_of(audited.report.skus, "a").billed, tenant_row(audited, "a").verdict) == ("89.00", DEPENDS)


def test_idle_of_one_model_never_loads_tenants_of_another(tmp_path: Path) -> None:
    """A100s stand idle all day (48), nobody has any: they stay apart. b on H100 bears H100s only."""
    machines = fleet(machine(gpus=2), machine("n2", 2, "A100"))
    log = usage(run("j", "b", 0, 24))
    audited = audit(tmp_path, bill("b", "H100", "24", "99"), log=log, machines=machines)
    assert idle_costs(audited) == {"n1": Decimal(24), "n2": Decimal(48)}
    assert tenant_row(audited, "b").idle_share == "24.00"


def test_idle_of_one_site_never_loads_tenants_of_another(tmp_path: Path) -> None:
    machines = fleet(machine(gpus=2, site="fra"), machine("n2", 2, site="ams"))
    log = usage(run("j", "b", 0, 24), run("k", "c", 0, 12, node="n2"))
    audited = audit(tmp_path, bill("b", "H100", "24", "99"), log=log, machines=machines)
    assert (tenant_row(audited, "b").idle_share, tenant_row(audited, "c").idle_share) == ("24.00", "36.00")


def test_a_model_without_a_price_leaves_its_tenants_without_a_verdict(tmp_path: Path) -> None:
    machines = fleet(machine(gpus=2), machine("n2", 2, "A100"))
    log = usage(run("j", "a", 0, 24), run("k", "b", 0, 24, node="n2", gpu_model="A100"))
    said = "compute: [{gpu_model: H100, per_gpu_hour: 1}]"
    lines = (bill("a", "H100", "24", "99"), bill("b", "A100", "24", "99"))
    audited = audit(tmp_path, *lines, said=said, log=log, machines=machines)
    row = tenant_row(audited, "b")
    assert (row.verdict, row.break_even_per_gpu_hour, row.below_cost) == (INSUFFICIENT, None, False)
    assert "no price" in row.reason
    assert row.unpriced_rows == 1
    assert tenant_row(audited, "a").verdict == HEALTHY


def test_energy_that_nobody_knows_is_no_energy_of_zero(tmp_path: Path) -> None:
    """A tariff, and neither telemetry nor a power model: no energy, no verdict, not a marginal floor of nothing."""
    audited = audit(tmp_path, bill("a", "H100", "36", "99"), said="energy: {pue: 1, default_per_kwh: 0.50}")
    row = tenant_row(audited, "a")
    assert (row.energy_kwh, row.cost_energy, row.energy_depth, row.verdict) == (None, None, "unknown", INSUFFICIENT)
    assert "energy" in row.reason
    assert audited.report.coverage.unknown_energy_ratio == "1.0000"


def test_without_a_tariff_energy_is_part_of_the_rate(tmp_path: Path) -> None:
    audited = audit(tmp_path, bill("a", "H100", "36", "72"), said="")
    assert tenant_row(audited, "a").verdict == HEALTHY


def test_a_power_model_of_one_model_says_nothing_of_another(tmp_path: Path) -> None:
    machines = fleet(machine(gpus=2), machine("n2", 2, "A100"))
    log = usage(run("j", "a", 0, 24), run("k", "b", 0, 24, node="n2", gpu_model="A100"))
    said = "energy: {pue: 1, default_per_kwh: 0.50}\npower: [{gpu_model: H100, busy_w: 1000, idle_w: 0}]"
    lines = (bill("a", "H100", "24", "99"), bill("b", "A100", "24", "99"))
    audited = audit(tmp_path, *lines, said=said, log=log, machines=machines)
    assert (tenant_row(audited, "a").energy_kwh, tenant_row(audited, "a").verdict) == ("24.000000", HEALTHY)
    assert (tenant_row(audited, "b").energy_kwh, tenant_row(audited, "b").verdict) == (None, INSUFFICIENT)


def test_a_pool_paid_per_use_is_in_the_marginal_floor_and_a_fixed_one_is_not(tmp_path: Path) -> None:
    """Fabric 48 by held hours (36 : 12), paid per use; support 96 by installed hours, fixed: 36 + 12 + 48 of idle."""
    pools = (
        "pools:\n  - {name: fabric, amount: 48, driver: held_gpu_h, marginal: true, service_from: 2026-02-10, "
        "service_to: 2026-02-11}\n  - {name: support, amount: 96, driver: installed_gpu_h, service_from: 2026-02-10, "
        "service_to: 2026-02-11}"
    )
    audited = audit(tmp_path, bill("a", "H100", "36", "99"), said=pools)
    row = tenant_row(audited, "a")
    assert (row.marginal_floor, row.cost_pools, row.cost_own) == ("36.00", "72.00", "108.00")
    assert idle_costs(audited) == {"n1": Decimal(96)}
    assert unexplained(audited) == []


def test_margins_of_all_rows_and_what_nobody_bears_are_the_fleets_margin(tmp_path: Path) -> None:
    """Billed 90 + 30; cost: 96 of machines + 48 kWh × 0.50 = 120: the margin of the fleet is 0."""
    audited = audit(tmp_path, bill("a", "H100", "36", "90"), bill("b", "H100", "12", "30"))
    steps = {step.step: Decimal(step.amount or 0) for step in audited.report.bridge}
    names = ("billed", "cost_of_use", "cost_of_the_rest", "margin")
    assert [steps[name] for name in names] == [120, -72, -48, 0]
    weighted = [Decimal(row.by_policy["weighted"].margin or 0) for row in audited.report.tenants]
    assert sorted(weighted) == [0, 0]


def test_one_rate_per_gpu_hour_gives_a_first_margin(tmp_path: Path) -> None:
    """--per-gpu-hour 1.50: a costs 36 × 1.50 = 54; of 48 idle hours it bears 36: 54 more; 60 is billed."""
    files = {"u.csv": LOG, "f.csv": fleet(machine(gpus=4)), "b.csv": billing(bill("a", "H100", "36", "60"))}
    row = tenant_row(audit_texts(tmp_path, files, DAY, per_gpu_hour="1.50"), "a")
    assert (row.cost_own, row.idle_share, row.margin, row.verdict) == ("54.00", "54.00", "-48.00", DEPENDS)


def test_without_costs_there_is_no_margin_and_the_reason_says_so(tmp_path: Path) -> None:
    files = {"u.csv": LOG, "b.csv": billing(bill("a", "H100", "36", "60"))}
    row = tenant_row(audit_texts(tmp_path, files, DAY), "a")
    assert (row.cost_own, row.margin, row.verdict) == (None, None, INSUFFICIENT)
    assert "--costs" in row.reason
