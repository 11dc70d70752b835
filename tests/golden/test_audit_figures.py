"""Worked figures from public sources, through the whole audit: reference/cost-attribution-peers.md section 5.1."""

from decimal import Decimal
from pathlib import Path

import pytest

from tests.audit_runner import (
    BILLING_HEADER,
    USAGE_HEADER,
    audit_texts,
    bridge_amounts,
    sku_row,
    tenant_row,
    unexplained,
)

MIG_DAY = USAGE_HEADER + (
    "j1,0,ml-train,,n1,,A100,1,4,7,2026-02-10T00:00:00Z,2026-02-10T02:00:00Z,COMPLETED,,\n"
    "j2,0,inference,,n1,,A100,1,1,7,2026-02-10T00:00:00Z,2026-02-10T06:00:00Z,COMPLETED,,\n"
    "j3,0,serving,,n1,,A100,1,2,7,2026-02-10T00:00:00Z,2026-02-10T02:00:00Z,COMPLETED,,\n"
)
FLEET = "fleet:\n  - {node: n1, gpu_model: A100, gpus: 1}\n"
HEAD = "currency: USD\ntimezone: UTC\n"
DAY = "2026-02-10..2026-02-11"


@pytest.mark.parametrize(
    "compute",
    [
        "compute:\n  - {gpu_model: A100, per_gpu_hour: 3}\n",
        # the same as an amount: 2016 a month, and February has 28 days
        "compute:\n  - {gpu_model: A100, purchase: {price: 0, months: 60, in_service: 2026-01-01, hosting: 2016}}\n",
    ],
    ids=["rate", "monthly amount"],
)
def test_the_mig_day_at_72_splits_into_sevenths_that_sum_to_72(tmp_path: Path, compute: str) -> None:
    audited = audit_texts(tmp_path, {"u.csv": MIG_DAY, "costs.yaml": HEAD + FLEET + compute}, DAY)
    own = {name: Decimal(tenant_row(audited, name).cost_own or 0) for name in ("ml-train", "inference", "serving")}
    idle = Decimal(audited.report.idle[0].cost or 0)
    for amount, exact in (
        (own["ml-train"], Decimal(24) / 7), (own["inference"], Decimal(18) / 7), (own["serving"], Decimal(12) / 7),
        (idle, Decimal(450) / 7),
    ):  # fmt: skip
        assert abs(amount - exact) <= Decimal("1e-12")
    assert sum(own.values()) + idle == 72
    assert unexplained(audited) == []


def test_four_quarter_shares_for_an_hour_are_one_gpu_hour(tmp_path: Path) -> None:
    """HAMi's acceptance: 4 × 25 % × 1 h = 1.0 GPU-hour, and no more than the card costs."""
    usage = USAGE_HEADER + "".join(
        f"pod{n},0,team{n},,n1,,A100,1,1,4,2026-02-10T00:00:00Z,2026-02-10T01:00:00Z,COMPLETED,,\n" for n in range(4)
    )
    costs = HEAD + FLEET + "compute:\n  - {gpu_model: A100, per_gpu_hour: 4}\n"
    audited = audit_texts(tmp_path, {"u.csv": usage, "costs.yaml": costs}, "2026-02-10T00:00..2026-02-10T01:00")
    assert audited.report.fleet["held"] == "1.000000"
    assert audited.report.fleet["free"] == "0.000000"
    assert [tenant_row(audited, f"team{n}").cost_own for n in range(4)] == ["1.00"] * 4


def test_a_hundred_a_month_is_a_hundred_and_october_in_berlin_has_745_hours(tmp_path: Path) -> None:
    """kubecost#3695: 100 a month shown as 100.01073888, from a rate rounded to six digits times 730.08 hours."""
    usage = USAGE_HEADER + "j,0,a,,n1,,A100,1,1,1,2026-10-01T00:00:00+02:00,2026-11-01T00:00:00+01:00,COMPLETED,,\n"
    costs = (
        "currency: EUR\ntimezone: Europe/Berlin\n" + FLEET
        + "compute:\n  - {gpu_model: A100, purchase: {price: 0, months: 60, in_service: 2026-01-01, hosting: 100}}\n"
    )  # fmt: skip
    audited = audit_texts(tmp_path, {"u.csv": usage, "costs.yaml": costs}, "2026-10")
    assert audited.report.hours == "745"
    assert tenant_row(audited, "a").gpu_hours == "745.000000"
    assert tenant_row(audited, "a").cost_own == "100.00"
    march = audit_texts(tmp_path / "march", {"u.csv": usage.replace("-10-", "-03-").replace("-11-", "-04-"),
                                             "costs.yaml": costs}, "2026-03")  # fmt: skip
    assert march.report.hours == "743"
    assert march.report.fleet["installed"] == "743.000000"


