"""`wattledger-agent`: the command line. Reads the settings, builds, runs; only here does the agent exit."""

import json
import os
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

from wattledger_agent.settings import DEFAULT_FILE, AgentSettings, load_settings
from wattledger_agent.settings_variables import UnknownVariable

if TYPE_CHECKING:
    from wattledger_agent.wal_commands import Answer

T = TypeVar("T")

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Reads GPUs and schedulers, keeps what it read in a write-ahead log, publishes to Kafka. Changes no device.",
    epilog="Exit codes: 0; 1 something is wrong (doctor, verify, record); 2 a wrong command line; 3 a file is refused; "
    "4 the settings or the machine refuse a start; 5 not now, or a part ended by itself: start it again.",
)
wal_app = typer.Typer(no_args_is_help=True, help="The write-ahead log. No command changes it.")
app.add_typer(wal_app, name="wal")
EXIT_FINDINGS = 1
EXIT_REFUSED = 3
EXIT_CONFIGURATION = 4
EXIT_ENDED = 5
"""A part of the agent ended by itself, or something is not free now: whoever supervises it starts it anew."""
EXIT_INTERRUPTED = 130

Config = Annotated[
    Path | None, typer.Option(help=f"TOML file of settings; not given: {DEFAULT_FILE} in this folder, if it is there")
]
LogFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Log file")]
KeyFile = Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Key of an encrypted log")]


def _fail(text: str, code: int) -> NoReturn:
    typer.echo(f"wattledger-agent: {text}", err=True)
    raise typer.Exit(code)


def _settings(config: Path | None, **given: object) -> AgentSettings:
    file = config or DEFAULT_FILE
    try:
        return load_settings(config, **given)
    except ValidationError as error:
        from wattledger_agent.settings_refused import refusals
        from wattledger_agent.settings_variables import Variables

        said = refusals(error, file, Variables(AgentSettings).env_vars)
        said.append("`wattledger-agent settings` lists every setting with its default")
        _fail("\nwattledger-agent: ".join(said), EXIT_CONFIGURATION)
    except OSError as error:
        _fail(f"{file}: {error.strerror}: --config names the TOML file of settings", EXIT_CONFIGURATION)
    except UnknownVariable as error:
        _fail(f"{error}; `wattledger-agent settings` lists every setting", EXIT_CONFIGURATION)
    except ValueError as error:
        _fail(f"{file} is no TOML: {error}", EXIT_CONFIGURATION)


def _stop_on_signals() -> threading.Event:
    """Set by what asks a process to end: also by a terminal that goes away, but where nohup has it ignored."""
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if name != signal.SIGHUP or signal.getsignal(name) != signal.SIG_IGN:
            signal.signal(name, lambda *_: stop.set())
    return stop


def _say_version(is_asked: bool) -> None:
    if is_asked:
        from wattledger_agent.build import agent_version

        typer.echo(f"wattledger-agent {agent_version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version and end.")
    ] = False,
) -> None:
    """What all commands share."""


@app.command()
def run(config: Config = None) -> None:
    """Read, watch, keep and publish until told to stop (SIGTERM, SIGINT, SIGHUP).

    Logs are JSON lines on standard error, times in UTC. Settings are read
    once: restart it after a change.
    """
    from wattledger_agent.running import run_agent

    _run(run_agent, _settings(config))


@app.command()
def record(
    out: Annotated[Path, typer.Argument(help="Trace file to write: `play` and the probe `trace` read it")],
    duration_s: Annotated[float, typer.Option(min=2, help="How long to record, s")] = 60.0,
    config: Config = None,
) -> None:
    """Record what this machine reports to a trace file, in place of publishing it."""
    from wattledger_agent.running import NothingRecorded, record_trace

    try:
        typer.echo(_run(partial(record_trace, out=out, duration_s=duration_s), _settings(config)))
    except NothingRecorded as error:
        _fail(str(error), EXIT_FINDINGS)


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
    once: Annotated[bool, typer.Option("--once", help="Read once: there is no other way yet")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document")] = False,
    config: Config = None,
) -> None:
    """Say what this machine reports, reading by reading, each with its unit or the reason why there is none."""
    from wattledger_schemas import Codec

    from wattledger_agent.build import build_probes
    from wattledger_agent.clock import SystemClock
    from wattledger_agent.probe_once import once_json, once_text

    clock, settings = SystemClock(), _settings(config)
    try:
        probes = build_probes(settings, clock, Codec())
    except ValueError as error:
        _fail(str(error), EXIT_CONFIGURATION)
    if as_json:
        typer.echo(json.dumps(once_json(probes, clock), indent=2))
    else:
        typer.echo(once_text(probes, clock))


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document")] = False,
    config: Config = None,
) -> None:
    """Look at everything the agent needs: exit code 0 when nothing is wrong, 1 when something is.

    Harmless beside a running agent. Run it as the agent's user and with its
    variables: what another user may do is another matter.
    """
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

    The topics must be there: `wattledger topics create` makes them. What it
    plays goes through the log of the settings (wal.path) to their broker, as
    the node that the trace speaks of. Interrupted, it keeps in that log what
    was not delivered; the next `play` or `run` on that log delivers it.
    """
    from wattledger_agent.playing import play_trace
    from wattledger_agent.running import AgentRefused, AgentStopped
    from wattledger_agent.trace import TraceRefused

    given = {name: value for name, value in (("bootstrap", bootstrap), ("topic_prefix", topic_prefix)) if value}
    settings = _settings(config, **({"kafka": given} if given else {}))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        typer.echo(play_trace(settings, trace, speed))
    except TraceRefused as error:
        _fail(str(error), EXIT_REFUSED)
    except AgentRefused as error:
        _fail(str(error), EXIT_CONFIGURATION)
    except AgentStopped as error:
        _fail(str(error), EXIT_ENDED)
    except KeyboardInterrupt:
        _fail(f"interrupted: what the broker has not taken is in {settings.wal.path}", EXIT_INTERRUPTED)


@app.command()
def settings(config: Config = None) -> None:
    """Print every setting as a TOML file: what it is for, its bounds, its default, and what is set now. No secrets."""
    from wattledger_agent.settings_list import settings_text

    typer.echo(settings_text(_settings(config)), nl=False)


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
    path: LogFile,
    key_file: KeyFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document")] = False,
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
    # the log, the lock and the agent's identity are nobody else's to read
    os.umask(0o077)
    _log_to_stderr()
    app()


if __name__ == "__main__":
    main()
