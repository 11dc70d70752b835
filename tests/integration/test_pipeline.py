"""The whole pipeline on a real broker with ClickHouse's engine: the tables' rows equal replay's, one by one."""

import time
from collections.abc import Iterator
from pathlib import Path

import clickhouse_connect
import httpx
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError
from wattledger_audit.broker import Broker
from wattledger_audit.demo import play_into, read_client, settle, wait_fresh
from wattledger_audit.stack import Stack, StackSettings
from wattledger_audit.topic_amounts import amounts_by_component, fold_topic
from wattledger_sql.verify import verify

from tests.pipeline_check import assert_rows_equal_replay
from tests.pipeline_day import emissions

pytestmark = pytest.mark.kafka


def quiet(_: str) -> None:
    """Progress goes nowhere."""


@pytest.fixture(scope="module")
def stack(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The day played into a fresh stack of two partitions, settled."""
    settings = StackSettings(
        tmp_path_factory.mktemp("stack"), Path(), broker.bootstrap, 2, "pipeline.", future_limit_s=7200, refresh_s=1
    )
    with Stack(settings) as running:
        play_into(running, emissions(), quiet)
        settle(running, quiet)
        yield running


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[Client]:
    found = read_client(stack)
    wait_fresh(found)
    yield found
    found.close()


def test_the_rows_in_the_tables_and_in_the_topic_equal_replays_one_by_one(stack: Stack, client: Client) -> None:
    expected = assert_rows_equal_replay(stack, client)
    entries = {line.entry for line in expected.lines}
    assert entries == {"original", "reversal", "correction"}, "the day must have late revisions"
    assert {row.entry for row in expected.cost_rows if row.component == "compute"} == entries, "and a late price"
    assert len(expected.lines) > 2500


def test_the_laws_hold_as_sql_and_against_the_folded_topic(stack: Stack, client: Client) -> None:
    rows = fold_topic(stack.kafka, stack.settings.topic_prefix + "tenant-cost", 2)
    broken = [law for law in verify(client, amounts_by_component(rows)) if not law.ok]
    assert broken == []


def test_a_write_through_the_endpoint_is_refused(stack: Stack, client: Client) -> None:
    before = client.query("SELECT count() FROM cost_rows").result_rows
    with pytest.raises(DatabaseError):
        client.command("ALTER TABLE cost_rows DELETE WHERE 1")
    with pytest.raises(DatabaseError):
        client.insert("gaps", [["n", "a", "t", 1, 2, 1, None, None, "x"]], column_names=[
            "node", "agent", "topic", "from_seq", "to_seq", "record_count", "from_at", "to_at", "reason"
        ])  # fmt: skip
    assert client.query("SELECT count() FROM cost_rows").result_rows == before


def test_another_stock_client_reads_the_same(stack: Stack, client: Client) -> None:
    other = clickhouse_connect.get_client(host="127.0.0.1", port=stack.endpoint_port, database="wattledger")
    asked = "SELECT tenant_id, sum(cost) FROM v_cost_rows GROUP BY tenant_id ORDER BY tenant_id"
    assert other.query(asked).result_rows == client.query(asked).result_rows
    other.close()


def metrics(stack: Stack, worker: str) -> dict[str, float]:
    """Samples of a worker's metrics page by name with labels."""
    page = httpx.get(f"http://127.0.0.1:{stack.metrics_ports[worker]}/metrics").text
    lines = (line.rsplit(" ", 1) for line in page.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def test_the_workers_say_how_they_are(stack: Stack, client: Client) -> None:
    meter, sink = metrics(stack, "meter"), metrics(stack, "sink")
    assert meter["wattledger_late_revisions_total"] > 0
    assert meter['wattledger_corrections_total{entry="reversal"}'] > 0
    assert meter['wattledger_settled_timestamp_seconds{partition="0"}'] > 1_794_182_400
    assert sink['wattledger_rows_total{table="cost_rows"}'] > 2500
    until = time.monotonic() + 30
    wanted = 'wattledger_lag_records{partition="0",topic="pipeline.gpu-samples"}'
    while wanted not in metrics(stack, "meter") and time.monotonic() < until:
        time.sleep(0.5)
    assert metrics(stack, "meter")[wanted] == 0


def test_no_worker_ended_on_the_way(stack: Stack) -> None:
    assert stack.restarts == 0
