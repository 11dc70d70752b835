"""`wattledger verify`, `migrate`, `topics`, `prices`: what an operator does to a deployment."""

import json
from pathlib import Path
from typing import Annotated

import clickhouse_connect
import typer
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error
from wattledger_core.pricing_check import PriceRefused
from wattledger_schemas import Codec, load_contracts, partition_for
from wattledger_sql.migrate import migrate
from wattledger_sql.render import MigrationError
from wattledger_sql.verify import LawResult, verify
from wattledger_streams.mapping import to_wire_price
from wattledger_streams.outbox import NotDelivered, Outbox
from wattledger_streams.partitions import TopicsMissing, partition_counts
from wattledger_streams.settings import WorkerSettings
from wattledger_streams.tariff_file import load_price_sheet
from wattledger_streams.tariff_file_text import PriceSheetError
from wattledger_streams.topics import TopicRefused, create_topics

from wattledger_audit.price_changes import check_changes, published_prices
from wattledger_audit.topic_amounts import amounts_by_component, fold_topic

EXIT_CONDITION = 1
EXIT_REFUSED = 3
EXIT_CONFIGURATION = 4
Dsn = Annotated[str, typer.Option(help="http(s)://host:port of a server or of a running stack; empty: --path")]
Database = Annotated[str, typer.Option(help="Database")]

topics_app = typer.Typer(no_args_is_help=True, help="Topics from the contracts.")
prices_app = typer.Typer(no_args_is_help=True, help="The price book.")


def _fail(text: str, code: int) -> typer.Exit:
    typer.echo(f"wattledger: {text}", err=True)
    return typer.Exit(code)


def _client(dsn: str, path: Path | None, database: str) -> Client:
    """A client for a server, a running stack, or the folder of a finished one."""
    try:
        if dsn:
            return clickhouse_connect.get_client(dsn=dsn, database=database)
        if path is not None:
            client = clickhouse_connect.get_client(interface="chdb", path=str(path))
            client.command(f"CREATE DATABASE IF NOT EXISTS `{database}`")
            client.database = database
            return client
    except (Error, OSError) as error:
        raise _fail(f"ClickHouse does not answer: {error}", EXIT_CONFIGURATION) from None
    raise _fail("say where the tables are: --dsn http://127.0.0.1:8123 or --path out/demo/stack/clickhouse", 2)


