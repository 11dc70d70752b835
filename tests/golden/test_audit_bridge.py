"""The leakage bridge, from contract × measured to billed: cases worked by hand from ACCOUNTING.md.

Steps are in this order: contract × measured, unbilled, wrong quantity, wrong rate, credits, billed without usage,
billed. The day has 24 hours; where it is not said, the contract is 3 per GPU-hour.
"""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest
from wattledger_audit.assessment.bridge import STEPS
from wattledger_audit.intake.refusal import InputRefused

from tests.audit_cases import DAY, at, bill, billing, costs, fleet, machine, reservations, run, usage
from tests.audit_runner import audit_texts, bridge_amounts, unexplained

THREE = costs("tenants: [{name: a, contract: 3}]")
PLAIN = costs("")
JOB = usage(run("j", "a", 0, 24))


class Case(NamedTuple):
    """Files, and the seven amounts of the bridge."""

    name: str
    usage: str
    billing: str
    steps: str
    costs: str = THREE
    more: Mapping[str, str] = MappingProxyType({})


CASES = [
    Case("a bill that is right", JOB, billing(bill("a", "H100", "24", "72")), "72 0 0 0 0 0 72"),
    # 20 of 24 hours: 4 × 3
    Case("too few hours", JOB, billing(bill("a", "H100", "20", "60")), "72 0 -12 0 0 0 60"),
    Case("too many hours", JOB, billing(bill("a", "H100", "30", "90")), "72 0 18 0 0 0 90"),
    # 24 h at 2.50: 24 × 0.50
    Case("too low a rate", JOB, billing(bill("a", "H100", "24", "60")), "72 0 0 -12 0 0 60"),
    # 20 h at 2: 4 × 3 of quantity, 20 × 1 of rate
    Case("too few hours at too low a rate", JOB, billing(bill("a", "H100", "20", "40")), "72 0 -12 -20 0 0 40"),
    # nothing that b used was billed: 2 × 24 × 1.50, what a's H100 were billed at
    Case(
        "a tenant that was never billed",
        usage(run("j", "a", 0, 24), run("k", "b", 0, 24, 2, node="n2")), billing(bill("a", "H100", "24", "36")),
        "108 -72 0 0 0 0 36", PLAIN,
    ),
    # the invoice covers noon to noon only: what was used in the other half is unbilled, not a wrong quantity
    Case(
        "an invoice that covers half of the time",
        JOB, billing(bill("a", "H100", "12", "36", period_end=at(12))), "72 -36 0 0 0 0 36",
    ),
    # 0..6 and 18..24 are billed: 12 h are not
    Case(
        "invoices with a hole between them",
        JOB, billing(bill("a", "H100", "6", "18", period_end=at(6)), bill("a", "H100", "6", "18", period_start=at(18))),
        "72 -36 0 0 0 0 36",
    ),
    # two runs, the second after the invoice's end: it is the unbilled one, whatever its share of the day
    Case(
        "a run after the invoice's end",
        usage(run("j", "a", 0, 10), run("k", "a", 14, 15, 4)),
        billing(bill("a", "H100", "10", "30", period_end=at(12))), "42 -12 0 0 0 0 30",
    ),
    # unused reserved time is billable: 24 h, of which the invoice covers 12
    Case(
        "a reservation of which half is billed",
        usage(run("j", "a", 0, 1)), billing(bill("a", "H100 reserved", "12", "36", period_end=at(12))),
        "72 -36 0 0 0 0 36", costs("tenants: [{name: a, plan: reserved, contract: 3}]"),
        {"r.csv": reservations(("r", "a", "n1", "", 0, 24)), "f.csv": fleet(machine(gpus=1))},
    ),
    # each run is billed a whole hour: one inside the invoice, one outside
    Case(
        "runs rounded up, of which one is billed",
        usage(run("j", "a", 0, 0.5), run("k", "a", 13, 13.5)),
        billing(bill("a", "H100", "1", "3", period_end=at(12))), "6 -3 0 0 0 0 3",
        costs("tenants: [{name: a, increment: 1h, contract: 3}]"),
    ),
    # z is billed and never came; y is billed for H200 that it never had
    Case(
        "billed without usage",
        usage(run("j", "y", 0, 24)),
        billing(bill("y", "H100", "24", "48"), bill("z", "H100", "10", "20"), bill("y", "H200", "5", "25")),
        "48 0 0 0 0 45 93", PLAIN,
    ),
    # H100 24 × 2; credits -3, -2 and -1; the tax and the storage are no GPU revenue
    Case(
        "credits, tax and other products",
        usage(run("j", "x", 0, 24)),
        billing(
            bill("x", "H100", "24", "48"), bill("x", "SLA credit", "", "-3", ""),
            bill("x", "Promo credit", "", "-2", ""), bill("x", "Refund", "", "-1", ""),
            bill("x", "VAT 19%", "", "9.12", ""),
            bill("x", "Object storage", "100", "7", "GB-months"),
        ),
        "48 0 0 0 -6 0 42", PLAIN,
    ),
    # an internal tenant and a trial are not sold: they are in no step
    Case(
        "internal and trial use is no leak",
        usage(run("j", "x", 0, 10), run("k", "rnd", 0, 10), run("l", "x", 0, 4, plan="trial")),
        billing(bill("x", "H100", "10", "20")), "20 0 0 0 0 0 20", costs("tenants: [{name: rnd, plan: internal}]"),
    ),
    # what the provider pays for is not billable: 24 h held, 10 lost with the node
    Case(
        "a run that the provider pays for is not billable",
        usage(run("j", "a", 0, 24), run("k", "a", 0, 10, state="NODE_FAIL")),
        billing(bill("a", "H100", "24", "72")), "72 0 0 0 0 0 72",
    ),
    # no quantity: hours and rate cannot be told apart, so the whole difference is rate
    Case("a line without a quantity", JOB, billing(bill("a", "H100", "", "60", "")), "72 0 0 -12 0 0 60"),
    # one of something at 60 is no hour at 60
    Case("a quantity of one without a unit", JOB, billing(bill("a", "H100", "1", "60", "")), "72 0 0 -12 0 0 60"),
    # a service period of two days, half of it in the audited day: 24 of 48 h, 72 of 144
    Case(
        "a line that straddles the period is prorated",
        JOB, billing(bill("a", "H100", "48", "144", period_end=at(48))), "72 0 0 0 0 0 72",
    ),
    Case(
        "a line of another month is left out",
        JOB,
        billing(bill("a", "H100", "24", "72"), bill("a", "H100", "5", "15", period_start=at(24), period_end=at(48))),
        "72 0 0 0 0 0 72",
    ),
    # most hours were billed at 2 (20 of 24): 24 × 2 expected, the 4 at 5 are 12 too dear
    Case(
        "without a contract, the rate of most hours",
        usage(run("j", "x", 0, 24)), billing(bill("x", "H100", "20", "40"), bill("x", "H100", "4", "20")),
        "48 0 0 12 0 0 60", PLAIN,
    ),
    # one line explains itself to the last digit: 100 / 7 h is no decimal
    Case(
        "a rate that is no decimal leaves nothing over",
        usage(run("j", "x", 0, 7)), billing(bill("x", "H100", "7", "100")), "100 0 0 0 0 0 100", PLAIN,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_steps_of_the_bridge(case: Case, tmp_path: Path) -> None:
    files = {"u.csv": case.usage, "b.csv": case.billing, "c.yaml": case.costs, **case.more}
    audited = audit_texts(tmp_path, files, DAY)
    amounts = bridge_amounts(audited)
    assert [amounts[step] for step in STEPS] == [Decimal(text) for text in case.steps.split()]
    assert unexplained(audited) == []


UNITS = [
    # SKU, quantity, unit, and the GPU-hours that it is
    ("H100", "24", "GPU-hours", 24), ("H100", "24", "GPU Hours", 24), ("H100", "24", "h", 24),
    ("H100", "24", "Hrs", 24),
    ("H100", "1440", "minutes", 24), ("H100", "1440", "GPU-min", 24), ("H100", "86400", "seconds", 24),
    ("H100", "86400", "GPU-s", 24), ("H100", "3", "GPU-days", 72), ("H100", "2", "100 GPU-hours", 200),
    # the line is for 24 hours: a month's unit is one GPU over the service period, whatever its length
    ("H100 reserved", "8", "GPU-months", 192), ("H100 reserved", "8", "month", 192),
    ("H100 reserved", "8", "GPUs", 192),
    # 8 GPUs in every H100 node of the inventory, 4 in every A100 node
    ("H100 node", "24", "node-hours", 192), ("A100 node", "24", "node-hours", 96),
    ("L40S node", "24", "node-hours", None),
    # an instance is as many GPUs as its name says; a GPU-hour is one of them all the same
    ("8xH100 on-demand", "24", "hours", 192), ("4 x NVIDIA L40S", "24", "instance-hours", 96),
    ("8xH100 on-demand", "24", "GPU-hours", 24), ("8x H100 reserved", "1", "month", 192),
    ("H100 bare metal", "24", "instance-hours", None),
    # slices: sevenths of an A100, quarters of an A30; but GPU-hours are GPU-hours
    ("A100 MIG 1g.10gb", "21", "slice-hours", 3), ("A100 MIG 3g.40gb", "7", "hours", 3),
    ("A30 MIG 1g.6gb", "8", "hours", 2), ("A100 MIG 1g.10gb", "3", "GPU-hours", 3),
    # no unit of time at all
    ("H100", "1000000", "tokens", None), ("H100 reserved fee", "1", "", None), ("H100", "24", "", 24),
]  # fmt: skip


@pytest.mark.parametrize(("sku", "quantity", "unit", "gpu_hours"), UNITS, ids=[" ".join(u[:3]) for u in UNITS])
def test_a_quantity_in_gpu_hours(sku: str, quantity: str, unit: str, gpu_hours: int | None, tmp_path: Path) -> None:
    files = {
        "u.csv": usage(run("j", "a", 0, 24)), "b.csv": billing(bill("x", sku, quantity, "10", unit)),
        "f.csv": fleet(machine(), machine("n2", 4, "A100"), machine("n3", 4, "L40S"), machine("n4", 8, "L40S")),
    }  # fmt: skip
    audited = audit_texts(tmp_path, files, DAY)
    (line,) = audited.assessment.revenue.lines
    assert line.gpu_hours == gpu_hours


def test_a_billed_node_hour_is_what_the_cost_file_says(tmp_path: Path) -> None:
    files = {
        "u.csv": usage(run("j", "a", 0, 24, 8)), "b.csv": billing(bill("a", "p5.48xlarge", "24", "576", "hours")),
        "c.yaml": costs(
            "tenants: [{name: a, contract: 3}]", "skus: [{sku: p5.48xlarge, gpu_model: H100, gpus_per_unit: 8}]"
        ),
    }  # fmt: skip
    amounts = bridge_amounts(audit_texts(tmp_path, files, DAY))
    assert [amounts[step] for step in STEPS] == [576, 0, 0, 0, 0, 0, 576]


SOLD_AS = [
    # what ran (model, plan, share), what is billed, and the SKU that it must meet
    ("H100", "", "1/1", ("H100", "H200"), "H100"),
    ("H200", "", "1/1", ("H100", "H200"), "H200"),
    ("H20", "", "1/1", ("H200", "H20"), "H20"),
    ("A100-SXM4-40GB", "", "1/1", ("A100 80GB", "A100 40GB"), "A100 40GB"),
    ("NVIDIA A100-SXM4-80GB", "", "1/1", ("A100 80GB", "A100 40GB"), "A100 80GB"),
    ("A10", "", "1/1", ("A100 80GB", "A10 24GB"), "A10 24GB"),
    ("A10G", "", "1/1", ("A10G 24GB", "A100"), "A10G 24GB"),
    ("L4", "", "1/1", ("L40S", "L4"), "L4"),
    ("L40", "", "1/1", ("L40S", "L40"), "L40"),
    ("H100 PCIe", "", "1/1", ("H100 SXM5", "H100 PCIe"), "H100 PCIe"),
    ("NVIDIA H100 80GB HBM3", "", "1/1", ("GPU-H100", "GPU-L40S"), "GPU-H100"),
    ("H100", "spot", "1/1", ("H100 on-demand", "H100 spot", "H100 reserved"), "H100 spot"),
    ("H100", "reserved", "1/1", ("H100 on-demand", "H100 spot", "H100 reserved"), "H100 reserved"),
    ("H100", "", "1/1", ("H100 on-demand", "H100 spot", "H100 reserved"), "H100 on-demand"),
    ("A100", "", "1/7", ("A100 80GB", "A100 MIG 1g.10gb", "A100 MIG 2g.20gb"), "A100 MIG 1g.10gb"),
    ("A100 80GB", "", "2/7", ("A100 80GB", "A100 MIG 1g.10gb", "A100 MIG 2g.20gb"), "A100 MIG 2g.20gb"),
    ("A30", "", "2/4", ("A30", "A30 MIG 1g.6gb", "A30 MIG 2g.12gb"), "A30 MIG 2g.12gb"),
    ("A30", "", "4/4", ("A30", "A30 MIG 1g.6gb", "A30 MIG 2g.12gb"), "A30"),
    ("MI300X", "", "1/1", ("MI300X", "MI250X"), "MI300X"),
    ("RTX A1000", "", "1/1", ("A100", "RTX A1000"), "RTX A1000"),
]


@pytest.mark.parametrize(
    ("model", "plan", "share", "skus", "met"), SOLD_AS, ids=[f"{s[0]} {s[1]} {s[2]}" for s in SOLD_AS]
)
def test_a_use_meets_the_sku_of_its_words(
    model: str, plan: str, share: str, skus: tuple[str, ...], met: str, tmp_path: Path
) -> None:
    num, den = share.split("/")
    files = {
        "u.csv": usage(run("j", "x", 0, 10, gpu_model=model, plan=plan, share_num=num, share_den=den)),
        "b.csv": billing(*(bill("x", sku, "10", "20") for sku in skus)),
    }
    audited = audit_texts(tmp_path, files, DAY)
    assert [row.sku for row in audited.report.skus if Decimal(row.gpu_hours)] == [met]


def test_billed_hours_stand_beside_held_and_billable_ones(tmp_path: Path) -> None:
    """5 runs of 6 min, each billed a quarter of an hour: 0.5 held, 1.25 billable; 2 were billed."""
    log = usage(*(run(f"j{n}", "a", n, n + 0.1) for n in range(5)))
    files = {
        "u.csv": log, "b.csv": billing(bill("a", "H100", "2", "6")),
        "c.yaml": costs("tenants: [{name: a, increment: 15m, contract: 3}]"),
    }  # fmt: skip
    (row,) = audit_texts(tmp_path, files, DAY).report.skus
    assert (row.gpu_hours, row.billable_gpu_hours, row.billed_gpu_hours) == ("0.500000", "1.250000", "2.000000")
    # 6 billed ÷ 1.25 billable hours
    assert row.effective_rate_per_gpu_hour == "4.80"


def test_billed_hours_that_no_line_says_are_unknown_and_not_zero(tmp_path: Path) -> None:
    files = {"u.csv": JOB, "b.csv": billing(bill("a", "H100 reserved fee", "1", "6", "")), "c.yaml": THREE}
    (row,) = audit_texts(tmp_path, files, DAY).report.skus
    assert row.billed_gpu_hours is None


FX = costs(
    "fx:\n  - {currency: EUR, rate: 1.10, to: 2026-02-10T12:00, source: bank}\n"
    "  - {currency: EUR, rate: 1.20, from: 2026-02-10T12:00, source: bank}\n"
    "  - {currency: INR, rate: 0.012, source: bank}\n"
)


def test_other_currencies_count_at_the_rate_of_their_service(tmp_path: Path) -> None:
    """10 EUR × 1.10 in the morning, 10 EUR × 1.20 in the afternoon, 500 INR × 0.012, and 5 USD: 11 + 12 + 6 + 5."""
    lines = billing(
        bill("a", "H100", "12", "10", currency="EUR", period_end=at(12)),
        bill("a", "H100", "12", "10", currency="EUR", period_start=at(12)),
        bill("a", "H100 setup", "", "500", "", currency="INR"), bill("a", "H100 extra", "", "5", ""),
    )  # fmt: skip
    audited = audit_texts(tmp_path, {"u.csv": JOB, "b.csv": lines, "c.yaml": FX}, DAY)
    assert bridge_amounts(audited)["billed"] == 34
    assert unexplained(audited) == []


@pytest.mark.parametrize("given", [PLAIN, None], ids=["cost file without fx", "no cost file"])
def test_several_currencies_are_refused_without_rates(tmp_path: Path, given: str | None) -> None:
    lines = billing(bill("a", "H100", "12", "10", currency="EUR"), bill("a", "H100", "12", "10"))
    files = {"u.csv": JOB, "b.csv": lines} | ({"c.yaml": given} if given else {})
    with pytest.raises(InputRefused, match="fx"):
        audit_texts(tmp_path, files, DAY)


def test_a_redelivered_invoice_replaces_the_first(tmp_path: Path) -> None:
    first = billing(bill("a", "H100", "24", "72"), bill("a", "H100 extra", "1", "3"))
    again = billing(bill("a", "H100", "20", "60"))
    audited = audit_texts(tmp_path, {"u.csv": JOB, "b1.csv": first, "b2.csv": again, "c.yaml": THREE}, DAY)
    assert bridge_amounts(audited)["billed"] == 60
    assert unexplained(audited) == []
    assert "b1.csv" in (tmp_path / "rejected.csv").read_text()


def test_what_was_left_out_is_in_the_tie_out(tmp_path: Path) -> None:
    """Read: 72 + 13.68 tax + 15 of tomorrow + 100 of which half is tomorrow's = 200.68; GPU revenue is 72 + 50."""
    lines = billing(
        bill("a", "H100", "24", "72"), bill("a", "VAT", "", "13.68", ""),
        bill("a", "H100", "5", "15", period_start=at(24), period_end=at(48)),
        bill("a", "H100 b", "", "100", "", period_start=at(12), period_end=at(36)),
    )  # fmt: skip
    audited = audit_texts(tmp_path, {"u.csv": JOB, "b.csv": lines, "c.yaml": THREE}, DAY)
    tie = next(tie for tie in audited.report.tie_out if tie.name == "invoices")
    assert (tie.left, tie.residual) == ("200.68", "0")
    assert bridge_amounts(audited)["billed"] == 122
    assert audited.assessment.revenue.left_out == {
        "tax": Decimal("13.68"), "outside_period": Decimal(15), "prorated_away": Decimal(50),
    }  # fmt: skip


def test_the_bridge_opens_to_the_runs_that_were_not_billed(tmp_path: Path) -> None:
    log = usage(run("j", "a", 0, 10), run("k", "a", 14, 15, 4), run("l", "a", 20, 22))
    files = {"u.csv": log, "b.csv": billing(bill("a", "H100", "10", "30", period_end=at(12))), "c.yaml": THREE}
    step = next(step for step in audit_texts(tmp_path, files, DAY).report.bridge if step.step == "unbilled_usage")
    assert (step.amount, step.hours) == ("-18.00", "-6.000000")
    assert step.jobs == ["k (a, u.csv:3)", "l (a, u.csv:4)"]
