"""Rows a second into ClickHouse by the sink's own insert functions, beside clickhouse-connect with the same rows."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from clickhouse_connect.driver.client import Client
from wattledger_core.cost import CostRow
from wattledger_core.line import Line
from wattledger_sql import fact
from wattledger_sql.block import insert_rows
from wattledger_sql.fact import Fact, Source

from benchmarks.month_clock import timed

RECORDS_A_TAKE = 2000
# Of 2,000 records of a take about 600 are usage-lines of eight devices, the others their tenants' cost rows.
ROWS_A_TAKE = 5000
TAKES = 12
_MAKE: dict[str, Callable[[Sequence[Any]], Any]] = {"usage_lines": Line._make, "cost_rows": CostRow._make}


def sink_rates(client: Client, say: Callable[[str], None]) -> list[dict[str, object]]:
    """`usage_lines` and `cost_rows`: both ways into empty tables of the same columns and engine, in turn."""
    found = []
    for table in (fact.USAGE_LINES, fact.COST_ROWS):
        found.append(_rate(client, table))
        say(f"sink: {found[-1]}")
    return found


def _rate(client: Client, table: Fact) -> dict[str, object]:
    ours = Fact(f"sink_{table.table}", table.columns, table.content_id, table.month_column, table.decimals)
    for name in (ours.table, f"plain_{table.table}"):
        client.command(f"DROP TABLE IF EXISTS {name}")
        client.command(f"CREATE TABLE {name} AS {table.table}")
    rows = _rows(client, table)
    sources = [Source(0, n) for n in range(len(rows))]
    ours_s = ours_cpu_s = plain_s = plain_cpu_s = 0.0
    for take in _takes(rows):
        columns = [*map(list, zip(*take, strict=True)), *map(list, zip(*sources, strict=True))]
        one = timed(lambda take=take: insert_rows(client, ours, take, sources))  # type: ignore[misc]
        other = timed(lambda columns=columns: _plain(client, table, columns))  # type: ignore[misc]
        ours_s, ours_cpu_s = ours_s + one.seconds, ours_cpu_s + one.cpu_seconds
        plain_s, plain_cpu_s = plain_s + other.seconds, plain_cpu_s + other.cpu_seconds
    _agree(client, ours.table, f"plain_{table.table}", len(rows) * TAKES)
    return {
        "table": table.table,
        "rows_a_take": len(rows),
        "rows_per_s": round(len(rows) * TAKES / ours_s),
        "rows_per_cpu_s": round(len(rows) * TAKES / ours_cpu_s),
        "plain_rows_per_s": round(len(rows) * TAKES / plain_s),
        "plain_rows_per_cpu_s": round(len(rows) * TAKES / plain_cpu_s),
        "cpu_ratio": round(ours_cpu_s / plain_cpu_s, 2),
        "ratio": round(ours_s / plain_s, 2),
    }


def _plain(client: Client, table: Fact, columns: Sequence[Sequence[Any]]) -> None:
    names = (*table.columns, "source_partition", "source_offset")
    client.insert(
        f"plain_{table.table}", columns, column_names=names, column_oriented=True, settings={"async_insert": 0}
    )


def _rows(client: Client, table: Fact) -> list[Any]:
    """One take's rows of the month, as the core's values: stamps in µs."""
    wanted = ", ".join(f"toUnixTimestamp64Micro({c})" if c.endswith("_at") else c for c in table.columns)
    sql = f"SELECT {wanted} FROM {table.table} WHERE start_at >= '2026-06-02 00:00:00' LIMIT {ROWS_A_TAKE}"
    return [_MAKE[table.table](row) for row in client.query(sql).result_rows]


def _takes(rows: list[Any]) -> Iterator[list[Any]]:
    """The same rows under new ids, so that each take is another block."""
    for number in range(TAKES):
        yield [row._replace(**{row._fields[0]: f"{number:04x}{row[0][4:]}"}) for row in rows]


def _agree(client: Client, one: str, other: str, expected: int) -> None:
    sql = "SELECT count(), sum(cityHash64(content_hash)) FROM {} FINAL"
    found = [tuple(client.query(sql.format(name)).result_rows[0]) for name in (one, other)]
    if found[0] != found[1] or found[0][0] != expected:
        raise RuntimeError(f"{one} and {other} should hold the same {expected} rows, and hold {found}")
