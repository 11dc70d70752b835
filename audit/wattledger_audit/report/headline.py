"""The verdict of an audit in one sentence, and the worst tenants with their action: what is said first."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from wattledger_core.capacity import HELD_STATE
from wattledger_core.verdict import NOT_REPRICED_PLANS

from wattledger_audit.assessment.assess import LEAKAGE, Assessment
from wattledger_audit.assessment.billable import PARTS_PER_HOUR
from wattledger_audit.assessment.bridge import UNBILLED, WITHOUT_USAGE, totals
from wattledger_audit.assessment.terms import FAILED_RUN
from wattledger_audit.report.amount_text import cents, counted
from wattledger_audit.report.model import Row

WORST = 5


def headline(assessment: Assessment, tenants: Sequence[Row], below: Sequence[Row], short: Decimal) -> str:
    """How many tenants are billed below cost and by how much, and what leaked; or what is known without costs.

    `below` are the tenants billed below cost, `short` what they lack in all."""
    title = assessment.period.title
    if is_empty(assessment):
        return f"Nothing in these files is of {title}: no run and no billed line."
    sold = sum(row.plan not in NOT_REPRICED_PLANS for row in tenants)
    if assessment.stage == LEAKAGE and not assessment.has_billing:
        return f"In {title}, {_held(assessment)}. Without billing and costs there is no verdict."
    leak = _leak(assessment) if assessment.has_billing else ""
    if assessment.stage == LEAKAGE:
        said = leak or "all that was used is on an invoice"
        given = "Costs are not given" if assessment.gathered.costs is None else "The cost file has no rate yet"
        return f"In {title}, {said}. {given}, so nobody is judged yet."
    if not assessment.has_billing:
        return f"What {counted(sold, 'tenant')} cost in {title}; without a billing export there is no margin."
    lacking = f"by {cents(short)} {assessment.book.currency} in all"
    said = (
        f"{len(below)} of {counted(sold, 'tenant')} {'is' if len(below) == 1 else 'are'} billed below cost in {title}, "
        f"{lacking}"
        if below
        else f"No tenant of {sold:,} is known to be billed below cost in {title}"
    )
    return f"{said}{f'; {leak}' if leak else ''}."


def verdict_lines(assessment: Assessment, tenants: Sequence[Row]) -> list[str]:
    """The worst first, each with its action."""
    currency = assessment.book.currency
    lines = []
    for row in tenants[:WORST]:
        margin = "" if row.margin is None else f", margin {cents(Decimal(row.margin))} {currency}"
        verdict = "" if assessment.stage == LEAKAGE else f"{_verdict(row)}{margin}: "
        lines.append(f"{row.tenant}{f' ({row.plan})' if row.plan else ''}: {verdict}{row.action}")
    return lines


def _verdict(row: Row) -> str:
    """What is billed for no usage at all is not called healthy."""
    return "billed without usage" if row.billed and not Decimal(row.gpu_hours) else row.verdict


def is_empty(assessment: Assessment) -> bool:
    """Whether no run and no billed line lies in the period."""
    return not any(assessment.swept.run_parts) and not assessment.revenue.lines


def _held(assessment: Assessment) -> str:
    """Hours by who pays for them: they are those of the waterfall."""
    held, failed = 0, 0
    for key, parts in assessment.swept.ledger.parts.items():
        held += parts if key.holder.state == HELD_STATE else 0
        failed += parts if key.holder.reason.startswith(FAILED_RUN) else 0
    said = f"{_hours(Fraction(held, PARTS_PER_HOUR))} GPU-hours were held"
    if not failed:
        return said
    return f"{said} and {_hours(Fraction(failed, PARTS_PER_HOUR))} more lost to failures that the provider pays"


def _leak(assessment: Assessment) -> str:
    """What was used and not billed, in money and, where no rate is known, in hours; and whose names do not meet."""
    currency, sums = assessment.book.currency, totals(assessment.bridge)
    unbilled, strange = -sums[UNBILLED], sums[WITHOUT_USAGE]
    unrated = sum((min(group.unrated_hours, group.unbilled_hours) for group in assessment.bridge), Fraction(0))
    parts = [f"{cents(unbilled)} {currency} of usage was not billed"] if unbilled else []
    if unrated >= 1:
        parts.append(f"{_hours(unrated)} GPU-hours {'more ' if parts else ''}were not billed and have no known rate")
    said = " and ".join(parts)
    if said and strange > 0 and strange * 20 > sum(line.amount for line in assessment.revenue.lines):
        said += f"; {cents(strange)} {currency} was billed to names without usage, perhaps the same tenants"
    return said


def _hours(hours: Fraction) -> str:
    return f"{round(hours):,}"