def test_a_price_change_splits_the_job_that_crosses_it(tmp_path: Path) -> None:
    """NERC: GPUH100 at 6.04 until May 2025, at 4 from June; two hours before and three after are 12.08 + 12.00."""
    usage = USAGE_HEADER + "j,0,a,,n1,,H100,1,1,1,2025-05-31T22:00:00Z,2025-06-01T03:00:00Z,COMPLETED,,\n"
    costs = (
        HEAD + "fleet:\n  - {node: n1, gpu_model: H100, gpus: 1}\ncompute:\n"
        "  - {gpu_model: H100, per_gpu_hour: 6.04, from: 2023-06-01, to: 2025-06-01}\n"
        "  - {gpu_model: H100, per_gpu_hour: 4, from: 2025-06-01}\n"
        "tenants:\n  - name: a\n    contract:\n"
        "      - {gpu_model: H100, per_gpu_hour: 6.04, to: 2025-06-01}\n"
        "      - {gpu_model: H100, per_gpu_hour: 4, from: 2025-06-01}\n"
    )
    billing = BILLING_HEADER + "I,a,2025-05-31T22:00:00Z,2025-06-01T03:00:00Z,H100,5,GPU-hours,24.08,USD\n"
    files = {"u.csv": usage, "b.csv": billing, "costs.yaml": costs}
    audited = audit_texts(tmp_path, files, "2025-05-31T22:00..2025-06-01T03:00", by_job=True)
    assert tenant_row(audited, "a").cost_own == "24.08"
    rows = [row for row in audited.assessment.costed.rows if row.job == "j"]
    assert [(row.rate, row.cost) for row in rows] == [
        (Decimal("6.04"), Decimal("12.080000000000")), (Decimal("4"), Decimal("12.000000000000")),
    ]  # fmt: skip
    amounts = bridge_amounts(audited)
    assert amounts["contract_x_measured"] == amounts["billed"] == Decimal("24.08")
    assert amounts["wrong_rate"] == 0
    assert sku_row(audited, "a", "H100").margin == "0.00"


def test_a_node_that_grows_has_the_devices_of_each_stretch(tmp_path: Path) -> None:
    """4 GPUs until the 11th, then 8: 4 × 240 + 8 × 504 = 4992 GPU-hours in October."""
    usage = USAGE_HEADER + "j,0,a,,n1,,H100,4,1,1,2026-10-01T00:00:00Z,2026-10-11T00:00:00Z,COMPLETED,,\n"
    costs = (
        HEAD + "fleet:\n  - {node: n1, gpu_model: H100, gpus: 4, to: 2026-10-11}\n"
        "  - {node: n1, gpu_model: H100, gpus: 8, from: 2026-10-11}\n"
        "compute:\n  - {gpu_model: H100, per_gpu_hour: 1}\n"
    )
    audited = audit_texts(tmp_path, {"u.csv": usage, "costs.yaml": costs}, "2026-10")
    assert audited.report.fleet["installed"] == "4992.000000"
    assert audited.report.idle[0].cost == "4032.00"
    assert unexplained(audited) == []


def test_a_power_bill_stands_beside_the_tariff_and_what_it_has_more_is_named(tmp_path: Path) -> None:
    """One GPU at 1 kW for a day is 24 kWh, 2.40 at 0.10; the bill of two days for 100 kWh and 20 has 50 kWh and 10."""
    usage = USAGE_HEADER + "j,0,a,,n1,,A100,1,1,1,2026-02-10T00:00:00Z,2026-02-11T00:00:00Z,COMPLETED,,\n"
    costs = (
        HEAD + FLEET + "compute:\n  - {gpu_model: A100, per_gpu_hour: 3}\n"
        "energy: {site: '', timezone: UTC, pue: 1, default_per_kwh: 0.10}\n"
        "power:\n  - {gpu_model: A100, busy_w: 1000, idle_w: 100}\n"
        "meter:\n  - {from: 2026-02-10, to: 2026-02-12, kwh: 100, amount: 20, peak_kw: 2.5}\n"
    )
    audited = audit_texts(tmp_path, {"u.csv": usage, "costs.yaml": costs}, DAY)
    ties = {tie.name: tie for tie in audited.report.tie_out}
    assert (ties["energy"].left, ties["energy"].right) == ("50.00", "24.00")
    assert (ties["power bill"].left, ties["power bill"].right, ties["power bill"].residual) == ("10.00", "2.40", "7.60")
    assert "peak 2.5 kW" in ties["power bill"].named


def test_a_failed_run_that_the_provider_pays_for_drew_busy_power(tmp_path: Path) -> None:
    usage = USAGE_HEADER + "j,0,a,,n1,,A100,1,1,1,2026-02-10T00:00:00Z,2026-02-11T00:00:00Z,NODE_FAIL,,\n"
    costs = (
        HEAD + FLEET + "compute:\n  - {gpu_model: A100, per_gpu_hour: 1}\n"
        "energy: {site: '', timezone: UTC, pue: 1, default_per_kwh: 1}\n"
        "power:\n  - {gpu_model: A100, busy_w: 500, idle_w: 100}\n"
    )
    audited = audit_texts(tmp_path, {"u.csv": usage, "costs.yaml": costs}, DAY)
    unavailable = next(state for state in audited.report.waterfall if state.step == "unavailable")
    assert (unavailable.gpu_hours, unavailable.cost) == ("24.000000", "36.00")
    assert audited.report.tenants == []


