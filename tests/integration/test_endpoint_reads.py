"""The read-only endpoint with stock clients: what they may ask, while rows come in, and what they get."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from tests.integration.endpoint_server import BATCH_ROWS, TIME_LIMIT_S, Server, running

LONG = "SELECT sum(cityHash64(number)) FROM numbers(1000000000000)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(Path(tmp_path_factory.mktemp("endpoint")) / "clickhouse") as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Client]:
    with server.client() as connected:
        yield connected


def test_readers_see_whole_batches_in_order_while_rows_come_in(server: Server) -> None:
    server.say("insert")

    def read(_: int) -> list[int]:
        counts = []
        until = time.monotonic() + 3
        with server.client() as client:
            while time.monotonic() < until:
                [(rows, total)] = client.query("SELECT count(), sum(x) FROM incoming").result_rows
                assert rows % BATCH_ROWS == 0, "half a batch was seen"
                assert total == rows * (rows - 1) // 2, "a batch was seen without an earlier one, or twice"
                counts.append(rows)
        return counts

    with ThreadPoolExecutor(3) as readers:
        seen = list(readers.map(read, range(3)))
    batches = int(server.say("pause"))
    for counts in seen:
        assert counts == sorted(counts)
        assert counts[-1] > counts[0] + 5 * BATCH_ROWS, "nothing came in: the test shows nothing"
    with server.client() as client:
        assert client.command("SELECT count() FROM incoming") == batches * BATCH_ROWS
    print(f"{sum(map(len, seen)) / 3:.0f} reads/s by 3 clients under {batches * BATCH_ROWS / 3:.0f} inserted rows/s")


def test_a_stock_client_connects_and_knows_the_database(client: Client) -> None:
    assert client.command("SELECT currentDatabase()") == "wattledger"
    assert client.query("SELECT x, toString(x) AS s FROM kept ORDER BY x LIMIT 2").result_rows == [(0, "0"), (1, "1")]
    assert client.query("SELECT x FROM kept LIMIT 0").column_names == ("x",)
    assert client.query_df("SELECT x FROM kept").x.sum() == 45
    assert client.query_arrow("SELECT x FROM kept").num_rows == 10
    assert client.query("DESCRIBE TABLE kept").result_rows[0][:2] == ("x", "UInt64")
    assert client.command("EXISTS TABLE kept") == 1
    assert client.command("SHOW TABLES LIKE 'kept'") == "kept"
    assert client.ping()


def test_parameters_are_bound_by_the_engine(client: Client) -> None:
    given = {"x": 3, "text": "it's\t\\ {x} /* -- */; DROP TABLE kept"}
    assert client.query("SELECT {x:UInt8} + 1, {text:String}", given).result_rows == [(4, given["text"])]
    assert client.query("SELECT count() FROM {t:Identifier}", {"t": "kept"}).result_rows == [(10,)]
    with pytest.raises(DatabaseError, match="BAD_QUERY_PARAMETER"):
        client.query("SELECT {x:UInt8}", {"x": "3; DROP TABLE kept"})
    with pytest.raises(DatabaseError, match="Substitution `x` is not set"):
        client.query("SELECT {x:UInt8}")


def test_plain_http_answers_in_the_format_asked(server: Server) -> None:
    assert httpx.get(server.url + "ping").text == "Ok.\n"
    assert httpx.get(server.url).text == "Ok.\n"
    assert httpx.get(server.url, params={"query": "SELECT 1"}).text == "1\n"
    assert httpx.post(server.url, content="SELECT 1 FORMAT CSVWithNames").text == '"1"\n1\n'
    assert httpx.post(server.url, params={"query": "SELECT x FROM kept"}, content="WHERE x = 7").text == "7\n"
    assert httpx.get(server.url, params={"query": "SELECT {x:UInt8}", "param_x": "5"}).text == "5\n"
    answer = httpx.get(server.url, params={"query": "SELECT 1 AS one", "default_format": "JSON", "query_id": "q1"})
    assert answer.json()["data"] == [{"one": 1}]
    assert answer.headers["X-ClickHouse-Format"] == "JSON"
    assert answer.headers["X-ClickHouse-Query-Id"] == "q1"
    parquet = httpx.get(server.url, params={"query": "SELECT x FROM kept ORDER BY x FORMAT Parquet"}).content
    assert parquet.startswith(b"PAR1") and parquet.endswith(b"PAR1")
    totals = httpx.get(server.url, params={"query": "SELECT x % 2 AS k, count() FROM kept GROUP BY k WITH TOTALS"}).text
    assert totals.endswith("\n\n0\t10\n")


def test_bad_sql_gives_the_engine_s_own_words(server: Server, client: Client) -> None:
    with pytest.raises(DatabaseError, match="Unknown expression identifier `nope`") as unknown:
        client.query("SELECT nope FROM kept")
    assert unknown.value.code == 47
    with pytest.raises(DatabaseError, match="Syntax error: failed at position"):
        client.query("SELECT (1")
    missing = httpx.get(server.url, params={"query": "SELECT * FROM missing"})
    assert missing.status_code == 404
    assert missing.headers["X-ClickHouse-Exception-Code"] == "60"
    assert "UNKNOWN_TABLE" in missing.text
    assert httpx.get(server.url, params={"query": "SELECT 1", "database": "elsewhere"}).status_code == 404


def test_a_query_over_its_time_is_stopped(client: Client) -> None:
    started = time.monotonic()
    with pytest.raises(DatabaseError, match="TIMEOUT_EXCEEDED"):
        client.query(LONG)
    assert TIME_LIMIT_S * 0.9 < time.monotonic() - started < TIME_LIMIT_S + 2


def test_settings_in_a_subquery_lift_no_limit(client: Client) -> None:
    inner = "max_execution_time = 1000, max_memory_usage = 0, readonly = 0"
    [(limit_s, is_readonly)] = client.query(
        f"SELECT * FROM (SELECT getSetting('max_execution_time'), getSetting('readonly') SETTINGS {inner})"
    ).result_rows
    assert (float(limit_s.total_seconds() if hasattr(limit_s, "total_seconds") else limit_s), is_readonly) == (2.0, 1)
    with pytest.raises(DatabaseError, match="TIMEOUT_EXCEEDED"):
        client.query(f"SELECT * FROM ({LONG} SETTINGS {inner})")


def test_a_caller_asks_for_less_time_but_never_for_more(server: Server) -> None:
    for asked, least_s, most_s in (("1", 0.9, 1.8), ("600", TIME_LIMIT_S * 0.9, TIME_LIMIT_S + 2)):
        started = time.monotonic()
        answer = httpx.get(server.url, params={"query": LONG, "max_execution_time": asked}, timeout=20)
        assert answer.headers["X-ClickHouse-Exception-Code"] == "159"
        assert least_s < time.monotonic() - started < most_s


def test_a_result_too_large_is_an_error_unless_it_is_streamed(client: Client) -> None:
    sql = "SELECT number FROM numbers(3000000)"
    with pytest.raises(DatabaseError, match="TOO_MANY_ROWS_OR_BYTES"):
        client.query(sql)
    with client.query_row_block_stream(sql) as blocks:
        assert sum(len(block) for block in blocks) == 3_000_000


def test_a_stream_that_fails_midway_raises_with_the_engine_s_words(server: Server, client: Client) -> None:
    sql = "SELECT throwIf(number = 2000000, 'planted') FROM numbers(3000000)"
    rows = 0
    with pytest.raises(DatabaseError, match="planted"), client.query_row_block_stream(sql) as blocks:
        for block in blocks:
            rows += len(block)
    assert 0 < rows < 3_000_000
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(server.url, params={"query": sql})


def test_a_caller_that_goes_away_takes_its_query_along(server: Server, client: Client) -> None:
    running_now = "SELECT count() FROM system.processes WHERE query LIKE '%gone away%' AND query NOT LIKE '%processes%'"
    with socket.create_connection(("127.0.0.1", server.port)) as caller:
        body = LONG + " /* gone away */"
        caller.sendall(f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        deadline = time.monotonic() + TIME_LIMIT_S
        while not client.command(running_now) and time.monotonic() < deadline:
            time.sleep(0.02)
        started = time.monotonic()
        assert client.command(running_now) == 1
    while client.command(running_now):
        assert time.monotonic() - started < TIME_LIMIT_S / 2, "it ran on to its time limit"
        time.sleep(0.02)


def test_more_callers_than_readers_wait_their_turn(server: Server) -> None:
    with ThreadPoolExecutor(12) as callers:
        ask = {"query": "SELECT sleepEachRow(0.2) FROM numbers(1)"}
        answers = list(callers.map(lambda _: httpx.get(server.url, params=ask, timeout=20), range(12)))
    assert [answer.text for answer in answers] == ["0\n"] * 12
