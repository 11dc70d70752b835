"""No statement, however dressed, changes anything through the endpoint, and each refusal is an error to the client."""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from tests.integration.endpoint_server import Server, running

STATE = "SELECT count(), sum(x), (SELECT count() FROM system.tables WHERE database = 'wattledger') FROM kept"
UNTOUCHED = "10\t45\t2\n"

WRITES = {
    "insert": "INSERT INTO kept VALUES (11)",
    "lower case insert": "  insert into kept select 11",
    "insert behind a read": "SELECT 1; INSERT INTO kept VALUES (11)",
    "insert behind a comment": "-- SELECT\nINSERT INTO kept VALUES (11)",
    "insert behind a block comment": "/* SELECT 1 */ INSERT INTO kept VALUES (11)",
    "insert behind a half-read comment": "SELECT 1 // ' \n; INSERT INTO kept VALUES (11) // '",
    "insert behind a string": "SELECT '; -- ' ; INSERT INTO kept VALUES (11)",
    "insert behind a heredoc": "SELECT $a$ ' $a$; INSERT INTO kept VALUES (11) -- '",
    "insert behind WITH": "WITH 11 AS y INSERT INTO kept SELECT y",
    "insert with a read after it": "INSERT INTO kept VALUES (11); SELECT 1",
    "insert in brackets": "(INSERT INTO kept SELECT 11)",
    "insert with a FORMAT": "INSERT INTO kept FORMAT TSV\n11\n",
    "insert into a function": "INSERT INTO FUNCTION file('written.tsv', 'TSV', 'x UInt8') SELECT 1",
    "explained insert": "EXPLAIN INSERT INTO kept SELECT 11",
    "explained insert, options": "EXPLAIN AST optimize = 1 INSERT INTO kept VALUES (11)",
    "drop": "DROP TABLE kept",
    "truncate": "TRUNCATE TABLE kept",
    "delete": "DELETE FROM kept WHERE 1",
    "update": "ALTER TABLE kept UPDATE x = 1 WHERE 1",
    "rename": "RENAME TABLE kept TO lost",
    "exchange": "EXCHANGE TABLES kept AND incoming",
    "create": "CREATE TABLE more (x UInt8) ENGINE = Memory",
    "create as": "CREATE TABLE more ENGINE = Memory AS SELECT 1",
    "create temporary": "CREATE TEMPORARY TABLE more (x UInt8)",
    "detach": "DETACH TABLE kept PERMANENTLY",
    "attach": "ATTACH TABLE more (x UInt8) ENGINE = Memory",
    "undrop": "UNDROP TABLE kept",
    "optimize": "OPTIMIZE TABLE kept FINAL",
    "kill": "KILL QUERY WHERE 1 SYNC",
    "system": "SYSTEM STOP MERGES",
    "backup": "BACKUP TABLE kept TO File('kept')",
    "grant": "GRANT ALL ON *.* TO default",
    "function": "CREATE FUNCTION more AS x -> x",
    "outfile": "SELECT * FROM kept INTO OUTFILE '{folder}/written.tsv'",
    "outfile in brackets": "(SELECT * FROM kept) INTO/**/OUTFILE '{folder}/written.tsv'",
    "set": "SET readonly = 0",
    "use": "USE system",
    "transaction": "BEGIN TRANSACTION",
    "parallel": "INSERT INTO kept VALUES (11) PARALLEL WITH INSERT INTO kept VALUES (12)",
    "settings in the text": "SELECT 1 SETTINGS readonly = 0",
}

