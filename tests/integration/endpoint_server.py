"""A sink's store and endpoint in a process of their own, steered by lines on its input; also the way to start one.

chDB takes one path a process and tests share theirs, so the endpoint under test never runs inside pytest.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import clickhouse_connect
import structlog
from clickhouse_connect.driver.client import Client
from wattledger_streams.clickhouse_endpoint import open_endpoint
from wattledger_streams.clickhouse_engine import ReadLimits
from wattledger_streams.clickhouse_store import Store, open_store
from wattledger_streams.settings import WorkerSettings

BATCH_ROWS = 1000
TIME_LIMIT_S = 2.0
RESULT_LIMIT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Server:
    """A running endpoint over the tables `kept` (ten rows, never written again) and `incoming`."""

    port: int
    process: subprocess.Popen[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def client(self) -> Client:
        """A stock client: nothing about it knows the endpoint."""
        return clickhouse_connect.get_client(host="127.0.0.1", port=self.port)

    def say(self, line: str) -> str:
        """`insert`: rows start to come in; `pause`: they stop, and the answer is how many batches there are."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """The endpoint over a fresh engine in `folder`; it must end by itself when its input closes."""
    command = [sys.executable, __file__, str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield Server(int(process.stdout.readline()), process)
            process.stdin.close()
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()


async def _serve(folder: Path) -> None:
    store = await open_store(WorkerSettings(clickhouse_path=folder))
    await store.run(lambda client: client.command("CREATE TABLE kept (x UInt64) ENGINE = MergeTree ORDER BY x"))
    await store.run(lambda client: client.command("INSERT INTO kept SELECT number FROM numbers(10)"))
    await store.run(lambda client: client.command("CREATE TABLE incoming (x UInt64) ENGINE = MergeTree ORDER BY x"))
    limits = ReadLimits(time_s=TIME_LIMIT_S, result_bytes=RESULT_LIMIT_BYTES)
    endpoint = await open_endpoint(store, 0, limits)
    _say(endpoint.port)
    inserting: asyncio.Task[None] | None = None
    batches = [0]
    while line := await asyncio.to_thread(sys.stdin.readline):
        if line.strip() == "insert":
            inserting = asyncio.create_task(_insert(store, batches))
        elif inserting is not None:
            inserting.cancel()
            await asyncio.wait([inserting])
            await store.run(lambda client: client.ping())  # behind the last insert
        _say(batches[0])
    await endpoint.close()
    await store.close()


async def _insert(store: Store, batches: list[int]) -> None:
    while True:
        first = batches[0] * BATCH_ROWS
        batches[0] += 1
        rows = [[x] for x in range(first, first + BATCH_ROWS)]
        await store.run(partial(_insert_rows, rows))


def _insert_rows(rows: list[list[int]], client: Client) -> None:
    client.insert("incoming", rows, column_names=["x"])


def _say(value: int) -> None:
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(_serve(Path(sys.argv[1])))