def test_a_cost_file_that_prices_nothing_yet_claims_no_margin(tmp_path: Path) -> None:
    billing = BILLING_HEADER + "I,a,2026-02-10T00:00:00Z,2026-02-11T00:00:00Z,A100,24,GPU-hours,24,USD\n"
    usage = USAGE_HEADER + "j,0,a,,n1,,A100,1,1,1,2026-02-10T00:00:00Z,2026-02-11T00:00:00Z,COMPLETED,,\n"
    audited = audit_texts(tmp_path, {"u.csv": usage, "b.csv": billing, "costs.yaml": HEAD + FLEET}, DAY)
    assert audited.report.stage == "leakage"
    assert "margin" not in bridge_amounts(audited)
    assert tenant_row(audited, "a").verdict == "insufficient data"


def test_more_billed_than_the_fleet_has_is_shown(tmp_path: Path) -> None:
    """vBilling's sample invoice: 8 × H100 in April with 7,680 GPU-hours; 8 × 720 = 5,760."""
    usage = USAGE_HEADER + "j,0,a,,n1,,H100,8,1,1,2026-04-01T00:00:00Z,2026-05-01T00:00:00Z,COMPLETED,,\n"
    billing = BILLING_HEADER + "I,a,2026-04-01T00:00:00Z,2026-05-01T00:00:00Z,8x H100 dedicated,7680,GPU-hours,99,USD\n"
    costs = HEAD + "fleet:\n  - {node: n1, gpu_model: H100, gpus: 8}\n"
    audited = audit_texts(tmp_path, {"u.csv": usage, "b.csv": billing, "costs.yaml": costs}, "2026-04")
    found = {one.kind: one for one in audited.report.discrepancies}
    assert "7,680 GPU-hours of H100 were billed, and 5,760 were in service" in found["billed_beyond_capacity"].example
    fitting = billing.replace("7680", "5760")
    audited = audit_texts(tmp_path, {"u.csv": usage, "b.csv": fitting, "costs.yaml": costs}, "2026-04")
    assert "billed_beyond_capacity" not in {one.kind for one in audited.report.discrepancies}


def test_a_run_that_says_another_model_than_its_machine_is_shown_and_the_machine_counts(tmp_path: Path) -> None:
    usage = USAGE_HEADER + "j,0,a,,n1,,V100,1,1,1,2026-02-10T00:00:00Z,2026-02-11T00:00:00Z,COMPLETED,,\n"
    costs = HEAD + FLEET + "compute:\n  - {gpu_model: A100, per_gpu_hour: 3}\n"
    audited = audit_texts(tmp_path, {"u.csv": usage, "costs.yaml": costs}, DAY)
    found = {one.kind: one for one in audited.report.discrepancies}
    assert (found["model_differs"].count, found["model_differs"].nodes) == (1, "n1")
    assert tenant_row(audited, "a").cost_own == "72.00"


@pytest.mark.parametrize(
    ("sku", "unit", "hours"),
    [
        ("p5.48xlarge H100", "Hrs", None),  # eight GPUs, and the name does not say so
        ("Standard_ND96isr_H100_v5", "Hours", None),
        ("a3-highgpu-8g H100", "hour", "80.000000"),
        ("p5.48xlarge H100", "GPU-hours", "10.000000"),
        ("H100 on-demand", "hours", "10.000000"),
    ],
)
def test_hours_of_a_machine_type_are_gpu_hours_only_where_its_gpus_are_known(
    tmp_path: Path, sku: str, unit: str, hours: str | None
) -> None:
    usage = USAGE_HEADER + "j,0,a,,n1,,H100,8,1,1,2026-02-10T00:00:00Z,2026-02-10T10:00:00Z,COMPLETED,,\n"
    billing = BILLING_HEADER + f"I,a,2026-02-10T00:00:00Z,2026-02-11T00:00:00Z,{sku},10,{unit},700,USD\n"
    audited = audit_texts(tmp_path, {"u.csv": usage, "b.csv": billing}, DAY)
    assert tenant_row(audited, "a").billed_gpu_hours == hours
    if hours is None:
        assert bridge_amounts(audited)["wrong_quantity"] == 0


def test_runs_outside_the_period_and_a_rate_beside_a_cost_file_are_said(tmp_path: Path) -> None:
    usage = USAGE_HEADER + (
        "j,0,a,,n1,,A100,1,1,1,2026-02-10T00:00:00Z,2026-02-11T00:00:00Z,COMPLETED,,\n"
        "k,0,a,,n1,,A100,1,1,1,2026-02-12T00:00:00Z,2026-02-13T00:00:00Z,COMPLETED,,\n"
    )
    costs = HEAD + FLEET + "compute:\n  - {gpu_model: A100, per_gpu_hour: 3}\n"
    audited = audit_texts(tmp_path, {"u.csv": usage, "costs.yaml": costs}, DAY, per_gpu_hour="9")
    said = " ".join(audited.report.assumptions)
    assert "1 runs lie wholly outside the period" in said
    assert "--per-gpu-hour is not used" in said
    assert tenant_row(audited, "a").cost_own == "72.00"
