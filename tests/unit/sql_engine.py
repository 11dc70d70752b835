"""Fresh databases in the engine that the test session keeps open."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import clickhouse_connect
from clickhouse_connect.driver.client import Client

_numbers = count(1)


@contextmanager
def fresh_database(path: Path) -> Iterator[Client]:
    """A client of its own whose current database is new and empty; dropped afterwards."""
    database = f"test_{next(_numbers)}"
    client = clickhouse_connect.get_client(interface="chdb", path=str(path))
    client.command(f"CREATE DATABASE {database}")
    client.database = database
    client.command("SELECT 1")
    yield client
    client.command(f"DROP DATABASE {database} SYNC")
    client.close()
