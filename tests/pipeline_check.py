"""Row-by-row comparison of tables, topics and replay."""

from collections.abc import Mapping
from typing import Any

from clickhouse_connect.driver.client import Client
from wattledger_audit.settling import partitions_of
from wattledger_audit.stack import Stack
from wattledger_audit.topic_amounts import fold_topic
from wattledger_audit.topic_logs import read_logs
from wattledger_core.policy import Policy
from wattledger_core.replay import Replayed, replay
from wattledger_core.units import US_PER_S

FACTS = (
    "usage_lines",
    "device_totals",
    "cost_rows",
    "discrepancies",
    "allocation_revisions",
    "node_revisions",
    "prices",
)


def replayed(stack: Stack) -> Replayed:
    """Replay over what the stack's topics hold."""
    counts = partitions_of(stack.settings.partitions)
    logs, placed = read_logs(stack.kafka, stack.settings.topic_prefix, counts)
    policy = Policy(future_limit_us=stack.settings.future_limit_s * US_PER_S)
    return replay(logs, policy, counts["allocations"], placed)


def table(client: Client, name: str) -> list[tuple[Any, ...]]:
    """A fact table read with FINAL, without the columns that say when and whence a row came."""
    columns = client.query(
        "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = {table:String} "
        "AND name NOT IN ('inserted_at', 'source_partition', 'source_offset') ORDER BY position",
        parameters={"table": name},
    ).result_rows
    chosen = ", ".join(f"toString({column[0]})" for column in columns)
    return sorted(tuple(row) for row in client.query(f"SELECT {chosen} FROM {name} FINAL").result_rows)


def tables(client: Client) -> dict[str, list[tuple[Any, ...]]]:
    return {name: table(client, name) for name in FACTS}


def ids(client: Client, name: str, column: str) -> list[str]:
    return sorted(row[0] for row in client.query(f"SELECT toString({column}) FROM {name} FINAL").result_rows)


def assert_rows_equal_replay(stack: Stack, client: Client) -> Replayed:
    """Lines, totals and cost rows in the tables, and the rows of the topic, equal replay's one by one."""
    expected = replayed(stack)
    lines = {line.line_id: line for line in expected.lines}
    assert ids(client, "usage_lines", "line_id") == sorted(lines)
    got = client.query(
        "SELECT line_id, device_us, energy_uj, span_us, tenant_id, state, sign, entry, cause_id FROM usage_lines FINAL"
    ).result_rows
    for row in got:
        line = lines[str(row[0])]
        assert tuple(row[1:]) == (
            line.device_us, line.energy_uj, line.span_us, line.tenant, line.state, line.sign, line.entry, line.cause_id,
        )  # fmt: skip
    assert ids(client, "device_totals", "total_id") == sorted(total.total_id for total in expected.totals)
    rows = {row.row_id: row for row in expected.cost_rows}
    assert ids(client, "cost_rows", "row_id") == sorted(rows)
    stored = client.query(
        "SELECT row_id, quantity, cost, status, sign, entry, tenant_id FROM cost_rows FINAL"
    ).result_rows
    for row in stored:
        cost = rows[str(row[0])]
        assert tuple(row[1:]) == (cost.quantity, cost.cost, cost.status, cost.sign, cost.entry, cost.tenant)
    counts = partitions_of(stack.settings.partitions)
    topic = fold_topic(stack.kafka, stack.settings.topic_prefix + "tenant-cost", counts["tenant-cost"])
    assert topic == rows
    return expected


def difference(one: Mapping[str, list[Any]], other: Mapping[str, list[Any]]) -> dict[str, tuple[int, int]]:
    """How many rows of each table are only in one, and only in the other; empty when the tables are the same."""
    found = {}
    for name in one:
        a, b = set(one[name]), set(other[name])
        if a != b or len(one[name]) != len(other[name]):
            found[name] = (len(a - b), len(b - a))
    return found
