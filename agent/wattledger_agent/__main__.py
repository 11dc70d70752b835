"""`wattledger-agent`: play traces through the agent's path, look into its log."""

from pathlib import Path
from typing import Annotated

import typer

from wattledger_agent.clock import SystemClock
from wattledger_agent.player import Pace, Player
from wattledger_agent.publisher import Publisher
from wattledger_agent.settings import AgentSettings
from wattledger_agent.thinning import thin_samples
from wattledger_agent.trace import TraceRefused, read_trace
from wattledger_agent.wal import Wal

app = typer.Typer(
    no_args_is_help=True, help="Reads GPUs and schedulers, keeps in a write-ahead log, publishes to Kafka."
)
EXIT_REFUSED = 3


@app.command()
def play(
    trace: Annotated[Path, typer.Argument(exists=True, help="Trace file: JSON lines")],
    speed: Annotated[float, typer.Option(help="Event time over wall time; 0: as fast as the broker takes it")] = 1.0,
) -> None:
    """Play a recorded trace in real or accelerated time through log and publisher."""
    settings = AgentSettings()
    wal = Wal(settings.wal_path, settings.wal_cap_bytes, settings.wal_full, thin_samples)
    publisher = Publisher(wal, settings.kafka(), settings.topic_prefix, settings.in_flight)
    publisher.start()
    player = Player(wal, publisher, SystemClock(), Pace(speed or None))
    try:
        played = player.play(read_trace(trace))
    except TraceRefused as error:
        typer.echo(f"wattledger-agent: {error}", err=True)
        raise typer.Exit(EXIT_REFUSED) from None
    typer.echo(f"{played.records} records played and delivered, event time up to {played.last_at_us} us")


@app.command()
def wal(path: Annotated[Path, typer.Argument(exists=True, help="Log file")]) -> None:
    """Say what a log still holds."""
    opened = Wal(path)
    typer.echo(f"{opened.count()} records, {opened.kept_bytes} bytes not yet delivered")


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
