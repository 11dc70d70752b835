"""The played day's report: the topics' records through the offline audit's own code, set beside the live summary."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

from wattledger_core.policy import Policy
from wattledger_core.units import quarter_floor_us
from wattledger_core.verdict import VerdictPolicy

from wattledger_audit.assessment.assess import Asked, Assessment, assess
from wattledger_audit.assessment.period import Period
from wattledger_audit.audit_run import Audited, write_audit
from wattledger_audit.demo_agreement import CENT, LIVE_ROUNDING, agreement
from wattledger_audit.demo_costs import billing_lines, cost_book
from wattledger_audit.demo_holds import FleetRecords, fleet_records, usage_runs
from wattledger_audit.demo_records import ALLOCATIONS, COSTS, PRICES, SAMPLES, DayRecords, TopicUsed
from wattledger_audit.gathering import FileTaken, Gathered
from wattledger_audit.intake import record
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.report.build_report import build_report
from wattledger_audit.report.model import Report, Step
from wattledger_audit.summary import Summary

Say = Callable[[str], None]
FORMAT = "Kafka topic"
_ROLES = {
    ALLOCATIONS: (record.USAGE, "allocations as they stand at the end; with node facts, states and reservations"),
    SAMPLES: (record.TELEMETRY, "sample batches: power, counters, MIG instances and processes"),
    PRICES: (record.COSTS, "the price book as it stands at the end"),
    COSTS: (record.BILLING, "rows of what the rate card billed, with those that were taken back"),
}
_METHOD = (
    "These figures are made again from what the topics hold at the end, when everything that came late is known: "
    "sessions, meter and sink have no part in them. The tie-out sets them beside the live tables."
)


def gather_day(records: DayRecords, fleet: FleetRecords, period: Period, rejections: Rejections) -> Gathered:
    """The records as the audit gathers them from files; what processors put aside is listed with its reason."""
    gathered = Gathered()
    used = {topic.name: topic for topic in records.topics}
    gathered.files = [_taken(used.get(name, TopicUsed(name, 0, 0, "")), *_ROLES[name]) for name in _ROLES]
    for run in usage_runs(records.allocations, records.facts):
        gathered.runs.add(run, 0)
    gathered.files[0].runs = len(gathered.runs)
    gathered.runs.seal()
    gathered.fleet, gathered.states, gathered.reservations = fleet.nodes, fleet.states, fleet.reservations
    gathered.billing = [(COSTS, billing_lines(records.billed, period))]
    for letter in records.put_aside:
        reason = f"{letter.reason_code}: {letter.detail}"
        rejections.add(letter.topic, letter.offset, f"partition {letter.partition}", "", reason)
    return gathered


def _taken(topic: TopicUsed, role: str, why: str) -> FileTaken:
    return FileTaken(
        topic.name, Path(topic.name), role, FORMAT, why, topic.sha256, topic.size_bytes, topic.records
    )  # fmt: skip


def assess_day(records: DayRecords, policy: VerdictPolicy, rejections: Rejections, say: Say) -> Assessment:
    """The day through the audit. Its period is the time that the fleet was in service: where it still is, up to the
    last quarter-hour that the live meters have closed."""
    fleet = fleet_records(records.facts)
    end_us = fleet.end_us or quarter_floor_us(records.settled_us - Policy().lateness_us)
    period = Period(fleet.start_us, end_us, ZoneInfo("UTC"), "the time that the fleet was in service")
    gathered = gather_day(records, fleet, period, rejections)
    book = cost_book(records.prices, policy, period, records.allocations, fleet.nodes, fleet.reservations)
    return assess(gathered, Asked(period.zone, period), rejections, (), say, book, records.batches)


def report_of(assessment: Assessment, summary: Summary, rejections: Rejections) -> Report:
    """The audit's report, with the live figures beside it in the tie-out."""
    report = build_report(assessment, rejections)
    return report.model_copy(
        update={
            "tie_out": [*report.tie_out, *agreement(report, summary)],
            "bridge": [_rounding_said(step) for step in report.bridge],
            "method": [_METHOD, *report.method],
        }
    )


def _rounding_said(step: Step) -> Step:
    """A change below a cent that nothing explains is what the rate card's rows were rounded by."""
    amount = Decimal(step.amount or 0)
    if step.kind != "change" or step.note or not amount or abs(amount) >= CENT:
        return step
    return step.model_copy(update={"note": f"Rounding: {LIVE_ROUNDING}."})


def write_day(records: DayRecords, summary: Summary, policy: VerdictPolicy, out: Path, say: Say) -> Path:
    """Write page, JSON, tables, sheet, rejections and manifest into `out`; the page's path."""
    out.mkdir(parents=True, exist_ok=True)
    with Rejections.into(out / "rejected.csv") as rejections:
        assessment = assess_day(records, policy, rejections, say)
        report = report_of(assessment, summary, rejections)
    parameters = {
        "idle_policy": policy.idle_policy, "normal_utilisation_ppm": policy.normal_utilisation_ppm,
        "target_margin_ppm": policy.target_margin_ppm, "price_step": policy.price_step,
    }  # fmt: skip
    write_audit(Audited(assessment, report), out, parameters)
    return out / "report.html"