def verify_command(
    dsn: Dsn = "",
    path: Annotated[Path | None, typer.Option(help="Folder of a finished embedded stack")] = None,
    database: Database = "wattledger",
    bootstrap: Annotated[str, typer.Option(help="Kafka too: also compare with the folded tenant-cost topic")] = "",
    topic_prefix: str = "",
    grace_s: Annotated[int, typer.Option(help="Running stack: leave out what came in the last seconds")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout")] = False,
) -> None:
    """Run the laws as SQL on the tables; exit code 1 when one is broken."""
    client = _client(dsn, path, database)
    amounts = None
    if bootstrap:
        kafka = WorkerSettings(bootstrap=bootstrap, topic_prefix=topic_prefix)
        partitions = _partitions(kafka)["tenant-cost"]
        amounts = amounts_by_component(fold_topic(kafka.kafka(), kafka.topic("tenant-cost"), partitions))
    try:
        laws = verify(client, amounts, grace_s=grace_s)
    except Error as error:
        raise _fail(f"the laws can't be run: {error}", EXIT_CONFIGURATION) from None
    finally:
        client.close()
    if as_json:
        typer.echo(json.dumps({"ok": all(law.ok for law in laws), "laws": [_law_json(law) for law in laws]}))
    else:
        for law in laws:
            typer.echo(f"{'holds ' if law.ok else 'BROKEN'} {law.name}: residual {law.residual} {law.unit}")
            for broken in law.rows:
                typer.echo(f"         {broken.what}: {broken.residual}")
    if not all(law.ok for law in laws):
        raise typer.Exit(EXIT_CONDITION)


def _law_json(law: LawResult) -> dict[str, object]:
    rows = [{"what": row.what, "residual": row.residual} for row in law.rows]
    plain = {"name": law.name, "ok": law.ok, "residual": law.residual, "unit": law.unit, "violations": law.violations}
    return {**plain, "rows": rows}


def _partitions(settings: WorkerSettings) -> dict[str, int]:
    try:
        return partition_counts(settings)
    except TopicsMissing as error:
        raise _fail(str(error), EXIT_CONFIGURATION) from None


def migrate_command(
    dsn: Dsn = "",
    path: Annotated[Path | None, typer.Option(help="Folder of an embedded stack that is not running")] = None,
    database: Database = "wattledger",
) -> None:
    """Bring the tables up to date."""
    client = _client(dsn, path, database)
    try:
        done = migrate(client)
    except MigrationError as error:
        raise _fail(str(error), EXIT_CONFIGURATION) from None
    finally:
        client.close()
    typer.echo(f"applied: {', '.join(done) or 'nothing, up to date'}")


@topics_app.command("create")
def topics_create(
    bootstrap: Annotated[str, typer.Option(help="Kafka's bootstrap servers")] = "127.0.0.1:9092",
    prefix: Annotated[str, typer.Option(help="Prefix of every topic name")] = "",
    partitions: Annotated[int | None, typer.Option(help="Instead of the contracts' counts (those above one)")] = None,
    replication: Annotated[int, typer.Option(help="Replication factor")] = 3,
) -> None:
    """Make what is missing of the contracts' topics."""
    settings = WorkerSettings(bootstrap=bootstrap)
    try:
        made = create_topics(settings.kafka(), prefix, partitions, replication)
    except TopicRefused as error:
        raise _fail(str(error), EXIT_CONFIGURATION) from None
    typer.echo(f"made: {', '.join(made) or 'nothing, all there'}")


@topics_app.command("list")
def topics_list() -> None:
    """Say what the contracts are."""
    for contract in load_contracts().values():
        kept = "for ever" if contract.retention_hours < 0 else f"{contract.retention_hours // 24} d"
        what = f"key: {contract.key}; {contract.partitions} partitions; kept {kept}; by {contract.owner}"
        typer.echo(f"{contract.name:18} {what}")


@prices_app.command("apply")
def prices_apply(
    sheet: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Price sheet, YAML")],
    bootstrap: Annotated[str, typer.Option(help="Kafka's bootstrap servers")] = "127.0.0.1:9092",
    prefix: str = "",
    backdate_reason: Annotated[
        str, typer.Option(help="Why a price may start in the past: it corrects what is booked")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be published")] = False,
) -> None:
    """Publish a price sheet to the price book. What has started is frozen but for its end."""
    settings = WorkerSettings(bootstrap=bootstrap, topic_prefix=prefix)
    try:
        prices = load_price_sheet(sheet)
        book = published_prices(settings)
        changed = check_changes(prices, book, backdate_reason)
    except (PriceSheetError, PriceRefused) as error:
        raise _fail(str(error), EXIT_REFUSED) from None
    for price in changed:
        until = "open" if price.end_us is None else price.end_us
        typer.echo(f"{price.kind} {price.price_id[:12]} {price.rate} {price.currency} from {price.start_us} to {until}")
    if not dry_run and changed:
        outbox, codec = Outbox(settings.kafka()), Codec()
        for price in changed:
            value = codec.encode("price", to_wire_price(price))
            outbox.send(settings.topic("price-book"), partition_for(price.price_id, 1), price.price_id, value)
        try:
            outbox.settle_blocking()
        except NotDelivered as error:
            raise _fail(str(error), EXIT_CONFIGURATION) from None
    typer.echo(f"{len(changed)} of {len(prices)} prices {'would be ' if dry_run else ''}published")
