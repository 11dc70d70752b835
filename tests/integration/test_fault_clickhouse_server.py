"""The harness's ClickHouse server: a stock client over HTTP reads and writes as it does with the engine in process, and
what it was told is stored survives SIGKILL."""

import signal
from collections.abc import Iterator
from pathlib import Path

import clickhouse_connect
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError, Error
from wattledger_sql.fact import DeadLetter, Source
from wattledger_sql.insert import insert_dead_letters
from wattledger_sql.migrate import migrate
from wattledger_sql.verify import verify

from tests.fault_harness.server_process import ClickhouseProcess

pytestmark = pytest.mark.chdb


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickhouseProcess]:
    running = ClickhouseProcess(tmp_path_factory.mktemp("server")).start()
    yield running
    running.stop()


def connect(server: ClickhouseProcess, **options: object) -> Client:
    found: Client = clickhouse_connect.get_client(host="127.0.0.1", port=server.port, **options)  # type: ignore[arg-type]
    return found


@pytest.fixture
def client(server: ClickhouseProcess) -> Iterator[Client]:
    found = connect(server)
    found.command("DROP DATABASE IF EXISTS ledger")
    found.command("CREATE DATABASE ledger")
    found.database = "ledger"
    yield found
    found.close()


def letter(offset: int, raw: bytes = b"\x00\n\xff") -> DeadLetter:
    return DeadLetter("gpu-samples", 0, offset, "not_avro", "tab\tand 'quote'", "meter", b"k\n", raw)


def test_the_product_migrates_inserts_and_verifies_through_it(client: Client) -> None:
    migrate(client)
    assert insert_dead_letters(client, [letter(1), letter(2)], [Source(0, 7), Source(0, 8)]) == 2
    assert insert_dead_letters(client, [letter(2), letter(1)], [Source(0, 8), Source(0, 7)]) == 2
    rows = client.query(
        "SELECT topic_offset, hex(record_value), detail FROM dead_letters FINAL WHERE processor = {p:String} "
        "ORDER BY topic_offset",
        {"p": "meter"},
    ).result_rows
    assert rows == [(1, "000AFF", "tab\tand 'quote'"), (2, "000AFF", "tab\tand 'quote'")]
    assert verify(client), "the laws were asked"
    assert [law for law in verify(client) if not law.ok] == []


@pytest.mark.parametrize("compress", [False, "lz4", "zstd", "gzip"])
def test_rows_come_back_as_they_were_given_whatever_compression_the_client_uses(
    server: ClickhouseProcess, client: Client, compress: bool | str
) -> None:
    client.command("CREATE TABLE t (a Int64, b String, c Decimal(38, 12)) ENGINE = MergeTree ORDER BY a")
    other = connect(server, compress=compress, database="ledger")
    rows = [(n, f"line\n{n}'\t\\", f"{n}.000000000001") for n in range(3000)]
    written = other.insert("t", [(a, b, c) for a, b, c in rows], column_names=["a", "b", "c"])
    assert written.written_rows == 3000
    found = other.query("SELECT a, b, toString(c) FROM t ORDER BY a").result_rows
    assert found[7] == (7, "line\n7'\t\\", "7.000000000001") and len(found) == 3000
    other.close()


def test_a_settings_of_one_request_is_not_the_next_ones(client: Client) -> None:
    client.command(
        "CREATE TABLE t (a Int64) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 10"
    )
    for _ in range(2):
        client.insert("t", [[1]], ["a"], settings={"insert_deduplication_token": "x", "async_insert": 0})
    assert client.command("SELECT count() FROM t") == 1
    client.insert("t", [[1]], ["a"], settings={"insert_deduplicate": 0})
    assert client.command("SELECT count() FROM t") == 2
    assert client.query("SELECT value FROM system.settings WHERE name = 'insert_deduplicate'").result_rows == [("1",)]


def test_a_temporary_table_is_its_sessions(client: Client) -> None:
    session = {"session_id": "one"}
    client.command("CREATE TEMPORARY TABLE t (a Int64) ENGINE = Memory", settings=session)
    client.raw_insert("t", insert_block=b"7\n", fmt="CSV", settings=session)
    assert client.query("SELECT a FROM t", settings=session).result_rows == [(7,)]
    with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
        client.query("SELECT a FROM t", settings={"session_id": "another"})


def test_errors_have_clickhouses_codes_and_names(client: Client) -> None:
    with pytest.raises(DatabaseError, match="UNKNOWN_TABLE") as caught:
        client.query("SELECT * FROM nowhere")
    assert getattr(caught.value, "code", None) == 60
    assert client.command("SELECT 1") == 1


def test_what_was_acknowledged_is_there_after_sigkill_and_what_was_not_is_whole_or_absent(tmp_path: Path) -> None:
    server = ClickhouseProcess(tmp_path / "server", fault="kill:after_insert:3").start()
    try:
        client = connect(server)
        client.command("CREATE DATABASE d")
        client.command("CREATE TABLE d.t (a Int64) ENGINE = MergeTree ORDER BY a SETTINGS fsync_after_insert = 1")
        acknowledged = []
        for number in range(10):
            try:
                client.insert("d.t", [[number]] * 100, ["a"])
            except Error:
                break
            acknowledged.append(number)
        assert server.child.exit_code == -signal.SIGKILL
        port = server.port
        server.start()
        assert server.port == port
        again = connect(server)
        counts = again.query("SELECT a, count() FROM d.t GROUP BY a ORDER BY a").result_rows
        assert acknowledged == [0, 1]
        assert counts == [(0, 100), (1, 100), (2, 100)], "the third was applied whole and never answered"
        again.insert("d.t", [[9]], ["a"])
        server.kill()
        server.start()
        assert connect(server).command("SELECT count() FROM d.t") == 301
    finally:
        server.stop()