REACHES_OUT = {
    "file": "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "quoted file": "SELECT * FROM \"file\"('/etc/passwd', LineAsString)",
    "escaped file": "SELECT * FROM `fi\\x6ce`('/etc/passwd', 'LineAsString')",
    "file with a gap": "SELECT file /* ' */ ('/etc/passwd')",
    "file as a function": "SELECT length(file('/etc/passwd'))",
    "file in a common table": "WITH t AS (SELECT * FROM FILE('/etc/passwd', 'LineAsString')) SELECT * FROM t",
    "described file": "DESCRIBE file('/etc/passwd', 'LineAsString')",
    "described address": "DESCRIBE TABLE url('http://127.0.0.1:1/x.csv')",
    "address": "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
    "address of this endpoint": "SELECT * FROM url('http://127.0.0.1:8123/?query=SELECT+1', 'TSV', 'x UInt8')",
    "bucket": "SELECT * FROM s3('http://127.0.0.1:1/x.csv')",
    "program": "SELECT * FROM executable('id', 'TSV', 'x String')",
    "other server": "SELECT * FROM remote('127.0.0.1:1', 'system', 'one')",
    "other database": "SELECT * FROM mysql('127.0.0.1:1', 'd', 't', 'u', 'p')",
    "other server in IN": "SELECT 1 IN remote('127.0.0.1:1', 'system', 'one')",
    "text run as a query": "SELECT * FROM eval('SELECT 1')",
    "object of this process": "SELECT * FROM python(store)",
    "path as a table": "SELECT * FROM default.`/etc/passwd`",
    "path as a described table": "DESCRIBE TABLE default.`/etc/passwd`",
    "path that exists": "EXISTS TABLE default.`/etc/passwd`",
    "path hidden in a comment": "SELECT 1 // ' \n, file('/etc/passwd') // '",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tmp_path_factory.mktemp("refuses"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with running(folder / "clickhouse") as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Client]:
    with server.client() as connected:
        yield connected


def untouched(server: Server) -> bool:
    return httpx.get(server.url, params={"query": STATE}).text == UNTOUCHED


@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_an_error_and_changes_nothing(name: str, server: Server, client: Client, folder: Path) -> None:
    sql = WRITES[name].replace("{folder}", str(folder))
    for ask in (client.command, client.query, client.raw_query):
        with pytest.raises(DatabaseError):
            ask(sql)
    for answer in (httpx.post(server.url, content=sql), httpx.get(server.url, params={"query": sql})):
        assert answer.status_code in (400, 403, 500)
        assert answer.headers["X-ClickHouse-Exception-Code"] in ("62", "164")
        assert answer.text.startswith("Code: ") and "DB::Exception: " in answer.text
    assert not (folder / "written.tsv").exists()
    assert untouched(server)


@pytest.mark.parametrize("name", REACHES_OUT)
def test_nothing_outside_the_database_can_be_read(name: str, server: Server) -> None:
    answer = httpx.post(server.url, content=REACHES_OUT[name])
    assert answer.status_code in (400, 403, 500), answer.text
    assert answer.headers["X-ClickHouse-Exception-Code"] in ("62", "164"), answer.text


def test_every_way_a_client_inserts_is_refused(server: Server, client: Client) -> None:
    inserts: tuple[Callable[[], object], ...] = (
        lambda: client.insert("kept", [[11]], column_names=["x"]),
        lambda: client.raw_insert("kept", ["x"], b"11\n", fmt="TSV"),
        lambda: client.raw_insert("kept", ["x"], gzip.compress(b"11\n"), fmt="TSV", compression="gzip"),
        lambda: client.raw_insert("kept", ["x"], b"11\n" * 1_000_000, fmt="TSV"),
        lambda: client.command("INSERT INTO kept FORMAT TSV", data="11\n"),
        lambda: client.insert("kept", [[x] for x in range(200_000)], column_names=["x"]),
    )
    for insert in inserts:
        with pytest.raises(DatabaseError) as refused:
            insert()
        assert refused.value.code == 164
    assert untouched(server)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("readonly", "0"),
        ("output_format_schema", "written"),
        ("max_memory_usage", "0"),
        ("result_overflow_mode", "break"),
        ("format_schema", "/etc/passwd"),
        ("allow_introspection_functions", "1"),
        ("no_such_setting", "1"),
    ],
)
def test_a_setting_that_is_not_offered_is_refused(name: str, value: str, server: Server) -> None:
    answer = httpx.get(server.url, params={"query": "SELECT 1", name: value})
    assert answer.status_code == 403
    assert f"Cannot modify '{name}' setting in readonly mode" in answer.text


def test_what_would_be_misread_is_refused(server: Server) -> None:
    assert httpx.get(server.url, params={"query": "SELECT 1", "compress": "1"}).status_code == 501
    files = {"more": ("more", b"1\n")}
    assert httpx.post(server.url, params={"query": "SELECT * FROM more"}, files=files).status_code == 501
    assert httpx.post(server.url, content="SELECT '" + "a" * 300_000 + "'").status_code == 400
    assert httpx.get(server.url, params={"query": "SELECT 1"}, headers={"Host": "evil.example"}).status_code == 403
    assert httpx.get(server.url, params={"query": "SELECT 1", "default_format": "A B"}).status_code == 400
