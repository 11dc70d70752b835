"""The one answer that would change most: what a person could say or give next, and what it would settle."""

from collections.abc import Sequence
from decimal import Decimal

from wattledger_core.verdict import DEPENDS, INSUFFICIENT

from wattledger_audit.assessment.assess import LEAKAGE, Assessment
from wattledger_audit.assessment.tenant_likeness import likely_tenants
from wattledger_audit.intake.record import USAGE
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.report.amount_text import cents, counted
from wattledger_audit.report.headline import is_empty
from wattledger_audit.report.log_span import log_gap
from wattledger_audit.report.lost_lines import lost_lines
from wattledger_audit.report.model import Coverage, Row
from wattledger_audit.report.sums import ZERO, total


def next_answer(assessment: Assessment, tenants: Sequence[Row], coverage: Coverage, rejections: Rejections) -> str:
    """The first of these that applies: the time, lines or days that were lost, billing, tenants by another name,
    costs, data, the fleet, the idle policy, energy."""
    if is_empty(assessment):
        return _which_time(assessment)
    lost = lost_lines(assessment.gathered.files, rejections)
    if lost is not None:
        return lost.asked()
    gap = log_gap(assessment)
    if gap is not None:
        return f"Is the usage log whole? {gap.said()}: give the rest, or say --period."
    if not assessment.has_billing:
        return "What was billed? Give a billing export (--billing FILE): it settles who is below cost."
    alias = _alias(assessment)
    if alias:
        return alias
    if not len(assessment.runs):
        empty = [file.name for file in assessment.gathered.files if file.role == USAGE]
        said = f"{empty[0]} holds no run: export it again" if empty else "Give a usage log (--usage FILE)"
        return f"What was used? {said}: it settles what was billed without usage."
    costs = assessment.gathered.costs
    if assessment.stage == LEAKAGE and costs is not None:
        return f"What does a GPU-hour cost? {costs.name} has no rate yet: fill in 'compute' (per_gpu_hour or purchase)."
    if assessment.stage == LEAKAGE:
        return (
            "What does a GPU-hour cost? --per-gpu-hour X gives a first margin; wattledger init costs drafts a cost "
            "file from these files."
        )
    unsure = [row for row in tenants if row.verdict == INSUFFICIENT]
    if unsure:
        billed = total(Decimal(row.billed or 0) for row in unsure)
        have = f"{'has' if len(unsure) == 1 else 'have'} no verdict"
        said = f"{counted(len(unsure), 'tenant')} ({cents(billed)} {assessment.book.currency} billed) {have}: "
        return f"{said}{unsure[0].tenant}: {unsure[0].reason}. {_cure(unsure[0].reason)}".strip()
    if not assessment.fleet.listed:
        return "What is installed? Give an inventory (--fleet FILE): without it idle machines are not seen at all."
    depends = [row for row in tenants if row.verdict == DEPENDS]
    if depends:
        return (
            f"Who pays for idle machines? {counted(len(depends), 'tenant')} "
            f"({', '.join(row.tenant for row in depends[:3])}{', …' if len(depends) > 3 else ''}) "
            f"{'is' if len(depends) == 1 else 'are'} above or below cost by that alone: choose 'idle' in the cost file."
        )
    if Decimal(coverage.modelled_ratio) > Decimal("0.5"):
        return "What do the GPUs draw? Give telemetry (--telemetry FILE): energy is modelled, not measured."
    return "Nothing that was asked is open: give the next month's files."


def _which_time(assessment: Assessment) -> str:
    """What the files are of, where the period that was asked for has nothing of it."""
    runs, period = assessment.runs, assessment.period
    times = [at_us for number in range(len(runs)) for at_us in (runs.start_us[number], runs.end_us[number])]
    times += [
        at_us for _, lines in assessment.gathered.billing for line in lines for at_us in (line.start_us, line.end_us)
    ]
    known = [at_us for at_us in times if at_us > 0]
    if not known:
        return "What was used and billed? Give a usage log (--usage FILE) and a billing export (--billing FILE)."
    first, last = (f"{period.local(at_us):%Y-%m-%d}" for at_us in (min(known), max(known)))
    return f"Which time? The files are of {first} to {last}: say --period {first[:7]}, or leave it out."


def _cure(reason: str) -> str:
    if "energy" in reason:
        return "Give telemetry, or 'power' (busy_w, idle_w) of its GPU model in the cost file."
    if "price" in reason:
        return "Price its GPU model under 'compute' (and its site under 'energy') in the cost file."
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
