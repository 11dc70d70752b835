"""`wattledger statement`: one tenant's usage, to hand over: no price, no other tenant."""

import io
import sys
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from wattledger_audit.audit_run import AuditRequest, run_audit
from wattledger_audit.command_options import Inputs, OptionRefused, Period, Progress, out_console, reads_files
from wattledger_audit.exact_json import json_text
from wattledger_audit.plain_table import plain_line, show_table
from wattledger_audit.rejection_examples import RejectionExamples
from wattledger_audit.report.terminal_line import clean
from wattledger_audit.statement import build_statement
from wattledger_audit.statement_value import Statement
from wattledger_audit.tenant_lookup import tenant_meant

_FILE_WIDTH = 160
NO_FILE = "no file: give a usage log, such as `wattledger statement --tenant acme usage.csv`"


@reads_files("statement", NO_FILE)
def statement_command(
    inputs: Inputs,
    tenant: Annotated[str, typer.Option(help="The tenant that it is for")],
    period: Period = None,
    out: Annotated[Path | None, typer.Option(dir_okay=False, help="Write it to this file instead of stdout")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object")] = False,
) -> None:
    """One tenant's usage by project, job, SKU and day, with the quantities it was billed: for the tenant to read."""
    if out is not None and any(out.exists() and out.samefile(path) for path, _ in inputs.files):
        raise OptionRefused(f"--out {out} is one of the files that are read: name another")
    progress, rejections = Progress(), RejectionExamples()
    request = AuditRequest(inputs.files, inputs.options, period)
    assessment = run_audit(request, rejections, progress).assessment
    name = tenant_meant(assessment, tenant)
    if name is None:
        # Near names would be other tenants: who writes statements may not be allowed to see them.
        raise OptionRefused(f"--tenant {tenant!r}: there is no such tenant in the files: check its spelling")
    statement = build_statement(assessment, name)
    progress.done()
    for said in rejections.told():
        sys.stderr.write(f"{clean(said)}\n")
    text = json_text(statement) if as_json else None
    if out is not None:
        out.write_text(_as_text(statement) if text is None else text, encoding="utf-8")
    elif text is not None:
        sys.stdout.write(text)
    else:
        _show(out_console(), statement)


def _as_text(statement: Statement) -> str:
    text = io.StringIO()
    _show(Console(file=text, width=_FILE_WIDTH, highlight=False, color_system=None), statement)
    return text.getvalue()


def _show(console: Console, one: Statement) -> None:
    console.print(plain_line(f"Usage of {one.tenant}"), style="bold")
    console.print(plain_line(f"from {one.period_start} to {one.period_end} ({one.timezone})"))
    energy = "" if one.energy_kwh is None else f", {one.energy_kwh} kWh measured"
    free = f", of which {one.not_charged_gpu_hours} not charged" if Decimal(one.not_charged_gpu_hours) else ""
    console.print(plain_line(f"{one.gpu_hours} GPU-hours{free}{energy}"))
    known = ", ".join(f"{what}: {how}" for what, how in one.depth.items())
    console.print(plain_line(f"How it is known: {known}"))
    console.print()
    show_table(
        console, "By SKU (GPU-hours)",
        ("SKU", "plan", "GPU model", "held", "not charged", "reserved, unused", "kept exclusively", "billable",
         "billed", "kWh"),
        [
            (row.sku, row.plan, row.gpu_model, row.gpu_hours, row.not_charged_gpu_hours, row.reserved_unused_gpu_hours,
             row.kept_exclusively_gpu_hours, row.billable_gpu_hours, row.billed_gpu_hours, row.energy_kwh)
            for row in one.skus
        ],
        3,
    )  # fmt: skip
    show_table(
        console, "By project", ("project", "runs", "GPU-hours", "not charged", "kWh"),
        [
            (row.project, str(row.runs), row.gpu_hours, row.not_charged_gpu_hours, row.energy_kwh)
            for row in one.projects
        ],
    )  # fmt: skip
    show_table(
        console, "By day", ("day", "SKU", "GPU model", "GPU-hours", "not charged", "kWh"),
        [
            (row.day, row.sku, row.gpu_model, row.gpu_hours, row.not_charged_gpu_hours, row.energy_kwh)
            for row in one.days
        ],
        3,
    )  # fmt: skip
    _show_runs(console, one)
    _show_billed(console, one)


def _short(moment: str) -> str:
    """Without seconds where they are 0: the offset stays, which tells the hour that a clock change repeats."""
    return f"{moment[:16]}{moment[19:]}" if moment[16:19] == ":00" else moment


def _show_runs(console: Console, one: Statement) -> None:
    rows = [
        (
            run.project, f"{run.cluster}/{run.job}" if run.cluster else run.job, run.sku, run.gpu_model,
            ("?" if run.gpus is None else str(run.gpus)) + (f" × {run.share}" if run.share else ""), _short(run.start),
            _short(run.end or "running"), run.state, run.note, run.gpu_hours, run.energy_kwh,
        )
        for run in one.runs
    ]  # fmt: skip
    headers = ("project", "job", "SKU", "GPU model", "GPUs", "start", "end", "state", "note", "GPU-hours", "kWh")
    show_table(console, "Runs", headers, rows, 9)


def _show_billed(console: Console, one: Statement) -> None:
    if one.billed is None:
        return
    rows = [
        (
            line.invoice_id,
            line.sku,
            line.category,
            _short(line.start),
            _short(line.end),
            line.quantity,
            line.unit,
            line.gpu_hours,
        )
        for line in one.billed
    ]
    headers = ("invoice", "SKU", "kind", "from", "to", "quantity", "unit", "GPU-hours")
    show_table(console, "Billed quantities", headers, rows, 5)
