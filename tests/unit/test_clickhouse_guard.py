"""The guard's own rules, on tokens of plain statements, and what the HTTP parameters mean. No engine runs here."""

import re

import pytest
from wattledger_streams.clickhouse_guard import READONLY, SYNTAX_ERROR, ReadStatement, Refused, Token, judge
from wattledger_streams.clickhouse_protocol import check_host, query_asked, status_of

OUTSIDE = frozenset({"file", "url"})
_KINDS = (
    ("Whitespace", r"\s+"),
    ("Comment", r"/\*.*?\*/"),
    ("StringLiteral", r"'[^']*'"),
    ("QuotedIdentifier", r"`[^`]*`"),
    ("Number", r"\d+"),
    ("BareWord", r"\w+"),
    ("Semicolon", r";"),
    ("Error", r"\#"),
    ("Other", r"."),
)
_TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS))


def tokens(text: str) -> list[Token]:
    """Tokens of the plain statements below, named as the engine names them."""
    return [Token(str(match.lastgroup), match[0]) for match in _TOKEN.finditer(text)]


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("SELECT 1", ReadStatement("SELECT", "", True)),
        ("select 1 ; ;", ReadStatement("SELECT", "", True)),
        ("((SELECT 1)) UNION ALL (SELECT 2)", ReadStatement("SELECT", "", True)),
        ("/* INSERT */ WITH a AS (SELECT 1) SELECT * FROM a", ReadStatement("WITH", "", True)),
        ("SELECT 1 FORMAT Parquet", ReadStatement("SELECT", "Parquet", True)),
        ("SELECT format('{}', 'FORMAT CSV') FORMAT JSON SETTINGS x = 1", ReadStatement("SELECT", "JSON", True)),
        ("SELECT k, sum(v) FROM t GROUP BY k WITH TOTALS", ReadStatement("SELECT", "", False)),
        ("SELECT 'INSERT INTO t; file(1)'", ReadStatement("SELECT", "", True)),
        ("SELECT url, `file` FROM t WHERE url IN ('a')", ReadStatement("SELECT", "", True)),
        ("SHOW TABLES", ReadStatement("SHOW", "", False)),
        ("DESCRIBE TABLE t", ReadStatement("DESCRIBE", "", False)),
        ("EXISTS TABLE d.`t_1`", ReadStatement("EXISTS", "", False)),
        ("EXPLAIN SELECT 1", ReadStatement("EXPLAIN", "", False)),
        ("EXPLAIN PLAN header = 1, actions = 1 SELECT 1", ReadStatement("EXPLAIN", "", False)),
        ("EXPLAIN QUERY TREE (SELECT 1)", ReadStatement("EXPLAIN", "", False)),
        ("SELECT max(settings) FROM t SETTINGS a = 1", ReadStatement("SELECT", "", True)),
    ],
)
def test_a_read_is_allowed_and_its_shape_is_known(text: str, statement: ReadStatement) -> None:
    assert judge(tokens(text), OUTSIDE) == statement


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("", SYNTAX_ERROR, "Empty query"),
        ("/* nothing */", SYNTAX_ERROR, "Empty query"),
        ("INSERT INTO t VALUES (1)", READONLY, "INSERT is not a read"),
        ("'SELECT' INSERT", READONLY, "is not a read"),
        ("`SELECT` 1", READONLY, "is not a read"),
        (";SELECT 1", READONLY, "; is not a read"),
        ("SET readonly = 0", READONLY, "pass settings as parameters"),
        ("USE d", READONLY, "database parameter"),
        ("SELECT 1; SELECT 2", SYNTAX_ERROR, "one statement a request"),
        ("SELECT 1 #", SYNTAX_ERROR, "Error at '#'"),
        ("WITH 1 AS x INSERT INTO t SELECT x", READONLY, "INSERT INTO"),
        ("SELECT 1 into /* x */ outfile 'f'", READONLY, "INTO OUTFILE"),
        ("SELECT * FROM file('f')", READONLY, "file(...) reaches outside"),
        ("SELECT * FROM FILE /* x */ ('f')", READONLY, "FILE(...) reaches outside"),
        ("SELECT * FROM `url`('u')", READONLY, "url(...) reaches outside"),
        ("SELECT * FROM `u\\x72l`('u')", READONLY, "reaches outside"),
        ("DESCRIBE url('u')", READONLY, "url(...) reaches outside"),
        ("EXPLAIN INSERT t SELECT 1", READONLY, "EXPLAIN INSERT"),
        ("EXPLAIN AST optimize = 1 DROP TABLE t", READONLY, "EXPLAIN DROP"),
        ("EXISTS TABLE default.`/etc/passwd`", READONLY, "EXISTS"),
        ("EXISTS TABLE {t:Identifier}", READONLY, "EXISTS"),
    ],
)
def test_anything_else_is_refused_with_its_reason(text: str, code: int, says: str) -> None:
    with pytest.raises(Refused, match=re.escape(says)) as refused:
        judge(tokens(text), OUTSIDE)
    assert refused.value.code == code


def test_a_request_is_read_as_clickhouse_reads_it() -> None:
    fields = {"query": "SELECT {x:UInt8}", "param_x": "3", "max_threads": "1", "session_id": "s", "user": "u"}
    asked = query_asked(fields, {}, "LIMIT 1", "wattledger")
    assert asked.query.text == "SELECT {x:UInt8}\nLIMIT 1"
    assert asked.query.parameters == {"x": "3"}
    assert asked.query.settings == {"max_threads": "1"}
    assert (asked.query.database, asked.query.output_format, asked.wait_end) == ("wattledger", "TabSeparated", False)


def test_parameters_win_over_headers_and_headers_over_defaults() -> None:
    headers = {"X-ClickHouse-Format": "CSV", "X-ClickHouse-Database": "h"}
    assert query_asked({}, headers, "SELECT 1", "d").query.output_format == "CSV"
    assert query_asked({}, headers, "SELECT 1", "d").query.database == "h"
    asked = query_asked({"default_format": "JSON", "database": "p", "wait_end_of_query": "1"}, headers, "", "d")
    assert (asked.query.output_format, asked.query.database, asked.wait_end) == ("JSON", "p", True)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("readonly", "0", READONLY),
        ("output_format_schema", "f", READONLY),
        ("max_memory_usage", "0", READONLY),
        ("x'y", "1", READONLY),
        ("compress", "1", 48),
        ("decompress", "1", 48),
        ("default_format", "CSV; DROP", 73),
    ],
)
def test_a_parameter_that_is_not_offered_is_refused(name: str, value: str, code: int) -> None:
    with pytest.raises(Refused) as refused:
        query_asked({name: value}, {}, "SELECT 1", "d")
    assert refused.value.code == code


def test_only_this_machine_s_names_are_answered() -> None:
    for host in ("127.0.0.1:8123", "127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8123", ""):
        check_host(host)
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "0.0.0.0", "10.0.0.1"):
        with pytest.raises(Refused, match="is not this machine"):
            check_host(host)


def test_only_a_full_house_is_worth_trying_again() -> None:
    assert status_of(202) == 503
    assert {status_of(code) for code in (62, 60, 164, 159, 241, 9999)} == {400, 403, 404, 500}
