"""`wattledger demo` and `wattledger up`: the embedded stack."""

import sys
import time
from pathlib import Path
from shutil import rmtree
from typing import Annotated

import structlog
import typer
from rich.console import Console

from wattledger_audit.broker import NoBroker
from wattledger_audit.demo import FUTURE_LIMIT_S, DemoRun, play_into, read_client, run_demo, settle
from wattledger_audit.generated_fleet import demo_day
from wattledger_audit.stack import Stack, StackSettings
from wattledger_audit.terminal import show

EXIT_CONDITION = 1
EXIT_CONFIGURATION = 4
MEMORY_LIMIT_BYTES = 3_000_000_000
Out = Annotated[Path, typer.Option(help="Folder for what the run writes")]
BrokerOption = Annotated[str, typer.Option("--broker", help="auto, kafka, docker, tansu or host:port")]
Libs = Annotated[Path, typer.Option(help="Folder with Apache Kafka's jars")]


def _say(text: str) -> None:
    typer.echo(text, err=True)


def demo_command(
    out: Out = Path("out/demo"), broker: BrokerOption = "auto", kafka_libs: Libs = Path(".cache/kafka/libs")
) -> None:
    """Play the generated day of a fleet through the whole embedded stack and say who is below cost."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    stack_dir = out / "stack"
    rmtree(stack_dir, ignore_errors=True)
    settings = StackSettings(stack_dir, kafka_libs, broker, future_limit_s=FUTURE_LIMIT_S)
    try:
        run = run_demo(settings, demo_day(), out, _say)
    except NoBroker as error:
        _say(f"wattledger demo: {error}")
        raise typer.Exit(EXIT_CONFIGURATION) from None
    show(Console(width=150), run.summary)
    _close(run, out)


def _close(run: DemoRun, out: Path) -> None:
    typer.echo(f"{run.broker_line}")
    typer.echo(
        f"{run.seconds:.0f} s, {run.peak_pss_bytes / 1e6:.0f} MB in all (summed PSS, highest seen), "
        f"{run.restarts} worker restarts; summary: {out / 'summary.json'}"
    )
    broken = [law["law"] for law in run.summary["verify"] if not law["ok"]]
    if broken:
        typer.echo(f"laws broken: {', '.join(broken)}")
        raise typer.Exit(EXIT_CONDITION)


def up_command(
    work_dir: Annotated[Path, typer.Option(help="Where broker and tables live; kept between runs")] = Path("out/up"),
    port: Annotated[int, typer.Option(help="Port of the read-only ClickHouse HTTP endpoint on loopback")] = 8123,
    broker: BrokerOption = "kafka",
    kafka_libs: Libs = Path(".cache/kafka/libs"),
    with_demo: Annotated[bool, typer.Option("--with-demo", help="Play the demo's day into it")] = False,
) -> None:
    """Start the embedded stack and leave it running until Ctrl-C; query it with any ClickHouse client."""
    limit_s = FUTURE_LIMIT_S if with_demo else 300
    settings = StackSettings(work_dir, kafka_libs, broker, endpoint_port=port, future_limit_s=limit_s)
    try:
        with Stack(settings) as stack:
            _say(stack.broker.line)
            read_client(stack).close()
            typer.echo(
                f"ClickHouse, read-only: http://127.0.0.1:{port}/ database wattledger; Kafka: {stack.broker.bootstrap}"
            )
            if with_demo:
                play_into(stack, demo_day(), _say)
                settle(stack, _say)
                typer.echo("the demo's day is in")
            while True:
                time.sleep(1)
    except KeyboardInterrupt:
        _say("stopped")
    except NoBroker as error:
        _say(f"wattledger up: {error}")
        raise typer.Exit(EXIT_CONFIGURATION) from None
