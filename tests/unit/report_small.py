"""A small report for the tests of what is written from one: nasty names, unknowns, several stages. Figures made up."""

from typing import Any

from wattledger_audit.report.model import (
    CapacityState,
    Coverage,
    Figures,
    FileUsed,
    Found,
    IdleNode,
    Report,
    Row,
    Step,
    TieOut,
    TokenRow,
    WaitingRun,
    Walk,
)

FORMULA = '=HYPERLINK("x","y")'
TIE = TieOut(
    name="kWh", left_label="a", left="1.5", right_label="b", right="1", residual="0.5", unit="kWh", named="rounding"
)


def figures(share: str) -> Figures:
    return Figures(
        idle_share=share,
        cost_total="12",
        margin="-2.005",
        margin_ratio="-0.2",
        verdict="loses cash",
        reason="",
        below_cost=True,
        break_even_per_gpu_hour="2.5",
        break_even_reason="",
        suggested_price_per_gpu_hour="3.13",
        suggested_price_reason="",
        action="raise",
    )


def row(tenant: str, **changed: Any) -> Row:
    made = Row(
        tenant=tenant, sku="", plan="", gpu_hours="100.5", billable_gpu_hours="100", billed_gpu_hours="90",
        provider_paid_gpu_hours="0.5", energy_kwh=None, energy_depth="modelled", cost_energy="1", cost_compute="10",
        cost_pools=None, cost_own="11", marginal_floor="1", idle_share="1", cost_total="12", billed="10",
        effective_rate_per_gpu_hour="0.1", contract_price_per_gpu_hour=None, margin="-2.005", margin_ratio="-0.2",
        break_even_per_gpu_hour="2.5", break_even_reason="", suggested_price_per_gpu_hour="3.13",
        suggested_price_reason="", verdict="loses cash", reason="", below_cost=True,
        action="raise to 3.13 per GPU-hour", measured_ratio="0", unpriced_rows=0, unmeasured_rows=2,
        by_policy={"apart": figures("0"), "weighted": figures("1"), "even": figures("2"), "normal": figures("3")},
    )  # fmt: skip
    return made.model_copy(update=changed)


def file_used(name: str, **changed: Any) -> FileUsed:
    made = FileUsed(
        name=name, role="usage", format="sacct -P", why="its header", records=12345, rejected=3, gpu_hours="41200.125",
        money={}, refused_money={}, sha256="ab" * 32,
    )  # fmt: skip
    return made.model_copy(update=changed)


def step(name: str, amount: str | None, kind: str = "change", hours: str | None = None) -> Step:
    return Step(
        step=name, label=name, kind=kind, amount=amount, hours=hours, tenants=[(FORMULA, "-3100")],
        invoices=["billing.csv:7 INV-1"], jobs=["job-1"], more=4, note="",
    )  # fmt: skip


BRIDGE = [
    step("expected", "41200", "total"),
    step("unbilled", "-3100"),
    step("quantity", "-20"),
    step("rate", "-800"),
    step("credits", "-500"),
    step("without_usage", "0"),
    step("billed", "36780", "total"),
]


def small_report(**changed: Any) -> Report:
    waiting = WaitingRun(
        job="j", tenant="t", gpus=8, waited_hours="2", matched_gpu_hours="16", capacity_cost=None, revenue_lost="4"
    )
    made = Report(
        product="WattLedger", version="1.2.3", title="Audit of October", stage="full", period_start="2026-10-01",
        period_end="2026-11-01", timezone="Europe/Berlin", hours="745", currency="EUR", idle_policy="weighted",
        normal_utilisation="0.8", target_margin="0.2", price_step="0.01", depth=["invoice", "scheduler"],
        headline="2 of 3 tenants are billed below cost, by 4.01 EUR", verdict_lines=["a line", FORMULA],
        next_answer="a contract price for tenant b would settle 1 verdict", below_cost_tenants=2, below_cost_by="4.01",
        unbilled="3100", billed_over_installed="0.612",
        files=[
            file_used("usage.csv"),
            file_used(
                "billing.csv", role="billing", format="FOCUS 1.1", gpu_hours=None, money={"EUR": "36780.005"},
                refused_money={"EUR": "120"},
            ),
        ],
        bridge=BRIDGE,
        tenants=[row("b", margin=None, verdict="insufficient data"), row(FORMULA, margin="3"), row("007")],
        skus=[row("007", sku="h100", plan="on_demand")],
        repricing=[row("007")],
        walk=[Walk(tenant="007", steps=[("energy", "10 kWh", "W x h", "modelled"), ("cost", "12 EUR", "sum", "")])],
        fleet={"installed": "74400", "free": "20000"},
        waterfall=[
            CapacityState(step="installed", label="installed", kind="total", gpu_hours="74400", cost="100", reasons=[]),
            CapacityState(
                step="free", label="free", kind="part", gpu_hours="20000", cost=None,
                reasons=[("nobody", "20000", None)],
            ),
        ],
        idle=[
            IdleNode(
                node="n1", site="s", gpu_model="H100", gpus=8, idle_gpu_hours="20000", idle_ratio="0.3", cost="5",
                energy_kwh=None, waiting=[waiting], waiting_more=0,
            )
        ],
        waiting_note="",
        tokens=[
            TokenRow(
                tenant="007", model="m", runs=1, tokens=10**20, energy_joules="1", joules_per_token="0.00001",
                cost_per_million_tokens=None, depth="counter",
            )
        ],
        tie_out=[TIE],
        coverage=Coverage(
            measured_ratio="0", modelled_ratio="0.98", unknown_energy_ratio="0.02", known_gpus_ratio="1",
            priced_ratio="1", billed_matched_ratio=None, unpriced_rows=0, unmeasured_rows=2, rejected_rows=6,
            runs_without_gpu_count=1, cpu_only_runs=0,
        ),
        rejected=[("usage.csv", "bad_number", 3, "")],
        discrepancies=[Found(kind="overlap", count=1, nodes="n1", example="j1", rule="the first keeps it")],
        method=["a method"],
        assumptions=["an assumption"],
    )  # fmt: skip
    return made.model_copy(update=changed)
