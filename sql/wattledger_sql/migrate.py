"""Applies migrations to the client's database, once each, in order, and refuses a released one that was edited."""

from clickhouse_connect.driver.client import Client

from wattledger_sql.render import SINGLE, Layout, Migration, MigrationError, migrations, statements


def migrate(client: Client, layout: Layout = SINGLE) -> list[str]:
    """Bring `client.database` up to date; names of the migrations applied, in order.

    Every statement says IF NOT EXISTS, and a migration is recorded after its last one: a run that was cut off is
    simply run again. Raises `MigrationError` when a recorded migration was edited since, or is not in this package.
    """
    known = migrations()
    for statement in statements(known[0], layout):
        client.command(statement)
    recorded = applied(client)
    _check(known, recorded)
    done = []
    for migration in known:
        if migration.version in recorded:
            continue
        for statement in statements(migration, layout):
            client.command(statement)
        _record(client, migration)
        done.append(migration.name)
    return done


def applied(client: Client) -> dict[int, tuple[str, str]]:
    """Name and checksum of every migration recorded in the database, by number."""
    rows = client.query("SELECT version, name, toString(checksum) FROM schema_migrations FINAL ORDER BY version")
    return {int(version): (str(name), str(checksum)) for version, name, checksum in rows.result_rows}


def _check(known: list[Migration], recorded: dict[int, tuple[str, str]]) -> None:
    by_version = {migration.version: migration for migration in known}
    for version, (name, checksum) in recorded.items():
        migration = by_version.get(version)
        if migration is None:
            raise MigrationError(
                f"migration {name} is in the database but not in this package: "
                "the database is newer, upgrade wattledger"
            )
        if migration.checksum != checksum:
            raise MigrationError(
                f"migration {migration.name} was edited after it was applied (recorded {checksum[:12]}, file "
                f"{migration.checksum[:12]}): restore the released file and put the change in a new migration"
            )


def _record(client: Client, migration: Migration) -> None:
    client.insert(
        "schema_migrations",
        [[migration.version, migration.name, migration.checksum.encode()]],
        column_names=["version", "name", "checksum"],
        settings={"async_insert": 0},
    )
