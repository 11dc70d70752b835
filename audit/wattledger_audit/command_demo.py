"""`wattledger demo`: the generated day through the embedded stack, what the tables say, and its report."""

import sys
from pathlib import Path
from shutil import rmtree
from typing import Annotated

import structlog
import typer
from rich.console import Console

from wattledger_audit.broker import NoBroker
from wattledger_audit.command_stack import EXIT_CONFIGURATION, BrokerOption, Libs, say
from wattledger_audit.demo import FUTURE_LIMIT_S
from wattledger_audit.demo_run import DemoRun, run_demo
from wattledger_audit.generated_fleet import demo_day
from wattledger_audit.stack import StackSettings
from wattledger_audit.terminal import show

EXIT_CONDITION = 1
Out = Annotated[Path, typer.Option(help="Folder for what the run writes")]


def demo_command(
    out: Out = Path("out/demo"), broker: BrokerOption = "auto", kafka_libs: Libs = Path(".cache/kafka/libs")
) -> None:
    """Play the generated day of a fleet through the whole embedded stack and say who is below cost."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    stack_dir = out / "stack"
    rmtree(stack_dir, ignore_errors=True)
    settings = StackSettings(stack_dir, kafka_libs, broker, future_limit_s=FUTURE_LIMIT_S)
    try:
        run = run_demo(settings, demo_day(), out, say)
    except NoBroker as error:
        say(f"wattledger demo: {error}")
        raise typer.Exit(EXIT_CONFIGURATION) from None
    show(Console(width=150), run.summary)
    _close(run, out)


def _close(run: DemoRun, out: Path) -> None:
    typer.echo(f"{run.broker_line}")
    typer.echo(
        f"{run.seconds:.0f} s ({run.report_seconds:.0f} of them the report), {run.peak_pss_bytes / 1e6:.0f} MB in all "
        f"(summed PSS, highest seen), {run.restarts} worker restarts; summary: {out / 'summary.json'}"
    )
    broken = [law["law"] for law in run.summary["verify"] if not law["ok"]]
    if broken:
        typer.echo(f"laws broken: {', '.join(broken)}")
    typer.echo(f"report: {run.report}")
    if broken:
        raise typer.Exit(EXIT_CONDITION)
