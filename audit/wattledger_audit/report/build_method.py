"""How the figures were made, and what was assumed where the files are silent: in sentences, for an auditor."""

from wattledger_audit.assessment.assess import LEAKAGE, Assessment
from wattledger_audit.assessment.run_book import NONE_US
from wattledger_audit.report.amount_text import cents
from wattledger_audit.report.log_span import log_gap

_METHOD = (
    "Times are half-open intervals in UTC, to the microsecond. Every device in service is in exactly one state at any "
    "time: held, reserved and unused, stranded, free, or unavailable; they sum to its time in service.",
    "A run holds its GPUs from start to end without suspended time. Where the log says how many GPUs it had and not "
    "which, it stands on the first free ones of its node; claims beyond what there is are scaled to 1 and listed.",
    "Shares of one device (MIG slices, time-slicing) sum to the device; what nobody holds is the provider's.",
    "Billing counts by service period, net of tax, prorated where a line straddles the period; a delivery that comes "
    "again replaces the one before.",
    "The bridge runs per tenant and SKU: expected = billable time × rate; unbilled = what no invoice line of that "
    "tenant and SKU covers in time; wrong quantity = (billed − covered hours) × rate; wrong rate is the rest.",
)
_COSTS = (
    "Cost is rounded once, half-even to 12 decimals, when a row is made. Amounts (purchases, pools) are spread by "
    "their driver as differences of one rounded cumulative, so their parts sum to them exactly.",
    "The marginal floor is what is paid in cash per use; the full floor adds compute, fixed pools and the chosen share "
    "of idle. Idle is shared inside its pool (site × model) only; a pool without tenants stays apart.",
    "Break-even = full cost ÷ billable GPU-hours. Suggested price = break-even ÷ (1 − target margin), rounded up to "
    "the price step. Internal and trial plans are never repriced.",
    "Node failure, boot failure and preemption are the provider's to pay unless the cost file says otherwise; failed, "
    "out of memory and timed out runs are the tenant's.",
)


def method_of(assessment: Assessment) -> list[str]:
    """The rules that made these figures."""
    return [*_METHOD, *(_COSTS if assessment.stage != LEAKAGE else ())]


def assumptions_of(assessment: Assessment) -> list[str]:
    """What was taken for granted, each said once."""
    said = [f"The period is {assessment.period.title} ({assessment.period.zone.key}): {assessment.period.why}."]
    gap = log_gap(assessment)
    if gap is not None:
        said.append(f"{gap.said()}.")
    inferred = [node for node in assessment.fleet.nodes.values() if node.inferred and not node.floating]
    if inferred:
        named = ", ".join(node.name for node in inferred[:3]) + ("…" if len(inferred) > 3 else "")
        said.append(
            f"No inventory lists {len(inferred)} nodes ({named}): each is taken to have the most GPUs that were held "
            "at once, in service all the time; give --fleet to see idle machines."
        )
    if any(node.floating for node in assessment.fleet.nodes.values()):
        said.append("Runs without a node are in service only while they are held: they show no idle time.")
    if assessment.swept.uncounted:
        said.append(
            f"{len(assessment.swept.uncounted)} runs do not say how many GPUs they held: they are in no figure but the "
            "coverage."
        )
    replaced = assessment.revenue.left_out.get("replaced_by_redelivery")
    if replaced is not None:
        said.append(
            f"Invoices that came more than once count once ({cents(replaced)} {assessment.book.currency} is replaced): "
            "of files with the same invoice the one that was named last counts, so name them oldest first."
        )
    outside = _outside(assessment)
    if outside:
        said.append(f"{outside} runs lie wholly outside the period: they are in no figure.")
    if assessment.runs.redelivered:
        said.append(f"{assessment.runs.redelivered} runs came more than once and count once.")
    return list(dict.fromkeys([*said, *assessment.assumptions, *assessment.revenue.assumptions]))


def _outside(assessment: Assessment) -> int:
    """Runs that ended before the period or started after it."""
    period, runs = assessment.period, assessment.runs
    return sum(
        start_us != NONE_US and (start_us >= period.end_us or NONE_US < end_us <= period.start_us)
        for start_us, end_us in zip(runs.start_us, runs.end_us, strict=True)
    )
