"""The leakage bridge as steps of a report, each with what opens it: tenants, invoice lines, job ids."""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction

from wattledger_core.line import RESERVED_TENANTS
from wattledger_core.units import MONEY_CONTEXT

from wattledger_audit.assessment.assess import LEAKAGE, Assessment
from wattledger_audit.assessment.bridge import (
    BILLED,
    CREDIT,
    EXPECTED,
    QUANTITY,
    RATE,
    STEPS,
    UNBILLED,
    WITHOUT_USAGE,
    GroupBridge,
    totals,
)
from wattledger_audit.assessment.revenue import Revenue
from wattledger_audit.report.amount_text import cents, fraction_hours, money
from wattledger_audit.report.model import Step
from wattledger_audit.report.sums import ZERO, total

LISTED = 25
_LABELS = {
    EXPECTED: "Contract × measured",
    UNBILLED: "Used and not billed",
    QUANTITY: "Wrong quantity",
    RATE: "Wrong rate",
    CREDIT: "Credits, refunds, adjustments",
    WITHOUT_USAGE: "Billed without usage",
    BILLED: "Billed",
}


def build_bridge_steps(assessment: Assessment) -> list[Step]:
    """From contract × measured to billed; with costs, on to the margin. Empty without billing."""
    groups = assessment.bridge
    if not assessment.has_billing:
        return []
    sums = totals(groups)
    steps = [_step(assessment, name, sums[name], groups) for name in STEPS]
    if assessment.stage != LEAKAGE:
        steps += _margin_steps(assessment, sums[BILLED])
    return steps


def _step(assessment: Assessment, name: str, amount: Decimal, groups: Sequence[GroupBridge]) -> Step:
    moved = [group for group in groups if group.amounts[name]]
    by_tenant: dict[str, Decimal] = {}
    for group in moved:
        by_tenant[group.tenant] = MONEY_CONTEXT.add(by_tenant.get(group.tenant, ZERO), group.amounts[name])
    tenants = sorted(by_tenant.items(), key=lambda item: (-abs(item[1]), item[0]))
    invoices = _invoices(assessment, name, moved)
    runs = [n for group in sorted(moved, key=lambda g: g.amounts[UNBILLED]) for n in group.unbilled_runs]
    jobs = [_job(assessment, number) for number in runs[:LISTED]] if name == UNBILLED else []
    more = max(len(invoices) - LISTED, 0) + (max(len(runs) - LISTED, 0) if name == UNBILLED else 0)
    return Step(
        step=name,
        label=_LABELS[name],
        kind="total" if name in (EXPECTED, BILLED) else "change",
        amount=money(amount),
        hours=fraction_hours(_hours(name, groups)),
        tenants=[(tenant, money(found) or "") for tenant, found in tenants],
        invoices=invoices[:LISTED],
        jobs=jobs,
        more=more,
        note=_note(name, groups, assessment),
    )


def _hours(name: str, groups: Iterable[GroupBridge]) -> Fraction | None:
    picked: dict[str, Callable[[GroupBridge], Fraction | None]] = {
        EXPECTED: lambda group: group.measured_hours,
        UNBILLED: lambda group: -group.unbilled_hours,
        QUANTITY: _quantity_off,
        WITHOUT_USAGE: lambda group: group.billed_hours if group.amounts[WITHOUT_USAGE] else Fraction(0),
        BILLED: lambda group: group.billed_hours,
    }
    if name not in picked:
        return None
    return sum((picked[name](group) or Fraction(0) for group in groups), Fraction(0))


def _quantity_off(group: GroupBridge) -> Fraction:
    if group.billed_hours is None or not group.amounts[QUANTITY]:
        return Fraction(0)
    return group.billed_hours - (group.measured_hours - group.unbilled_hours)


def _invoices(assessment: Assessment, name: str, groups: Sequence[GroupBridge]) -> list[str]:
    if name in (EXPECTED, UNBILLED):
        return []

    def place(line: Revenue) -> tuple[str, int]:
        return assessment.gathered.billing[line.file][0], line.line.line

    ordered = sorted(groups, key=lambda group: -abs(group.amounts[name]))
    listed = [sorted(group.credits if name == CREDIT else group.lines, key=place) for group in ordered]
    return [_invoice(assessment, line) for lines in listed for line in lines]


def _invoice(assessment: Assessment, line: Revenue) -> str:
    """`file:line invoice, tenant, SKU: quantity unit, amount`."""
    source = assessment.gathered.billing[line.file][0]
    quantity = "" if line.line.quantity is None else f"{line.line.quantity} {line.line.unit}, ".replace(" ,", ",")
    invoice = f" {line.line.invoice_id}" if line.line.invoice_id else ""
    return (
        f"{source}:{line.line.line}{invoice}, {line.tenant}, {line.sku or '(no SKU)'}: "
        f"{quantity}{line.amount:f} {assessment.book.currency}"
    )


def _job(assessment: Assessment, number: int) -> str:
    """`cluster/job (tenant, file:line)`."""
    runs = assessment.runs
    who = runs.whos[runs.who[number]]
    name = f"{who.cluster}/{runs.jobs[number]}" if who.cluster else runs.jobs[number]
    return f"{name} ({who.tenant}, {assessment.gathered.run_files[runs.file[number]]}:{runs.line[number]})"


def _note(name: str, groups: Sequence[GroupBridge], assessment: Assessment) -> str:
    currency = assessment.book.currency
    if name == EXPECTED:
        bases = sorted({basis for group in groups for basis in group.basis.split("; ") if basis})
        unrated = sum((group.unrated_hours for group in groups), Fraction(0))
        said = "Rates: " + ", ".join(bases) + "." if bases else ""
        if unrated:
            said += f" No rate is known for {fraction_hours(unrated)} GPU-hours: they are in hours only."
        return said.strip()
    if name == UNBILLED:
        worst = min(groups, key=lambda group: group.amounts[UNBILLED], default=None)
        if worst is None or not worst.amounts[UNBILLED]:
            return "All that was used is covered by an invoice line."
        amount = cents(-worst.amounts[UNBILLED])
        return f"Most of it: {worst.tenant}, {worst.sku or 'no SKU'}, {amount} {currency}."
    if name == RATE and any(group.lines and group.billed_hours is None for group in groups):
        return "Lines without a quantity in GPU time are wholly here: hours and rate cannot be told apart."
    return ""


def _margin_steps(assessment: Assessment, billed: Decimal) -> list[Step]:
    """Billed less what tenants' own use cost, less everything that no tenant's use bears = the fleet's margin."""
    own = total(row.cost for row in assessment.costed.rows if row.tenant not in RESERVED_TENANTS)
    rest = total(row.cost for row in assessment.costed.rows if row.tenant in RESERVED_TENANTS)
    unborne = total(amount for amount, _ in assessment.costed.unborne.values())
    apart = MONEY_CONTEXT.add(rest, unborne)
    margin = billed - own - apart
    return [
        _plain("cost_of_use", "Cost of what tenants held", "change", -own),
        _plain("cost_of_the_rest", "Cost of idle, unavailable and unborne", "change", -apart),
        _plain("margin", "Margin of the fleet", "total", margin),
    ]


def _plain(step: str, label: str, kind: str, amount: Decimal) -> Step:
    return Step(
        step=step, label=label, kind=kind, amount=money(amount), hours=None, tenants=[], invoices=[], jobs=[], more=0,
        note="",
    )  # fmt: skip
