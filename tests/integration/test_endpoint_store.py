"""The store in a process of its own: what it calls unavailable, what it calls refused, and that it closes."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from wattledger_streams.clickhouse_store import Store, StoreRefused, StoreUnavailable, open_store
from wattledger_streams.settings import WorkerSettings

from tests.integration.endpoint_server import running

IN_A_PROCESS = """
import asyncio, json, sys
from pathlib import Path
from wattledger_streams.clickhouse_store import StoreRefused, StoreUnavailable, open_store
from wattledger_streams.settings import WorkerSettings

async def tried(call):
    try:
        return str(await call)
    except (StoreRefused, StoreUnavailable) as error:
        return f"{type(error).__name__}: {error}"

async def main():
    settings = WorkerSettings(clickhouse_path=Path(sys.argv[1]), clickhouse_database="d")
    store = await open_store(settings)
    said = []
    for sql in sys.argv[2:]:
        said.append(await tried(store.run(lambda client: client.command(sql))))
    said.append(await tried(open_store(settings.model_copy(update={"clickhouse_path": Path(sys.argv[1] + "2")}))))
    await store.close()
    again = await open_store(settings)
    said.append(str(await again.run(lambda client: client.command("SELECT count() FROM t"))))
    await again.close()
    sys.stdout.write(json.dumps(said))

asyncio.run(main())
"""


def in_a_process(folder: Path, *statements: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", IN_A_PROCESS, str(folder), *statements]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    return [str(said) for said in json.loads(done.stdout)]


def settings_of(dsn: str, database: str = "wattledger") -> WorkerSettings:
    return WorkerSettings(clickhouse_dsn=dsn, clickhouse_database=database)


async def opened(settings: WorkerSettings) -> Store:
    return await open_store(settings)


def test_the_embedded_store_makes_its_database_and_opens_again_with_its_rows(tmp_path: Path) -> None:
    said = in_a_process(
        tmp_path / "engine",
        "CREATE TABLE t (x UInt8) ENGINE = MergeTree ORDER BY x",
        "INSERT INTO t SELECT number FROM numbers(3)",
        "SELECT currentDatabase()",
        "SELECT * FROM missing",
        "SELECT throwIf(1, 'bad rows')",
        "SELECT sum(sleepEachRow(0.5)) FROM numbers(9) SETTINGS max_execution_time = 1, max_block_size = 1",
    )
    assert said[2] == "d"
    assert said[3].startswith("StoreRefused: Code: 60.")
    assert said[4].startswith("StoreRefused: Code: 395.")
    assert said[5].startswith("StoreUnavailable: Code: 159.")
    assert said[6].startswith("StoreRefused: this process has an engine open elsewhere")
    assert said[7] == "3"


def test_an_engine_in_use_is_unavailable_and_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with running(tmp_path / "engine"):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        for folder, kind in ((tmp_path / "engine", "StoreUnavailable"), (tmp_path / "file" / "sub", "StoreRefused")):
            command = [sys.executable, "-c", IN_A_PROCESS, str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
            assert f"{kind}: " in done.stderr
            assert str(folder) in done.stderr


def test_a_server_is_reached_over_http_and_its_refusals_are_told_from_its_absence(tmp_path: Path) -> None:
    async def use(port: int) -> None:
        store = await open_store(settings_of(f"http://someone:secret@127.0.0.1:{port}"))
        assert store.embedded_path is None
        assert await store.run(lambda client: client.command("SELECT count() FROM kept")) == 10
        with pytest.raises(StoreRefused, match="READONLY"):
            await store.run(lambda client: client.insert("kept", [[11]], column_names=["x"]))
        with pytest.raises(StoreRefused, match="UNKNOWN_TABLE"):
            await store.run(lambda client: client.command("SELECT * FROM missing"))
        with pytest.raises(StoreUnavailable, match="TIMEOUT_EXCEEDED"):
            await store.run(lambda client: client.command("SELECT count() FROM numbers(10000000000000)"))
        await store.close()
        with pytest.raises(StoreRefused, match="READONLY"):
            await opened(settings_of(f"http://127.0.0.1:{port}", database="not_there"))

    with running(tmp_path / "engine") as server:
        asyncio.run(use(server.port))
    with pytest.raises(StoreUnavailable):
        asyncio.run(opened(settings_of(f"http://127.0.0.1:{server.port}")))


def test_a_dsn_with_a_database_is_refused_because_the_settings_name_it() -> None:
    with pytest.raises(StoreRefused, match="clickhouse_database says which"):
        asyncio.run(opened(settings_of("http://127.0.0.1:1/other")))
