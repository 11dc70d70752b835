"""`wattledger audit`: files in, a report out; the verdict on the terminal, the exit code for schedulers."""

import gc
import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wattledger_audit.audit_run import AuditRequest, run_audit, write_audit
from wattledger_audit.command_options import Inputs, OptionRefused, Period, Progress, plain_amount, reads_files
from wattledger_audit.fail_condition import Condition, ConditionRefused, failures, parse_conditions
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.report.terminal_audit import show_audit

NO_FILE = "no file: give a usage log and a billing export, such as `wattledger audit usage.csv invoices.csv`"


@reads_files("audit", NO_FILE)
def audit_command(
    inputs: Inputs,
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for the report; made when it is not there")],
    per_gpu_hour: Annotated[
        Decimal | None, typer.Option(parser=plain_amount, help="One cost per GPU-hour for all, in place of a cost file")
    ] = None,
    period: Period = None,
    as_json: Annotated[bool, typer.Option("--json", help="report.json on stdout, the rest on stderr")] = False,
    fail_on: Annotated[str | None, typer.Option(help="below-cost, idle>20%, unbilled>5%, …: exit code 1")] = None,
) -> None:
    """Say who is billed below cost, what was not billed, and what to charge: from a usage log and a billing export."""
    console = Console(stderr=as_json, highlight=False, soft_wrap=True)
    conditions = _conditions(fail_on)
    request = AuditRequest(inputs.files, inputs.options, period, per_gpu_hour)
    parameters: dict[str, object] = {
        "files": [path.name for path, _ in inputs.files], "period": period, "fail_on": fail_on, **inputs.said,
        "per_gpu_hour": None if per_gpu_hour is None else str(per_gpu_hour),
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    # millions of values without a cycle among them: looking for cycles took 3.4 s of 48 s for a million runs
    gc.disable()
    with Rejections.into(out / "rejected.csv") as rejections:
        audited = run_audit(request, rejections, Progress())
    write_audit(audited, out, parameters)
    show_audit(console, audited.report, out)
    if as_json:
        sys.stdout.write((out / "report.json").read_text(encoding="utf-8"))
    failed = failures(conditions, audited.report)
    for said in failed:
        sys.stderr.write(f"--fail-on: {said}\n")
    if failed:
        raise typer.Exit(1)


def _conditions(fail_on: str | None) -> list[Condition]:
    try:
        return parse_conditions(fail_on) if fail_on else []
    except ConditionRefused as error:
        raise OptionRefused(str(error)) from error
