"""`wattledger up`: the embedded stack, left running."""

import time
from pathlib import Path
from typing import Annotated

import typer

from wattledger_audit.broker import NoBroker
from wattledger_audit.demo import FUTURE_LIMIT_S, play_into, read_client, settle
from wattledger_audit.generated_fleet import demo_day
from wattledger_audit.stack import Stack, StackSettings

EXIT_CONFIGURATION = 4
BrokerOption = Annotated[str, typer.Option("--broker", help="auto, kafka, docker, tansu or host:port")]
Libs = Annotated[Path, typer.Option(help="Folder with Apache Kafka's jars")]


def say(text: str) -> None:
    """Progress, on stderr."""
    typer.echo(text, err=True)


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
            say(stack.broker.line)
            read_client(stack).close()
            typer.echo(
                f"ClickHouse, read-only: http://127.0.0.1:{port}/ database wattledger; Kafka: {stack.broker.bootstrap}"
            )
            if with_demo:
                play_into(stack, demo_day(), say)
                settle(stack, say)
                typer.echo("the demo's day is in")
            while True:
                time.sleep(1)
    except KeyboardInterrupt:
        say("stopped")
    except NoBroker as error:
        say(f"wattledger up: {error}")
        raise typer.Exit(EXIT_CONFIGURATION) from None
