"""The demo's summary: what the tables say, as plain values for `summary.json` and for the terminal."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from clickhouse_connect.driver.client import Client
from wattledger_core.units import US_PER_HOUR
from wattledger_core.verdict import Verdict, VerdictPolicy, by_tenant, judge
from wattledger_sql.query import query
from wattledger_sql.verify import LawResult, verify

from wattledger_audit.figures import idle_pools, uses

_RESIDUALS = {
    "device_time_residual_us": ("device_time", "in_service"),
    "energy_residual_uj": ("energy",),
    "money_residual": ("money_views", "money_topic", "cost_exact"),
}
Summary = dict[str, Any]


def hours(device_us: int | Decimal) -> str:
    """Device-time in GPU-hours, six decimals, as text."""
    return str((Decimal(int(device_us)) / US_PER_HOUR).quantize(Decimal("0.000001")))


def kwh(energy_uj: int | Decimal) -> str:
    """Energy in kWh, six decimals, as text."""
    return str((Decimal(int(energy_uj)) / 3_600_000_000_000).quantize(Decimal("0.000001")))


def money(amount: Decimal | Fraction | None) -> str | None:
    """An amount as text, None where there is none."""
    return None if amount is None else format(Decimal(str(amount)), "f")


def _dicts(client: Client, name: str) -> list[dict[str, Any]]:
    result = client.query(query(name))
    return [dict(zip(result.column_names, row, strict=True)) for row in result.result_rows]


def build_summary(client: Client, topic_amounts: Mapping[str, Decimal] | None, policy: VerdictPolicy) -> Summary:
    """Everything that the demo shows, from the views; `topic_amounts` is Σ cost of the folded topic by component."""
    laws = verify(client, topic_amounts)
    verdicts = judge(uses(client), idle_pools(client), policy, by_tenant)
    counts = _dicts(client, "row_counts")[0]
    coverage = _dicts(client, "coverage")[0]
    return {
        "laws": {name: _residual(laws, parts) for name, parts in _RESIDUALS.items()},
        "verify": [{"law": law.name, "ok": law.ok, "residual": law.residual, "unit": law.unit} for law in laws],
        "tenants": _tenants(verdicts, _dicts(client, "tenant_summary")),
        "fleet": {row["step"]: hours(row["device_us"]) for row in _dicts(client, "capacity_waterfall")},
        "idle": [
            {
                "node": row["node"],
                "idle_ratio": str(row["idle_ratio"]),
                "cost": money(row["idle_cost"]),
                "energy_kwh": kwh(row["idle_energy_uj"]),
            }
            for row in _dicts(client, "machine_idle_burn")
        ],
        "coverage": {
            "measured_ratio": str(coverage["measured_ratio"]),
            "unpriced_rows": int(coverage["unpriced_rows"]) + int(coverage["unbilled_rows"]),
            "unmeasured_rows": int(coverage["unmeasured_rows"]),
        },
        "rows": {
            "usage_lines": int(counts["usage_lines"]),
            "cost_rows": int(counts["cost_rows"]),
            "reversals": int(counts["line_reversals"]) + int(counts["cost_reversals"]),
            "corrections": int(counts["line_corrections"]) + int(counts["cost_corrections"]),
            "dead_letters": int(counts["dead_letters"]),
        },
        "discrepancies": [
            {"kind": row["kind"], "count": int(row["discrepancies"]), "nodes": row["nodes"], "example": row["example"]}
            for row in _dicts(client, "discrepancies_by_kind")
        ],
    }


def _residual(laws: Sequence[LawResult], names: Sequence[str]) -> str:
    total = sum((Decimal(law.residual) for law in laws if law.name in names), Decimal(0))
    return "0" if total == 0 else format(total, "f")


def _tenants(verdicts: Sequence[Verdict], totals: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Worst margin first. `cost_energy` and kWh are the tenant's own; `cost_total` is the full floor."""
    by_tenant_plan: dict[tuple[str, str], dict[str, Decimal]] = {}
    for row in totals:
        plan = row["plan"] if row["plan"] in ("internal", "trial") else ""
        kept = by_tenant_plan.setdefault((row["tenant_id"], plan), {})
        for name in ("energy_uj", "cost_energy", "unmeasured_rows"):
            kept[name] = kept.get(name, Decimal(0)) + Decimal(row[name])
    return [
        {
            "tenant": v.tenant,
            "plan": v.plan,
            "gpu_hours": hours(v.held_us),
            "energy_kwh": kwh(by_tenant_plan[(v.tenant, v.plan)]["energy_uj"]),
            "cost_energy": money(by_tenant_plan[(v.tenant, v.plan)]["cost_energy"]),
            "cost_total": money(v.full_floor),
            "billed": money(v.billed),
            "margin": money(v.margin),
            "break_even_per_gpu_hour": money(v.break_even_per_gpu_hour),
            "suggested_price_per_gpu_hour": money(v.suggested_price_per_gpu_hour),
            "verdict": v.verdict,
            "reason": v.reason,
            "below_cost": v.below_cost,
            "measured_ratio": str((Decimal(v.measured_us) / max(v.held_us, 1)).quantize(Decimal("0.0001"))),
            "unpriced_rows": v.unpriced_rows,
            "unmeasured_rows": int(by_tenant_plan[(v.tenant, v.plan)]["unmeasured_rows"]),
        }
        for v in sorted(verdicts, key=lambda v: (v.margin, v.tenant))
    ]
