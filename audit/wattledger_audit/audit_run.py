"""One offline audit from files to a folder: read, assess, write. The command line and the demo call it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

from wattledger_streams.tariff_file_zone import UnknownZone, load_zone

from wattledger_audit.assessment.assess import Asked, Assessment, assess, fleet_file
from wattledger_audit.assessment.cost_file import timezone_of
from wattledger_audit.assessment.period import PeriodRefused, parse_period
from wattledger_audit.gathering import Gathered, gather
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import FLEET, FleetNode
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.report.build_report import build_report
from wattledger_audit.report.manifest import InputFile, write_manifest
from wattledger_audit.report.model import Report
from wattledger_audit.report.page import write_page
from wattledger_audit.report.report_json import write_report_json
from wattledger_audit.report.run_table import write_runs
from wattledger_audit.report.table_files import write_tables
from wattledger_audit.report.tables import build_tables
from wattledger_audit.report.workbook import write_workbook

UTC_ZONE = "UTC"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """What to audit: files with the role each was named for (None: by content), and what was asked."""

    files: Sequence[tuple[Path, str | None]]
    options: ReadOptions = field(default_factory=ReadOptions)
    period: str | None = None
    per_gpu_hour: Decimal | None = None
    by_job: bool = False


@dataclass(frozen=True, slots=True)
class Audited:
    """An assessment with its report."""

    assessment: Assessment
    report: Report


def run_audit(request: AuditRequest, rejections: Rejections, say: Say) -> Audited:
    """Read and assess; nothing is written but the rejections.

    Raises `InputRefused` for a file, `CostFileRefused` for the cost file, `PeriodRefused` for the period.
    """
    gathered = gather(request.files, request.options, rejections, lambda name, count: say(f"{name}: {count} records"))
    zone = _zone(request, gathered)
    period = None if request.period is None else parse_period(request.period, zone)
    asked = Asked(zone, period, request.per_gpu_hour, request.by_job)
    assessment = assess(gathered, asked, rejections, _listed_fleet(gathered, request.options, rejections), say)
    return Audited(assessment, build_report(assessment, rejections))


def _zone(request: AuditRequest, gathered: Gathered) -> ZoneInfo:
    """The zone of the period: the cost file's, else the one that stamps are read in, else UTC."""
    if gathered.costs is not None:
        return timezone_of(gathered.costs)
    return request.options.timezone or load_zone(UTC_ZONE)


def _listed_fleet(gathered: Gathered, options: ReadOptions, rejections: Rejections) -> list[FleetNode]:
    """The inventory that the cost file names, read like any other file."""
    path = fleet_file(gathered.costs)
    if path is None:
        return []
    listed = gather([(path, FLEET)], options, rejections)
    gathered.files += listed.files
    return listed.fleet


def write_audit(audited: Audited, out: Path, parameters: Mapping[str, object]) -> list[Path]:
    """Write the page, the JSON, tables and sheet, then the manifest that names them all. `rejected.csv` is there."""
    report = audited.report
    tables = build_tables(report)
    written = [write_report_json(report, out / "report.json"), *write_tables(tables, out)]
    written += write_runs(audited.assessment, out / "tables")
    written.append(write_workbook(report, tables, out / "report.xlsx"))
    write_page(report, out / "report.html")
    written += [out / "report.html", out / "rejected.csv"]
    inputs = [
        InputFile(file.name, file.role, file.format, file.size_bytes, file.sha256)
        for file in audited.assessment.gathered.files
    ]
    return [*written, write_manifest(out, report.version, parameters, inputs, written)]


def zone_named(name: str | None) -> ZoneInfo | None:
    """A zone by its IANA name. Raises `PeriodRefused` for one that is not in tzdata."""
    if name is None:
        return None
    try:
        return load_zone(name)
    except UnknownZone as error:
        raise PeriodRefused(f"--timezone: {error}") from None
