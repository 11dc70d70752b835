"""Migrations: applied once and in order, refused when edited, documented to the last column, the same for a cluster."""

import re
from hashlib import sha256
from pathlib import Path

import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError
from wattledger_sql import migrate as migrate_module
from wattledger_sql.migrate import applied, migrate
from wattledger_sql.render import (
    SINGLE,
    Layout,
    Migration,
    MigrationError,
    cluster_layout,
    migrations,
    statements,
)

GOLDEN = Path(__file__).parent.parent / "golden"
CLUSTER = cluster_layout("fleet")


def all_statements(layout: Layout) -> list[str]:
    return [statement for migration in migrations() for statement in statements(migration, layout)]


def shape(statement: str) -> list[str]:
    """The lines of a statement that say where it runs and how the table is kept."""
    return [
        line for line in statement.splitlines() if line.startswith(("ALTER", "CREATE", "DROP", "ENGINE", "REFRESH"))
    ]


def test_released_migrations_are_as_they_were_released() -> None:
    found = "".join(f"{migration.name} {migration.checksum}\n" for migration in migrations())
    assert found == (GOLDEN / "sql_checksums.txt").read_text(), "put a change in a new migration"


def test_checksum_is_the_sha256_of_the_file() -> None:
    assert Migration(1, "0001_create_x", "a").checksum == sha256(b"a").hexdigest()


def test_for_a_cluster_every_statement_runs_everywhere_and_every_table_is_replicated() -> None:
    found = "\n".join("\n".join(shape(statement)) for statement in all_statements(CLUSTER)) + "\n"
    assert found == (GOLDEN / "sql_cluster.txt").read_text()


def test_apart_from_that_a_cluster_gets_the_same_statements() -> None:
    for single, cluster in zip(all_statements(SINGLE), all_statements(CLUSTER), strict=True):
        assert cluster.replace(" ON CLUSTER fleet", "").replace("= ReplicatedReplacing", "= Replacing") == single


@pytest.mark.chdb
@pytest.mark.parametrize("layout", [SINGLE, CLUSTER], ids=["single", "cluster"])
def test_every_rendered_statement_parses(chdb_client: Client, layout: Layout) -> None:
    for statement in all_statements(layout):
        name = re.split(r"IF NOT EXISTS |IF EXISTS |ALTER TABLE ", statement, maxsplit=1)[1].split()[0]
        assert name in chdb_client.query(f"EXPLAIN AST {statement}").result_rows[0][0]


@pytest.mark.chdb
def test_a_second_run_applies_nothing(empty_chdb_client: Client) -> None:
    assert migrate(empty_chdb_client) == [migration.name for migration in migrations()]
    assert migrate(empty_chdb_client) == []
    assert {name for name, _ in applied(empty_chdb_client).values()} == {each.name for each in migrations()}


@pytest.mark.chdb
def test_an_edited_migration_is_refused_before_anything_is_applied(empty_chdb_client: Client) -> None:
    client = empty_chdb_client
    migrate(client)
    client.command("DELETE FROM schema_migrations WHERE version > 3")
    client.command(
        "ALTER TABLE schema_migrations UPDATE checksum = repeat('0', 64) WHERE version = 2 SETTINGS mutations_sync = 2"
    )
    client.command("DROP TABLE dead_letters")
    with pytest.raises(MigrationError, match=r"0002_create_usage_lines was edited .* new migration"):
        migrate(client)
    assert client.query("EXISTS TABLE dead_letters").result_rows[0][0] == 0


@pytest.mark.chdb
def test_a_database_that_is_ahead_of_the_package_is_refused(empty_chdb_client: Client) -> None:
    migrate(empty_chdb_client)
    empty_chdb_client.command(
        f"INSERT INTO schema_migrations (version, name, checksum) VALUES (9999, '9999_add_x', '{'0' * 64}')"
    )
    with pytest.raises(MigrationError, match="9999_add_x is in the database but not in this package"):
        migrate(empty_chdb_client)


@pytest.mark.chdb
def test_a_run_that_was_cut_off_is_finished_by_the_next(
    empty_chdb_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(migration: Migration, layout: Layout) -> list[str]:
        found = statements(migration, layout)
        return [*found[:1], "DROP TABLE not_there"] if migration.version == 5 else found

    with monkeypatch.context() as patched:
        patched.setattr(migrate_module, "statements", cut_off)
        with pytest.raises(DatabaseError, match="not_there"):
            migrate(empty_chdb_client)
    assert sorted(applied(empty_chdb_client)) == [1, 2, 3, 4]
    assert migrate(empty_chdb_client)[0] == "0005_create_cost_rows"
    assert empty_chdb_client.query("SELECT count() FROM v_cost_rows").result_rows == [(0,)]


@pytest.mark.chdb
@pytest.mark.parametrize("kind", ["tables", "columns"])
def test_every_table_view_and_column_says_what_it_is(chdb_client: Client, kind: str) -> None:
    where = "database = currentDatabase() AND comment = '' AND name NOT LIKE '.%'"
    assert chdb_client.query(f"SELECT * FROM system.{kind} WHERE {where}").result_rows == []


@pytest.mark.chdb
@pytest.mark.parametrize("table", ["gaps", "v_gaps"])
def test_a_gap_says_its_numbers_as_the_record_does_inclusive_at_both_ends(chdb_client: Client, table: str) -> None:
    where = "database = currentDatabase() AND table = {table:String} AND name IN ('from_seq', 'to_seq')"
    found = chdb_client.query(f"SELECT comment FROM system.columns WHERE {where}", parameters={"table": table})
    assert [comment for (comment,) in found.result_rows] == [
        "Sequence number of the first record dropped",
        "Sequence number of the last record dropped",
    ]


@pytest.mark.chdb
def test_facts_are_kept_by_tenant_and_month_and_by_id_and_content(chdb_client: Client) -> None:
    keys = {
        name: (partition, order.split(", "))
        for name, partition, order in chdb_client.query(
            "SELECT name, partition_key, sorting_key FROM system.tables WHERE database = currentDatabase()"
        ).result_rows
    }
    for table, row_id in (("usage_lines", "line_id"), ("cost_rows", "row_id")):
        partition, order = keys[table]
        assert (partition, order[0], order[-2:]) == ("toYYYYMM(start_at)", "tenant_id", [row_id, "content_hash"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [("CREATE TABLE x", "has no statement"), ("-- statement\nCREATE TABLE x {where}", "unknown placeholder {where}")],
)
def test_a_migration_that_can_not_be_rendered_is_refused(text: str, problem: str) -> None:
    with pytest.raises(MigrationError, match=problem):
        statements(Migration(1, "0001_create_x", text), SINGLE)


def test_a_cluster_name_that_is_no_identifier_is_refused() -> None:
    with pytest.raises(MigrationError, match="'a; DROP'"):
        cluster_layout("a; DROP")
