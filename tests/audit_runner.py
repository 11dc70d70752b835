"""Runs an offline audit over texts written to files, for tests: what the command does, without the command line."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

from wattledger_audit.audit_run import Audited, AuditRequest, run_audit
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.report.model import Row

USAGE_HEADER = (
    "job_id,attempt,tenant,project,node,device,gpu_model,gpus,share_num,share_den,start,end,state,tokens,plan\n"
)
BILLING_HEADER = "invoice_id,tenant,period_start,period_end,sku,quantity,unit,amount,currency\n"


def audit_texts(
    folder: Path,
    files: Mapping[str, str],
    period: str | None = None,
    timezone: str | None = None,
    per_gpu_hour: str | None = None,
    by_job: bool = False,
    **options: str,
) -> Audited:
    """Audit files of these names and contents, each taken by content."""
    folder.mkdir(parents=True, exist_ok=True)
    named: list[tuple[Path, str | None]] = []
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        named.append((folder / name, None))
    zone = None if timezone is None else ZoneInfo(timezone)
    reading = ReadOptions(timezone=zone, **options)  # type: ignore[arg-type]
    rate = None if per_gpu_hour is None else Decimal(per_gpu_hour)
    with Rejections.into(folder / "rejected.csv") as rejections:
        return run_audit(AuditRequest(named, reading, period, rate, by_job), rejections, lambda _: None)


def tenant_row(audited: Audited, tenant: str, plan: str = "") -> Row:
    """The row of one tenant."""
    return next(row for row in audited.report.tenants if (row.tenant, row.plan) == (tenant, plan))


def sku_row(audited: Audited, tenant: str, sku: str) -> Row:
    """The row of one tenant × SKU."""
    return next(row for row in audited.report.skus if (row.tenant, row.sku) == (tenant, sku))


def bridge_amounts(audited: Audited) -> dict[str, Decimal]:
    """The bridge's steps."""
    return {step.step: Decimal(step.amount or 0) for step in audited.report.bridge}


def unexplained(audited: Audited) -> list[str]:
    """Tie-outs that leave a residual without a name, or with one that says that it is a defect."""
    return [
        f"{tie.name}: {tie.residual}"
        for tie in audited.report.tie_out
        if tie.residual not in ("0", None) and (not tie.named or tie.named.startswith("a defect"))
    ]
