"""What the switches need beside the report: figures of energy alone, and who each policy would reprice."""

from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import NamedTuple

from wattledger_core.verdict import NOT_REPRICED_PLANS

from wattledger_audit.report.cell_text import exact
from wattledger_audit.report.model import Report, Row

NOT_A_VERDICT = "not a verdict: energy only"
NOT_A_PRICE = "energy only: no price"
_MONEY = Context(prec=50)
_RATIO = Context(prec=28, rounding=ROUND_HALF_EVEN)


class Candidate(NamedTuple):
    """A row that is on the repricing list under some policy. `rows` and `place` say where the report has it."""

    row: Row
    rows: str
    place: int
    listed: bool


def energy_only(row: Row) -> dict[str, str | None]:
    """Cost, margin and its ratio to what was billed (4 decimals) of energy alone; None where a part is unknown."""
    cost, billed = exact(row.cost_energy), exact(row.billed)
    margin = None if cost is None or billed is None else _MONEY.subtract(billed, cost)
    ratio = None
    if margin is not None and billed:
        ratio = _RATIO.divide(margin, billed).quantize(Decimal("0.0001"), context=_RATIO)
    return {
        "cost_total": row.cost_energy,
        "margin": None if margin is None else format(margin, "f"),
        "margin_ratio": None if ratio is None else format(ratio, "f"),
    }


def energy_only_rows(report: Report) -> dict[str, list[dict[str, str | None]]]:
    """Energy-only figures of every row, in the order of the report's own lists."""
    lists = {"tenants": report.tenants, "skus": report.skus, "repricing": report.repricing}
    return {name: [energy_only(row) for row in rows] for name, rows in lists.items()}


def repricing_candidates(report: Report) -> list[Candidate]:
    """The report's list first, in its order; then rows of the same level that another idle policy would put on it."""
    listed = [Candidate(row, "repricing", n, True) for n, row in enumerate(report.repricing)]
    tenants = bool(report.repricing) and not any(row.sku for row in report.repricing)
    name, level = ("tenants", report.tenants) if tenants else ("skus", report.skus)
    known = {(row.tenant, row.sku, row.plan) for row in report.repricing}
    others = [
        Candidate(row, name, n, False)
        for n, row in enumerate(level)
        if (row.tenant, row.sku, row.plan) not in known
        and row.plan not in NOT_REPRICED_PLANS
        and any(figures.below_cost for figures in row.by_policy.values())
    ]
    return listed + others
