"""`wattledger-agent`: play traces through the agent's path, look into its log."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from prometheus_client import start_http_server
from pydantic import ValidationError
from wattledger_schemas import Codec

from wattledger_agent.clock import SystemClock
from wattledger_agent.player import Pace, Player
from wattledger_agent.publisher import Publisher
from wattledger_agent.settings import AgentSettings, load_settings
from wattledger_agent.thinning import batch_thinner
from wattledger_agent.trace import TraceRefused, read_trace
from wattledger_agent.wal import Wal
from wattledger_agent.wal_gap import gap_encoder
from wattledger_agent.wal_record import WalUnavailable
from wattledger_agent.wal_status import read_status

app = typer.Typer(
    no_args_is_help=True, help="Reads GPUs and schedulers, keeps in a write-ahead log, publishes to Kafka."
)
wal_app = typer.Typer(no_args_is_help=True, help="The write-ahead log.")
app.add_typer(wal_app, name="wal")
EXIT_REFUSED = 3
EXIT_CONFIGURATION = 4


def _fail(text: str, code: int) -> NoReturn:
    typer.echo(f"wattledger-agent: {text}", err=True)
    raise typer.Exit(code)


def build_wal(settings: AgentSettings) -> Wal:
    """The log of these settings. Raises WalUnavailable."""
    codec = Codec()
    return Wal(
        settings.wal_path,
        settings.wal_cap_bytes,
        settings.wal_full,
        batch_thinner(codec),
        gap_encoder(settings.node, settings.agent_id, codec),
    )


@app.command()
def play(
    trace: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Trace file: one JSON object a line")],
    speed: Annotated[
        float, typer.Option(min=0, help="Event time over wall time; 0: as fast as the broker takes")
    ] = 1.0,
    bootstrap: Annotated[str, typer.Option(help="Kafka's bootstrap servers; empty: from the settings")] = "",
    topic_prefix: Annotated[str, typer.Option(help="What is put before topic names; empty: from the settings")] = "",
    config: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="TOML file of settings")] = None,
) -> None:
    """Play a recorded trace, in real or accelerated time, through log and publisher; ends when all is delivered.

    The topics must be there: `wattledger topics` makes them. Interrupted, it keeps what was not delivered in the log.
    """
    given = {"bootstrap": bootstrap, "topic_prefix": topic_prefix}
    try:
        settings = load_settings(config, **{name: value for name, value in given.items() if value})
    except ValidationError as error:
        _fail(f"settings: {error}", EXIT_CONFIGURATION)
    if settings.metrics_port:
        start_http_server(settings.metrics_port, addr="127.0.0.1")
    try:
        log = build_wal(settings)
    except WalUnavailable as error:
        _fail(str(error), EXIT_CONFIGURATION)
    publisher = Publisher(log, settings.kafka(), settings.topic_prefix, settings.in_flight)
    publisher.start()
    player = Player(log, publisher, SystemClock(), Pace(speed or None))
    try:
        played = player.play(read_trace(trace, Codec()))
    except TraceRefused as error:
        _fail(str(error), EXIT_REFUSED)
    finally:
        log.close()
    typer.echo(f"{played.records} records played and delivered, event time up to {_moment(played.last_at_us)}")


@wal_app.command()
def status(path: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Log file")]) -> None:
    """Say what a log holds that is not delivered; changes nothing, also beside a running agent."""
    try:
        found = read_status(path)
    except WalUnavailable as error:
        _fail(str(error), EXIT_REFUSED)
    waiting = sum(topic.count for topic in found.topics)
    typer.echo(f"{waiting} records, {sum(topic.size_bytes for topic in found.topics)} bytes not yet delivered")
    for topic in found.topics:
        typer.echo(f"  {topic.topic}: {topic.count} records, {_moment(topic.first_us)} to {_moment(topic.last_us)}")
    for reason, count in found.set_aside:
        typer.echo(f"{count} records set aside ({reason}); they stay in the table set_aside")
    for file in found.files_put_aside:
        typer.echo(f"corrupt file put aside: {file}")


def _moment(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
