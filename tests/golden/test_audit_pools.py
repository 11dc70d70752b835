"""Pools by every driver, prorated over their service, and the meter's tie-out, worked out by hand."""

from decimal import Decimal
from pathlib import Path

import pytest
from wattledger_audit.audit_run import Audited

from tests.audit_runner import USAGE_HEADER, audit_texts, tenant_row, unexplained

FLEET = (
    "currency: USD\ntimezone: UTC\nfleet:\n  - {node: n1, gpu_model: H100, gpus: 8, site: fra}\n"
    "  - {node: n2, gpu_model: A100, gpus: 4, site: ber}\n"
)
POWER = "power:\n  - {gpu_model: H100, busy_w: 600, idle_w: 60}\n  - {busy_w: 300, idle_w: 30}\n"
ENERGY = "energy: {pue: 1, default_per_kwh: 0}\n"
TWO_HOURS = "2026-10-01T00:00..2026-10-01T02:00"
# a has 4 of 8 GPUs of n1 for one of two hours, b all 4 GPUs of n2 for both
USAGE = USAGE_HEADER + (
    "j1,0,a,,n1,,H100,4,1,1,2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,COMPLETED,,\n"
    "j2,0,b,,n2,,A100,4,1,1,2026-10-01T00:00:00Z,2026-10-01T02:00:00Z,COMPLETED,,\n"
)
HALF_HELD = USAGE_HEADER + "j,0,a,,n1,,H100,4,1,1,2026-10-01T00:00:00Z,2026-10-11T00:00:00Z,COMPLETED,,\n"


def pooled(folder: Path, pool: str, usage: str = USAGE, period: str = TWO_HOURS, more: str = "") -> Audited:
    return audit_texts(folder, {"u.csv": usage, "costs.yaml": f"{FLEET}{more}pools:\n  - {pool}\n"}, period)


def idle_cost(audited: Audited) -> Decimal:
    return sum((Decimal(row.cost or 0) for row in audited.report.idle), Decimal(0))


@pytest.mark.parametrize(
    ("driver", "amount", "borne_by_a", "borne_by_b", "idle"),
    [
        # 4 of 24 GPU-hours, 8 of 24, and 12 that nobody held
        ("installed_gpu_h", 120, "20", "40", "60"),
        # 4 and 8 of 12 held GPU-hours
        ("held_gpu_h", 120, "40", "80", "0"),
        # half a node for an hour of four node-hours; a whole node for two; one and a half free
        ("node_h", 100, "12.5", "50", "37.5"),
        # 4 GPU-h × 600 W, 8 × 300 W, 12 × 60 W: 2.4, 2.4 and 0.72 kWh
        ("kwh", 55.2, "24", "24", "7.2"),
        # 16 H100-hours × 600 W and 8 A100-hours × 300 W are committed, held or not: 12 kW-hours, of which 2.4 and 2.4
        ("committed_kw", 120, "24", "24", "72"),
    ],
)  # fmt: skip
def test_a_pool_is_borne_by_its_driver(
    tmp_path: Path, driver: str, amount: float, borne_by_a: str, borne_by_b: str, idle: str
) -> None:
    service = "service_from: 2026-10-01T00:00, service_to: 2026-10-01T02:00"
    pool = f"{{name: p, amount: {amount}, driver: {driver}, {service}}}"
    audited = pooled(tmp_path, pool, more=POWER + ENERGY)
    assert Decimal(tenant_row(audited, "a").cost_pools or 0) == Decimal(borne_by_a)
    assert Decimal(tenant_row(audited, "b").cost_pools or 0) == Decimal(borne_by_b)
    assert idle_cost(audited) == Decimal(idle)
    tie = next(tie for tie in audited.report.tie_out if tie.name == "cost: pool:p")
    assert (Decimal(tie.left or 0), Decimal(tie.right or 0), tie.residual) == (
        Decimal(str(amount)),
        Decimal(str(amount)),
        "0",
    )
    assert unexplained(audited) == []


