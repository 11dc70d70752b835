"""The one owner of ClickHouse in a sink process: the engine in this process (chDB), or a server. One thread calls it.

Never fork a process that has an embedded store open: the child hangs. Start children first, or with `spawn`.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import clickhouse_connect
from clickhouse_connect.driver.binding import quote_identifier
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import (
    DatabaseError,
    Error,
    OperationalError,
    ProgrammingError,
)

from wattledger_streams.settings import WorkerSettings

T = TypeVar("T")
_AUTHENTICATION_FAILED = 516
_RETRYABLE = frozenset(
    {"TIMEOUT_EXCEEDED", "SOCKET_TIMEOUT", "NETWORK_ERROR", "DNS_ERROR", "ALL_CONNECTION_TRIES_FAILED", "ABORTED"}
    | {"NO_FREE_CONNECTION", "TOO_MANY_SIMULTANEOUS_QUERIES", "SERVER_OVERLOADED", "TCP_CONNECTION_LIMIT_REACHED"}
    | {"HTTP_CONNECTION_LIMIT_REACHED", "RECEIVED_ERROR_TOO_MANY_REQUESTS", "QUERY_SLOT_ACQUISITION_TIMEOUT"}
    | {"MEMORY_LIMIT_EXCEEDED", "CANNOT_ALLOCATE_MEMORY", "MEMORY_RESERVATION_FAILED", "MEMORY_RESERVATION_KILLED"}
    | {"NOT_ENOUGH_SPACE", "TOO_MANY_PARTS", "SYSTEM_ERROR", "CANNOT_SCHEDULE_TASK", "DEADLOCK_AVOIDED"}
    | {"TABLE_IS_READ_ONLY", "NO_ZOOKEEPER", "KEEPER_EXCEPTION", "NO_ACTIVE_REPLICAS", "NO_AVAILABLE_REPLICA"}
    | {"TOO_FEW_LIVE_REPLICAS", "REPLICA_IS_NOT_IN_QUORUM", "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE"}
    | {"UNKNOWN_STATUS_OF_INSERT", "ASYNC_INSERT_FLUSH_TIMEOUT", "QUERY_WAS_CANCELLED", "POCO_EXCEPTION"}
)
"""ClickHouse's names of what passes by itself, or of an outcome it does not know."""


class StoreUnavailable(Exception):
    """ClickHouse isn't there or isn't able just now: keep the data and try again."""


class StoreRefused(Exception):
    """Schema, rights or values don't fit: trying again can't help."""


class Store:
    """ClickHouse behind one thread. `embedded_path` is the engine's folder, None for a server."""

    def __init__(self, client: Client, thread: ThreadPoolExecutor, embedded_path: Path | None) -> None:
        self._client, self._thread, self.embedded_path = client, thread, embedded_path
        self.database = str(client.database)

    async def run(self, call: Callable[[Client], T]) -> T:
        """`call` with the client, after the calls before it, off the event loop. It must not keep the client.

        Raises `StoreUnavailable` or `StoreRefused` for ClickHouse's errors. A cancelled caller does not stop a call
        that has begun: what it wrote may be there, so what it writes must be safe to write again.
        """
        return await _on(self._thread, lambda: _called(call, self._client))

    async def close(self) -> None:
        """Finish the call under way, close the client, end the thread. Close the endpoint first."""
        await _on(self._thread, self._client.close)
        await asyncio.to_thread(self._thread.shutdown)


async def open_store(settings: WorkerSettings) -> Store:
    """The server at `clickhouse_dsn`, or, without one, the engine over `clickhouse_path`; its database is made when it
    is missing, its tables are not.

    Raises `StoreUnavailable` (try again) or `StoreRefused` (someone must act).
    """
    thread = ThreadPoolExecutor(1, "clickhouse")
    dsn, path = settings.clickhouse_dsn, None if settings.clickhouse_dsn else settings.clickhouse_path.absolute()
    try:
        client = await _on(thread, lambda: _opened(dsn, path, settings.clickhouse_database))
    except BaseException:
        thread.shutdown(wait=False)
        raise
    return Store(client, thread, path)


async def _on(thread: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, call)


def _opened(dsn: str, path: Path | None, database: str) -> Client:
    client = _embedded(path) if path else _server(dsn)
    try:
        _called(lambda client: _use(client, database), client)
    except (StoreUnavailable, StoreRefused):
        with suppress(Error):
            client.close()
        raise
    return client


def _embedded(path: Path) -> Client:
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / ".writable").touch()
        (path / ".writable").unlink()
    except OSError as error:
        raise StoreRefused(f"clickhouse_path {path} can't be written ({error}): choose another folder") from error
    try:
        return clickhouse_connect.get_client(interface="chdb", path=str(path))
    except ProgrammingError as error:
        if "different path" in str(error):
            raise StoreRefused(f"this process has an engine open elsewhere, and can have one only: {error}") from error
        raise StoreUnavailable(
            f"the engine over {path} does not open: is another process (an earlier sink) still using it? {error}"
        ) from error


def _server(dsn: str) -> Client:
    parts = urlsplit(dsn)
    if parts.path not in ("", "/"):
        raise StoreRefused("clickhouse_dsn names a database: leave it out, clickhouse_database says which")
    try:
        return clickhouse_connect.get_client(
            dsn=dsn,
            secure=parts.scheme in ("https", "clickhouses"),
            connect_timeout=10,
            send_receive_timeout=60,
            query_retries=0,
            autogenerate_session_id=False,
        )
    except Error as error:
        raise _translated(error) from error


def _use(client: Client, database: str) -> None:
    found = client.query("SELECT count() FROM system.databases WHERE name = {name:String}", {"name": database})
    if not found.result_rows[0][0]:
        client.command(f"CREATE DATABASE IF NOT EXISTS {quote_identifier(database)}")
    client.database = database


def _called(call: Callable[[Client], T], client: Client) -> T:
    try:
        return call(client)
    except Error as error:
        # After a query that failed midway chDB gives what was left of it to the next one; this takes it.
        with suppress(Error):
            client.command("SELECT 1")
        raise _translated(error) from error


def _translated(error: Error) -> StoreUnavailable | StoreRefused:
    """The engine's name of the error says it; without one it is a broken connection, unless the client found fault."""
    code, name = getattr(error, "code", None), getattr(error, "name", None)
    if code is None:
        lost = isinstance(error, OperationalError) or type(error) is DatabaseError
        return StoreUnavailable(str(error)) if lost else StoreRefused(str(error))
    if name in _RETRYABLE:
        return StoreUnavailable(str(error))
    if code == _AUTHENTICATION_FAILED:
        return StoreRefused(f"ClickHouse refused the user or the password: check clickhouse_dsn. {error}")
    return StoreRefused(str(error))
