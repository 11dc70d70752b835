"""The report's tenants beside the live summary's: one tie-out for each figure, so that any difference is said."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from wattledger_core.units import MONEY_CONTEXT

from wattledger_audit.report.amount_text import money_text
from wattledger_audit.report.model import Report, Row, TieOut
from wattledger_audit.summary import Summary

CENT = Decimal("0.01")
FIGURES = (
    # name in both, what it is, its unit
    ("gpu_hours", "GPU-hours", "GPU-hours"),
    ("energy_kwh", "energy", "kWh"),
    ("cost_energy", "energy cost", ""),
    ("cost_total", "full cost", ""),
    ("billed", "billed", ""),
    ("margin", "margin", ""),
)
WORDS = ("verdict", "below_cost")
LIVE_ROUNDING = (
    "the live meter cuts time into quarter-hours of whole microseconds and rounds every row; here each span of one "
    "price is rounded once"
)
Key = tuple[str, str]


def agreement(report: Report, summary: Summary) -> list[TieOut]:
    """Σ over tenants here and live, with the largest difference of any one tenant; then verdicts."""
    here = {(row.tenant, row.plan): row for row in report.tenants}
    live: Mapping[Key, Mapping[str, object]] = {(row["tenant"], row["plan"]): row for row in summary["tenants"]}
    ties = [_figure(name, label, unit or report.currency, here, live) for name, label, unit in FIGURES]
    return [*ties, _verdicts(here, live)]


def differences(here: Mapping[Key, Row], live: Mapping[Key, Mapping[str, object]], name: str) -> dict[Key, Decimal]:
    """By how much each tenant's figure here is above the live one; a figure that is missing counts as 0."""
    return {
        key: MONEY_CONTEXT.subtract(_here(here.get(key), name), _live(live.get(key), name))
        for key in sorted({*here, *live})
    }


def _here(row: Row | None, name: str) -> Decimal:
    return Decimal(getattr(row, name, None) or 0)


def _live(row: Mapping[str, object] | None, name: str) -> Decimal:
    return Decimal(str((row or {}).get(name) or 0))


def _figure(
    name: str, label: str, unit: str, here: Mapping[Key, Row], live: Mapping[Key, Mapping[str, object]]
) -> TieOut:  # fmt: skip
    left = _sum([_here(row, name) for row in here.values()])
    right = _sum([_live(row, name) for row in live.values()])
    off = differences(here, live, name)
    worst = max(off, key=lambda key: (abs(off[key]), key), default=("", ""))
    largest = off.get(worst, Decimal(0))
    named = ""
    if abs(largest) >= CENT:
        named = f"a defect: {worst[0]} differs by {money_text(largest)}"
    elif largest:
        named = f"rounding, {money_text(abs(largest))} at most for one tenant ({worst[0]}): {LIVE_ROUNDING}"
    return TieOut(
        name=f"live tables: {label}", left_label="Σ of the tenants here", left=money_text(left),
        right_label="Σ of the tenants live", right=money_text(right),
        residual=money_text(MONEY_CONTEXT.subtract(left, right)) if left != right else "0", unit=unit, named=named,
    )  # fmt: skip


def _verdicts(here: Mapping[Key, Row], live: Mapping[Key, Mapping[str, object]]) -> TieOut:
    apart = [
        key[0]
        for key in sorted({*here, *live})
        if any(getattr(here.get(key), word, None) != live.get(key, {}).get(word) for word in WORDS)
    ]
    return TieOut(
        name="live tables: verdicts", left_label="tenants here", left=str(len(here)),
        right_label="with the same verdict live", right=str(len({*here, *live}) - len(apart)),
        residual=str(len(apart)), unit="tenants", named=f"a defect: {', '.join(apart)}" if apart else "",
    )  # fmt: skip


def _sum(amounts: Sequence[Decimal]) -> Decimal:
    total = Decimal(0)
    for amount in amounts:
        total = MONEY_CONTEXT.add(total, amount)
    return total