@pytest.mark.parametrize(
    ("scope", "borne_by_a", "borne_by_b", "idle"),
    [("{site: fra}", "25", "0", "75"), ("{gpu_model: A100}", "0", "100", "0")],
)
def test_a_pool_with_a_scope_is_borne_inside_it_only(
    tmp_path: Path, scope: str, borne_by_a: str, borne_by_b: str, idle: str
) -> None:
    pool = f"{{name: p, amount: 100, driver: node_h, scope: {scope}}}"
    audited = pooled(tmp_path, pool)
    assert Decimal(tenant_row(audited, "a").cost_pools or 0) == Decimal(borne_by_a)
    assert Decimal(tenant_row(audited, "b").cost_pools or 0) == Decimal(borne_by_b)
    assert idle_cost(audited) == Decimal(idle)


def test_what_no_driver_bears_is_named_and_in_no_figure(tmp_path: Path) -> None:
    audited = pooled(tmp_path, "{name: storage, amount: 31, driver: gb_month}")
    (tie,) = [tie for tie in audited.report.tie_out if tie.name.startswith("unborne")]
    assert (tie.name, tie.left, tie.right, tie.residual) == ("unborne: pool:storage", "31.00", "0.00", "31.00")
    assert tie.named == "nothing in the files says who used how much gb_month"
    assert tenant_row(audited, "a").cost_own == "0.00"
    assert idle_cost(audited) == 0


@pytest.mark.parametrize(
    ("driver", "reason"),
    [("held_gpu_h", "nothing of its scope was held"), ("kwh", "no energy of its scope is known")],
)
def test_a_driver_of_nothing_leaves_its_pool_unborne(tmp_path: Path, driver: str, reason: str) -> None:
    usage = USAGE_HEADER + "j,0,a,,n2,,A100,1,1,1,2026-10-01T00:00:00Z,2026-10-01T01:00:00Z,COMPLETED,,\n"
    audited = pooled(tmp_path, f"{{name: p, amount: 5, driver: {driver}, scope: {{site: fra}}}}", usage)
    (tie,) = [tie for tie in audited.report.tie_out if tie.name == "unborne: pool:p"]
    assert (tie.residual, tie.named) == ("5.00", reason)


@pytest.mark.parametrize(
    ("service", "driver", "inside", "borne_by_a"),
    [
        # 10 of October's 31 days; a has half of n1 and none of n2
        ("2026-10-01, service_to: 2026-11-01", "node_h", "32.258064516129", "8.064516129032"),
        ("2026-10-01, service_to: 2026-11-01", "installed_gpu_h", "32.258064516129", "10.752688172043"),
        ("2026-10-01, service_to: 2026-11-01", "held_gpu_h", "32.258064516129", "32.258064516129"),
        # begun before, over within: 5 of 20 days
        ("2026-09-16, service_to: 2026-10-06", "held_gpu_h", "25.00", "25.00"),
        # a year's: 10 of 365 days
        ("2026-01-01, service_to: 2027-01-01", "held_gpu_h", "2.739726027397", "2.739726027397"),
        # around the period on both sides by other lengths: 10 of 40 days
        ("2026-09-20, service_to: 2026-10-30", "node_h", "25.00", "6.25"),
    ],
)  # fmt: skip
def test_what_straddles_the_period_counts_by_its_time_inside(
    tmp_path: Path, service: str, driver: str, inside: str, borne_by_a: str
) -> None:
    pool = f"{{name: p, amount: 100, driver: {driver}, service_from: {service}}}"
    audited = pooled(tmp_path, pool, HALF_HELD, "2026-10-01..2026-10-11")
    tie = next(tie for tie in audited.report.tie_out if tie.name == "cost: pool:p")
    assert (tie.left, tie.right, tie.residual) == (inside, inside, "0")
    assert tenant_row(audited, "a").cost_pools == borne_by_a


