"""An assessment as a Report: the verdict in words, then every part from its builder."""

from decimal import Decimal
from fractions import Fraction
from importlib.metadata import version

from wattledger_core.units import MONEY_CONTEXT, PPM
from wattledger_core.verdict import NOT_REPRICED_PLANS

from wattledger_audit.assessment.assess import Assessment
from wattledger_audit.assessment.billable import PARTS_PER_HOUR
from wattledger_audit.assessment.bridge import UNBILLED, totals
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.report.amount_text import fraction_hours, money, ratio
from wattledger_audit.report.build_bridge import build_bridge_steps
from wattledger_audit.report.build_capacity import (
    build_idle,
    build_tokens,
    build_waterfall,
    fleet_hours,
    waiting_note,
)
from wattledger_audit.report.build_checks import build_coverage, build_found, build_tie_out, by_code
from wattledger_audit.report.build_method import assumptions_of, method_of
from wattledger_audit.report.build_rows import build_rows
from wattledger_audit.report.build_walk import build_walk
from wattledger_audit.report.headline import headline, verdict_lines
from wattledger_audit.report.model import FileUsed, Report
from wattledger_audit.report.next_answer import next_answer
from wattledger_audit.report.sums import ZERO, total

COUNTED_ELSEWHERE = ("total_row", "replaced_by_redelivery", "duplicate_line")
"""Codes of billing lines whose money is in other lines: a file's own total, a delivery that came again."""


def build_report(assessment: Assessment, rejections: Rejections) -> Report:
    """Everything that is written. The same assessment, the same report."""
    tenants, skus = build_rows(assessment)
    bridge = build_bridge_steps(assessment)
    coverage = build_coverage(assessment, sum(rejections.counts.values()))
    below = [row for row in tenants if row.below_cost and row.plan not in NOT_REPRICED_PLANS]
    short = -total(Decimal(row.margin or 0) for row in below)
    unbilled = -totals(assessment.bridge)[UNBILLED] if assessment.has_billing else None
    fleet = fleet_hours(assessment)
    period, book = assessment.period, assessment.book
    return Report(
        product="WattLedger",
        version=version("wattledger"),
        title=f"Audit of {period.title}",
        stage=assessment.stage,
        period_start=period.local(period.start_us).isoformat(),
        period_end=period.local(period.end_us).isoformat(),
        timezone=period.zone.key,
        hours=str(period.hours),
        currency=book.currency,
        idle_policy=book.idle_policy,
        normal_utilisation=ratio(book.normal_utilisation_ppm, PPM),
        target_margin=ratio(book.target_margin_ppm, PPM),
        price_step=format(book.price_step, "f"),
        depth=_depth(assessment),
        headline=headline(assessment, tenants, below, short),
        verdict_lines=verdict_lines(assessment, tenants),
        next_answer=next_answer(assessment, tenants, coverage, rejections),
        below_cost_tenants=len(below),
        below_cost_by=money(short) or "0.00",
        unbilled=money(unbilled),
        billed_over_installed=_billed_over_installed(fleet),
        files=_files(assessment, rejections),
        bridge=bridge,
        tenants=tenants,
        skus=skus,
        repricing=[row for row in skus if row.below_cost and row.plan not in NOT_REPRICED_PLANS],
        walk=build_walk(assessment, tenants),
        fleet=fleet,
        waterfall=build_waterfall(assessment),
        idle=build_idle(assessment),
        waiting_note=waiting_note(assessment),
        tokens=build_tokens(assessment),
        tie_out=build_tie_out(assessment),
        coverage=coverage,
        rejected=by_code(rejections.counts, rejections.money),
        discrepancies=build_found(assessment),
        method=method_of(assessment),
        assumptions=assumptions_of(assessment),
    )


def _depth(assessment: Assessment) -> list[str]:
    badges = ["invoice"] if assessment.has_billing else []
    badges += ["scheduler"] if len(assessment.runs) else []
    return badges + (["counter"] if assessment.measured.energy_uj else [])


def _billed_over_installed(fleet: dict[str, str]) -> str | None:
    if "billed" not in fleet or not Decimal(fleet["installed"]):
        return None
    return ratio(Decimal(fleet["billed"]), Decimal(fleet["installed"]))


def _files(assessment: Assessment, rejections: Rejections) -> list[FileUsed]:
    hours = _hours_by_file(assessment)
    money_by_file: dict[str, dict[str, Decimal]] = {}
    for name, lines in assessment.gathered.billing:
        for line in lines:
            found = money_by_file.setdefault(name, {})
            found[line.currency] = MONEY_CONTEXT.add(found.get(line.currency, ZERO), line.amount)
    rows = []
    for number, file in enumerate(assessment.gathered.files):
        refused: dict[str, Decimal] = {}
        for (name, code, currency), amount in rejections.money.items():
            if name == file.name and code not in COUNTED_ELSEWHERE:
                refused[currency] = MONEY_CONTEXT.add(refused.get(currency, ZERO), amount)
        rows.append(
            FileUsed(
                name=file.name,
                role=file.role,
                format=file.format,
                why=f"{file.why}{f'; {file.note}' if file.note else ''}",
                records=file.records,
                rejected=sum(count for (name, _), count in rejections.counts.items() if name == file.name),
                gpu_hours=fraction_hours(hours.get(number, Fraction(0))) if file.role == "usage" else None,
                money={code: money(amount) or "" for code, amount in sorted(money_by_file.get(file.name, {}).items())},
                refused_money={code: money(amount) or "" for code, amount in sorted(refused.items())},
                sha256=file.sha256,
            )
        )
    return rows


def _hours_by_file(assessment: Assessment) -> dict[int, Fraction]:
    """Held GPU-hours inside the period by the file that a run came from."""
    parts: dict[int, int] = {}
    files = assessment.runs.file
    for number, found in enumerate(assessment.swept.run_parts):
        if found:
            parts[files[number]] = parts.get(files[number], 0) + found
    return {file: Fraction(found, PARTS_PER_HOUR) for file, found in parts.items()}
