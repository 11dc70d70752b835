"""ClickHouse's engine for tests: one per process (chDB allows one path a process), a fresh database for each test."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import clickhouse_connect
import pytest
from clickhouse_connect.driver.client import Client
from wattledger_sql.migrate import migrate

from tests.unit.sql_engine import fresh_database


@pytest.fixture(scope="session")
def chdb_path() -> Iterator[Path]:
    """Where the session's engine keeps its data; the engine stays open until the session ends.

    Do not fork after this (chDB hangs): a test that needs a process of its own starts a fresh interpreter, which
    opens a path of its own.
    """
    with TemporaryDirectory(prefix="wattledger-chdb-") as folder:
        keeper = clickhouse_connect.get_client(interface="chdb", path=folder)
        yield Path(folder)
        keeper.close()


@pytest.fixture
def empty_chdb_client(chdb_path: Path) -> Iterator[Client]:
    """A client whose current database is new and empty. Marks: the test must be `@pytest.mark.chdb`."""
    with fresh_database(chdb_path) as client:
        yield client


@pytest.fixture
def chdb_client(empty_chdb_client: Client) -> Client:
    """A client whose current database (`client.database`) is new, migrated, and holds no rows."""
    migrate(empty_chdb_client)
    return empty_chdb_client
