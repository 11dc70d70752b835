"""The one answer that would change most: what a person could say or give next, and what it would settle."""

from collections.abc import Sequence
from decimal import Decimal

from wattledger_core.verdict import DEPENDS, INSUFFICIENT

from wattledger_audit.assessment.assess import LEAKAGE, Assessment
from wattledger_audit.assessment.tenant_likeness import likely_tenants
from wattledger_audit.report.amount_text import cents
from wattledger_audit.report.model import Coverage, Row
from wattledger_audit.report.sums import ZERO, total


def next_answer(assessment: Assessment, tenants: Sequence[Row], coverage: Coverage) -> str:
    """The first of these that applies: billing, tenants by another name, costs, data, the idle policy, the fleet."""
    if not assessment.has_billing:
        return "What was billed? Give a billing export (--billing FILE): it settles who is below cost."
    alias = _alias(assessment)
    if alias:
        return alias
    if not len(assessment.runs):
        return "What was used? Give a usage log (--usage FILE): it settles what was billed without usage."
    if assessment.stage == LEAKAGE:
        return (
            "What does a GPU-hour cost? --per-gpu-hour X gives a first margin; `wattledger init costs` drafts a cost "
            "file from these files."
        )
    unsure = [row for row in tenants if row.verdict == INSUFFICIENT]
    if unsure:
        billed = total(Decimal(row.billed or 0) for row in unsure)
        said = f"{len(unsure)} tenants ({cents(billed)} {assessment.book.currency} billed) have no verdict: "
        return f"{said}{unsure[0].tenant}: {unsure[0].reason}. {_cure(unsure[0].reason)}".strip()
    if not assessment.fleet.listed:
        return "What is installed? Give an inventory (--fleet FILE): without it idle machines are not seen at all."
    depends = [row for row in tenants if row.verdict == DEPENDS]
    if depends:
        return (
            f"Who pays for idle machines? {len(depends)} tenants ({', '.join(row.tenant for row in depends[:3])}) are "
            "above or below cost by that alone: choose `idle` in the cost file."
        )
    if Decimal(coverage.modelled_ratio) > Decimal("0.5"):
        return "What do the GPUs draw? Give telemetry (--telemetry FILE): energy is modelled, not measured."
    return "Nothing that was asked is open: give the next month's files."


def _cure(reason: str) -> str:
    if "energy" in reason:
        return "Give telemetry, or `power` (busy_w, idle_w) of its GPU model in the cost file."
    if "price" in reason:
        return "Price its GPU model under `compute` (and its site under `energy`) in the cost file."
    return ""


def _alias(assessment: Assessment) -> str:
    """The billed tenant without usage that is likely one of those used and not billed, the dearest first."""
    seen = assessment.terms.names.seen
    billed, used = seen.get("billing", set()), seen.get("usage", set())
    likely = likely_tenants(billed - used, used - billed)
    amounts = {
        name: total(line.amount for line in assessment.revenue.lines if line.tenant == name and line.gpu)
        for name in likely
    }
    if not likely:
        return ""
    name = max(sorted(likely), key=lambda one: abs(amounts.get(one, ZERO)))
    entry = f"- {{name: {likely[name]}, aliases: {{billing: ['{name}']}}}}"
    return (
        f"Is '{name}' on the invoices ({cents(amounts[name])} {assessment.book.currency}) the '{likely[name]}' of the "
        f"usage log? Then say so under tenants in the cost file: {entry}"
    )
