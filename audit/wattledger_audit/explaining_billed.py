"""What a tenant was billed, line by line: where each stands, what of it counts in which row, why the rest does not."""

from collections.abc import Sequence
from decimal import Decimal

from wattledger_core.units import MONEY_CONTEXT
from wattledger_core.verdict import Key, by_tenant

from wattledger_audit.assessment.assess import Assessment
from wattledger_audit.assessment.billable import Billable
from wattledger_audit.assessment.costing import Costed
from wattledger_audit.assessment.judging import judge_uses
from wattledger_audit.assessment.revenue import Revenue
from wattledger_audit.explain_value import BilledLine
from wattledger_audit.intake.record import BillingLine
from wattledger_audit.shown_time import local_text

_TRACED = 300
"""Lines up to which each one's part of two rows is found by judging them one after the other."""


def billed_lines(assessment: Assessment, tenant: str, keys: Sequence[Key]) -> dict[Key, list[BilledLine]]:
    """The GPU lines of a tenant by row; one that counts in two rows stands in both, with its part of each."""
    lines = [line for line in assessment.revenue.lines if line.tenant == tenant and line.gpu]
    found: dict[Key, list[BilledLine]] = {key: [] for key in keys}
    for line, parts in zip(lines, _parts(assessment, tenant, lines, keys), strict=True):
        for key, counted in parts.items():
            found[key].append(_shown(assessment, line.file, line.line, line.category, counted, _note(line)))
    return found


def _note(line: Revenue) -> str:
    return "prorated to the period" if line.prorated else ""


def _parts(
    assessment: Assessment, tenant: str, lines: Sequence[Revenue], keys: Sequence[Key]
) -> list[dict[Key, Decimal]]:
    """What of each line counts in which row: as judging gives it, one line more at a time."""
    if len(keys) == 1:
        return [{keys[0]: line.amount} for line in lines]
    costed = Costed(
        [line for line in assessment.costed.lines if line.tenant == tenant],
        [row for row in assessment.costed.rows if row.tenant == tenant],
    )
    billable = Billable()
    billable.parts = {sold: parts for sold, parts in assessment.billable.parts.items() if sold.tenant == tenant}

    def judged(some: Sequence[Revenue]) -> dict[Key, Decimal]:
        sums: dict[Key, Decimal] = {}
        for use in judge_uses(costed, billable, some, assessment.terms, assessment.book).uses:
            key = by_tenant(use)
            sums[key] = MONEY_CONTEXT.add(sums.get(key, Decimal(0)), use.billed)
        return sums

    found, before = [], judged([])
    for number, line in enumerate(lines):
        one_by_one = len(lines) <= _TRACED
        upto = judged(lines[: number + 1] if one_by_one else [line])
        gone = before if one_by_one else {}
        parts = {key: MONEY_CONTEXT.subtract(amount, gone.get(key, Decimal(0))) for key, amount in upto.items()}
        found.append({key: amount for key, amount in parts.items() if amount})
        before = upto
    return found


def lines_not_counted(assessment: Assessment, tenant: str) -> tuple[BilledLine, ...]:
    """The tenant's lines that count in no row: tax, other times, replaced deliveries, what is not for GPUs."""
    counted = {(line.file, line.line) for line in assessment.revenue.lines if line.gpu}
    other = {(line.file, line.line) for line in assessment.revenue.lines if not line.gpu}
    period, resolve = assessment.period, assessment.terms.names.resolve
    found = []
    for file, (_, lines) in enumerate(assessment.gathered.billing):
        for line in lines:
            if resolve("billing", line.tenant) != tenant or (file, line) in counted:
                continue
            if (file, line) in other:
                note = "not for GPUs"
            elif line.category == "tax":
                note = "tax: revenue is net of tax"
            elif line.end_us <= period.start_us or line.start_us >= period.end_us:
                note = "its service period lies outside the audited one"
            else:
                note = "a later delivery replaces it"
            found.append(_shown(assessment, file, line, line.category, None, note))
    return tuple(found)


def _shown(
    assessment: Assessment, file: int, line: BillingLine, category: str, counted: Decimal | None, note: str
) -> BilledLine:
    zone = assessment.period.zone
    return BilledLine(
        where=f"{assessment.gathered.billing[file][0]}:{line.line}",
        invoice_id=line.invoice_id,
        sku=line.sku,
        category=category,
        start=local_text(line.start_us, zone),
        end=local_text(line.end_us, zone),
        amount=line.amount,
        currency=line.currency,
        counted=counted,
        note=note,
    )
