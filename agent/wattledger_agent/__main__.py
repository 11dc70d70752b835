"""`wattledger-agent`: the command line. Reads the settings, builds, runs; only here does the agent exit."""

import json
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import structlog
import typer
from pydantic import ValidationError

from wattledger_agent.settings import AgentSettings, load_settings

if TYPE_CHECKING:
    from wattledger_agent.wal_commands import Answer

T = TypeVar("T")

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Reads GPUs and schedulers, keeps what it read in a write-ahead log, publishes to Kafka. Changes no device.",
)
wal_app = typer.Typer(no_args_is_help=True, help="The write-ahead log. No command changes it.")
app.add_typer(wal_app, name="wal")
EXIT_FINDINGS = 1
EXIT_REFUSED = 3
EXIT_CONFIGURATION = 4
EXIT_ENDED = 5
"""A part of the agent ended by itself: whoever supervises it starts it anew."""

Config = Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="TOML file of settings")]
LogFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Log file")]
KeyFile = Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Key of an encrypted log")]


def _fail(text: str, code: int) -> NoReturn:
    typer.echo(f"wattledger-agent: {text}", err=True)
    raise typer.Exit(code)


def _settings(config: Path | None, **given: object) -> AgentSettings:
    try:
        return load_settings(config, **given)
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        _fail(f"settings: {said}", EXIT_CONFIGURATION)
    except ValueError as error:
        _fail(f"settings: {config}: {error}", EXIT_CONFIGURATION)


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    return stop


@app.command()
def run(config: Config = None) -> None:
    """Read, watch, keep and publish until told to stop (SIGTERM, SIGINT)."""
    from wattledger_agent.running import run_agent

    _run(run_agent, _settings(config))


@app.command()
def record(
    out: Annotated[Path, typer.Argument(help="Trace file to write: `play` and the probe trace read it")],
    duration_s: Annotated[float, typer.Option(min=2, help="How long to record, s")] = 60.0,
    config: Config = None,
) -> None:
    """Record what this machine reports to a trace file, in place of publishing it."""
    from wattledger_agent.running import record_trace

    typer.echo(_run(partial(record_trace, out=out, duration_s=duration_s), _settings(config)))


@app.command()
def ticker(config: Config = None) -> None:
    """Write time as a record into job-events and price-book: one process for a whole deployment, on any machine."""
    from wattledger_agent.running import run_the_ticker

    _run(run_the_ticker, _settings(config))


def _run(work: Callable[[AgentSettings, threading.Event], T], settings: AgentSettings) -> T:
    from wattledger_agent.running import AgentRefused, AgentStopped

    try:
        return work(settings, _stop_on_signals())
    except AgentRefused as error:
        _fail(str(error), EXIT_CONFIGURATION)
    except AgentStopped as error:
        _fail(str(error), EXIT_ENDED)


@app.command()
def probe(
    once: Annotated[bool, typer.Option("--once", help="Read once; there is no other way yet")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document")] = False,
    config: Config = None,
) -> None:
    """Say what this machine reports, reading by reading, each with its unit or the reason why there is none."""
    from wattledger_schemas import Codec

    from wattledger_agent.build import build_probes
    from wattledger_agent.clock import SystemClock
    from wattledger_agent.probe_once import once_json, once_text

    clock = SystemClock()
    probes = build_probes(_settings(config), clock, Codec())
    if as_json:
        typer.echo(json.dumps(once_json(probes, clock), indent=2))
    else:
        typer.echo(once_text(probes, clock))


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document")] = False,
    config: Config = None,
) -> None:
    """Look at everything the agent needs: exit code 0 when all is well, 1 when something is wrong."""
    from wattledger_agent import doctor as checks
    from wattledger_agent.running import examine

    found = examine(_settings(config))
    typer.echo(json.dumps(checks.as_json(found), indent=2) if as_json else checks.as_text(found))
    if not checks.is_healthy(found):
        raise typer.Exit(EXIT_FINDINGS)


@app.command()
def play(
    trace: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Trace file: one JSON object a line")],
    speed: Annotated[
        float, typer.Option(min=0, help="Event time over wall time; 0: as fast as the broker takes")
    ] = 1.0,
    bootstrap: Annotated[str, typer.Option(help="Kafka's bootstrap servers; empty: from the settings")] = "",
    topic_prefix: Annotated[str, typer.Option(help="What is put before topic names; empty: from the settings")] = "",
    config: Config = None,
) -> None:
    """Play a recorded trace, in real or accelerated time, through log and publisher; ends when all is delivered.

    The topics must be there: `wattledger topics` makes them. Interrupted, it keeps what was not delivered in the log.
    """
    from wattledger_agent.playing import play_trace
    from wattledger_agent.running import AgentRefused
    from wattledger_agent.trace import TraceRefused

    try:
        typer.echo(play_trace(_settings(config), trace, speed, bootstrap, topic_prefix))
    except TraceRefused as error:
        _fail(str(error), EXIT_REFUSED)
    except AgentRefused as error:
        _fail(str(error), EXIT_CONFIGURATION)


@wal_app.command()
def status(path: LogFile, as_json: Annotated[bool, typer.Option("--json", help="One JSON document")] = False) -> None:
    """Say what a log holds that is not delivered; also beside a running agent."""
    from wattledger_agent.wal_commands import status_answer

    _answer(status_answer(path, as_json))


@wal_app.command()
def export(path: LogFile, out: Annotated[Path, typer.Argument(help="Trace file")], key_file: KeyFile = None) -> None:
    """Write what a log holds to a trace file; also from a file that was put aside as corrupt."""
    from wattledger_agent.wal_commands import export_answer

    _answer(export_answer(path, out, key_file))


@wal_app.command()
def verify(
    path: LogFile, key_file: KeyFile = None, as_json: Annotated[bool, typer.Option("--json", help="JSON")] = False
) -> None:
    """Check every record, the tiling of batches, and holes against gap records: 0 when all is right, 1 when not."""
    from wattledger_agent.wal_commands import verify_answer

    _answer(verify_answer(path, key_file, as_json))


def _answer(answer: "Answer") -> None:
    if answer.exit_code == EXIT_REFUSED:
        _fail(answer.text, EXIT_REFUSED)
    sys.stdout.write(f"{answer.text}\n")
    if answer.exit_code:
        raise typer.Exit(answer.exit_code)


def _log_to_stderr() -> None:
    """One JSON object a line, on standard error: standard output is for what a command answers."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def main() -> None:
    """Entry point of the console script."""
    _log_to_stderr()
    app()


if __name__ == "__main__":
    main()
