"""The sink with records that ClickHouse decodes: over the engine in its process and over a server, the same rows as by
decoding them one by one; broken ones are put aside and nothing else is lost."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import clickhouse_connect
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error
from wattledger_audit.broker import Broker
from wattledger_audit.processes import free_port
from wattledger_sql.fact import Source
from wattledger_sql.migrate import migrate

from tests.fault_harness.server_process import ClickhouseProcess
from tests.guard_worker import Deployment, wait_until
from tests.unit.avro_records import TOPICS, Sent, by_decoding, costs, held, usage
from tests.unit.sql_rows import cost_row, energy_line, time_line, total_of

pytestmark = pytest.mark.kafka
RECORDS = 900
TAKE_WITHIN_S = "3"
"""So that a topic's records come in one take or two, and at least one has enough of them to be left whole."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickhouseProcess]:
    running = ClickhouseProcess(tmp_path_factory.mktemp("server")).start()
    yield running
    running.stop()


@pytest.fixture
def deployment(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    found = Deployment(broker.bootstrap, f"whole-{topic_prefix}", tmp_path)
    yield found
    found.stop()


def ledger(server: ClickhouseProcess, name: str) -> Client:
    client: Client = clickhouse_connect.get_client(host="127.0.0.1", port=server.port)
    client.command(f"DROP DATABASE IF EXISTS {name}")
    client.command(f"CREATE DATABASE {name}")
    client.database = name
    return client


def records() -> list[Sent]:
    lines = [time_line(f"j{n}", n) for n in range(RECORDS)]
    found = [usage([line, energy_line(f"j{n}", n, n or None)], [total_of(line)]) for n, line in enumerate(lines)]
    priced = [costs([cost_row(line, "compute", "2.5"), cost_row(line, "billed", None)]) for line in lines]
    return [
        Sent(subject, Source(0, offset), value)
        for subject, values in (("usage_lines", found), ("tenant_cost", priced))
        for offset, value in enumerate(values)
    ]


def opened(port: int, database: str) -> Client:
    clients: list[Client] = []

    def answers() -> bool:
        try:
            clients.append(clickhouse_connect.get_client(host="127.0.0.1", port=port, database=database))
        except (Error, OSError):
            return False
        return True

    wait_until("the sink's ledger answers", answers)
    return clients[0]


@pytest.mark.parametrize("broken", [0, 2], ids=["all good", "two broken"])
@pytest.mark.parametrize("store", ["embedded", "server"])
def test_the_rows_are_those_of_decoding_one_by_one(
    server: ClickhouseProcess, deployment: Deployment, store: str, broken: int
) -> None:
    expected_in = ledger(server, f"expected_{store}_{broken}")
    migrate(expected_in)
    sent = records()
    by_decoding(expected_in, sent)
    expected = held(expected_in, "FINAL")
    values = {topic: [one.value for one in sent if TOPICS[one.subject] == topic] for topic in TOPICS.values()}
    if broken:
        values["usage-lines"] += [values["usage-lines"][0] + b"\0", values["usage-lines"][1][:-1]]
    for topic, of_topic in values.items():
        deployment.send(topic, of_topic)
    port = free_port()
    name = f"sink_{store}_{broken}"
    where = {"clickhouse_dsn": f"http://default@127.0.0.1:{server.port}", "clickhouse_database": name}
    if store == "embedded":
        where = {"endpoint_port": str(port), "clickhouse_database": name}
    sink = deployment.worker("sink", sink_take_within_s=TAKE_WITHIN_S, **where)
    for topic, of_topic in values.items():
        deployment.wait_committed("sink", topic, len(of_topic), 120)
    client = opened(port if store == "embedded" else server.port, name)
    assert held(client, "FINAL") == expected
    letters = Counter(letter["reason_code"] for letter in deployment.letters())
    assert letters == ({"trailing_bytes": 1, "undecodable": 1} if broken else {})
    assert deployment.metric(sink, "wattledger_rows_total") >= 5 * RECORDS
    assert deployment.metric(sink, 'wattledger_rows_total{table="cost_rows"}') == 2 * RECORDS
    assert deployment.metric(sink, "wattledger_whole_refused_total") == (1 if broken else 0)
    assert deployment.metric(sink, "wattledger_whole_records_total") >= (0 if broken else RECORDS)
    assert "records_not_taken_whole" in sink.log_tail(200) or not broken
    client.close()
    expected_in.close()