def test_only_those_who_were_there_during_its_service_bear_a_pool(tmp_path: Path) -> None:
    """a held until the 6th, b from the 6th on, and the pool's service is from the 6th to the 8th."""
    usage = USAGE_HEADER + (
        "j1,0,a,,n1,,H100,8,1,1,2026-10-01T00:00:00Z,2026-10-06T00:00:00Z,COMPLETED,,\n"
        "j2,0,b,,n1,,H100,2,1,1,2026-10-06T00:00:00Z,2026-10-11T00:00:00Z,COMPLETED,,\n"
    )
    pool = "{name: p, amount: 80, driver: node_h, service_from: 2026-10-06, service_to: 2026-10-08, scope: {site: fra}}"
    audited = pooled(tmp_path, pool, usage, "2026-10-01..2026-10-11")
    assert tenant_row(audited, "a").cost_pools == "0.00"
    assert tenant_row(audited, "b").cost_pools == "20.00"
    assert idle_cost(audited) == 60


@pytest.mark.parametrize(
    ("driver", "per_unit", "borne_by_a", "idle"),
    # by GPU-hour: 4 held and 12 not, by kWh: 2.4 and 0.72
    [("installed_gpu_h", "0.25", "1.00", "3"), ("held_gpu_h", "0.25", "1.00", "0"), ("kwh", "0.5", "1.20", "0.36")],
)
def test_a_rate_per_unit_needs_no_amount(
    tmp_path: Path, driver: str, per_unit: str, borne_by_a: str, idle: str
) -> None:
    pool = f"{{name: p, per_unit: {per_unit}, driver: {driver}, marginal: true, scope: {{site: fra}}}}"
    audited = pooled(tmp_path, pool, more=POWER + ENERGY)
    row = tenant_row(audited, "a")
    assert (row.cost_pools, row.marginal_floor) == (borne_by_a, borne_by_a)
    assert idle_cost(audited) == Decimal(idle)


@pytest.mark.parametrize(
    ("meter", "metered", "gpus", "residual", "times"),
    [
        # a: 4 GPU-h × 600 W, and 12 × 60 W: 3.12 kWh
        ("{site: fra, from: 2026-10-01T00:00, to: 2026-10-01T02:00, kwh: 4}", "4.00", "3.12", "0.88", "1.2821"),
        # five of ten hours would be half; two of ten are a fifth
        ("{site: fra, from: 2026-10-01T00:00, to: 2026-10-01T10:00, kwh: 39}", "7.80", "3.12", "4.68", "2.5000"),
        # the meter's first hour only: 2.4 kWh held, 4 × 60 W not
        ("{site: fra, from: 2026-10-01T00:00, to: 2026-10-01T01:00, kwh: 2.64}", "2.64", "2.64", "0", "1.0000"),
        # all sites: b's 2.4 kWh beside
        ("{from: 2026-10-01T00:00, to: 2026-10-01T02:00, kwh: 11.04}", "11.04", "5.52", "5.52", "2.0000"),
    ],
)  # fmt: skip
def test_the_meter_is_set_against_the_energy_of_its_time_and_site(
    tmp_path: Path, meter: str, metered: str, gpus: str, residual: str, times: str
) -> None:
    costs = f"{FLEET}{POWER}{ENERGY}meter:\n  - {meter}\n"
    audited = audit_texts(tmp_path, {"u.csv": USAGE, "costs.yaml": costs}, TWO_HOURS)
    (tie,) = [tie for tie in audited.report.tie_out if tie.name.startswith("energy")]
    assert (tie.left, tie.right, tie.residual, tie.unit) == (metered, gpus, residual, "kWh")
    if residual != "0":
        assert f"the meter is {times} × the GPUs' energy, of which 1.0000 is modelled" in tie.named


def test_machines_that_are_paid_off_cost_nothing_and_their_hours_count(tmp_path: Path) -> None:
    costs = FLEET + "compute:\n  - {purchase: {price: 9600, months: 12, in_service: 2024-01-01}}\n"
    audited = audit_texts(tmp_path, {"u.csv": USAGE, "costs.yaml": costs}, TWO_HOURS)
    row = tenant_row(audited, "a")
    assert (row.gpu_hours, row.cost_own, row.unpriced_rows) == ("4.000000", "0.00", 0)
    assert row.break_even_per_gpu_hour == "0.00"
