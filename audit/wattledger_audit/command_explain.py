"""`wattledger explain`: every number of a tenant, or of a job, back to its lines, price versions and formulas."""

import sys
from decimal import Decimal
from difflib import get_close_matches
from itertools import islice
from typing import Annotated

import typer

from wattledger_audit.assessment.assess import Assessment
from wattledger_audit.audit_run import Audited, AuditRequest, run_audit
from wattledger_audit.command_options import (
    Inputs,
    OptionRefused,
    Period,
    Progress,
    out_console,
    plain_amount,
    reads_files,
)
from wattledger_audit.exact_json import json_text
from wattledger_audit.explain_tables import show_job, show_tenant
from wattledger_audit.explain_value import JobExplained, TenantExplained
from wattledger_audit.explaining import explain_tenant
from wattledger_audit.explaining_job import explain_job
from wattledger_audit.explaining_runs import runs_of_job
from wattledger_audit.rejection_examples import RejectionExamples
from wattledger_audit.report.terminal_line import clean
from wattledger_audit.tenant_lookup import tenant_meant, tenants_of

TENANT, JOB = "tenant", "job"
_NEAR_JOBS = 20_000
NO_FILE = "no file: give those of the audit, such as `wattledger explain acme usage.csv invoices.csv costs.yaml`"


@reads_files("explain", NO_FILE)
def explain_command(
    inputs: Inputs,
    name: Annotated[str, typer.Argument(metavar="TENANT|JOB", help="A tenant, a job, or cluster/job")],
    per_gpu_hour: Annotated[
        Decimal | None, typer.Option(parser=plain_amount, help="One cost per GPU-hour for all, in place of a cost file")
    ] = None,
    period: Period = None,
    kind: Annotated[str | None, typer.Option("--as", help="tenant or job, where a name is both")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout")] = False,
) -> None:
    """Lead every number of a tenant's row, or of a job, back to its lines, price versions and formulas."""
    if kind not in (None, TENANT, JOB):
        raise OptionRefused(f"--as {kind!r}: use {TENANT} or {JOB}")
    progress, rejections = Progress(), RejectionExamples()
    request = AuditRequest(inputs.files, inputs.options, period, per_gpu_hour)
    audited = run_audit(request, rejections, progress)
    explained = _explained(audited, name, kind)
    progress.done()
    for said in rejections.told():
        sys.stderr.write(f"{clean(said)}\n")
    if as_json:
        sys.stdout.write(json_text(explained))
    elif isinstance(explained, TenantExplained):
        show_tenant(out_console(), explained)
    else:
        show_job(out_console(), explained)


def _explained(audited: Audited, name: str, kind: str | None) -> TenantExplained | JobExplained:
    assessment = audited.assessment
    tenant = None if kind == JOB else tenant_meant(assessment, name)
    jobs = {} if kind == TENANT else runs_of_job(assessment, name)
    if tenant is not None:
        if jobs:
            sys.stderr.write(
                f"{clean(name)} is a tenant and a job: the tenant is explained; say --as job for the job\n"
            )
        return explain_tenant(audited, tenant)
    if len(jobs) > 1:
        choices = ", ".join(f"{cluster}/{name}" for cluster in sorted(jobs))
        raise OptionRefused(f"{name!r} is a job of {len(jobs)} clusters: name one of {choices}")
    if not jobs:
        raise OptionRefused(_unknown(assessment, name))
    return explain_job(assessment, next(iter(jobs.values())))


def _unknown(assessment: Assessment, name: str) -> str:
    known = [*tenants_of(assessment), *islice(dict.fromkeys(assessment.runs.jobs), _NEAR_JOBS)]
    near = get_close_matches(name, known, n=3)
    meant = f": did you mean {', '.join(repr(each) for each in near)}?" if near else ""
    return f"{name!r} is no tenant and no job of these files{meant or ': `wattledger audit` lists the tenants'}"
