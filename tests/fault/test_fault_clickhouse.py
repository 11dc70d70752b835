"""ClickHouse away, slow, cut off, killed and failing in a refresh, under a whole deployment: every row once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient
from wattledger_audit.broker import Broker
from wattledger_audit.demo import wait_fresh
from wattledger_sql.verify import verify
from wattledger_streams.app import build_app
from wattledger_streams.settings import WorkerSettings

from tests.fault_harness.cluster import Cluster
from tests.fault_harness.proxy import Proxy
from tests.fault_harness.server_process import ClickhouseProcess
from tests.fault_harness.wire import http_answer
from tests.fault_harness.world import Plan
from tests.fault_play import ROWS, Play, Seen, above, counts, holds_for, metric, until

pytestmark = pytest.mark.kafka
PLAN = Plan(seed=18, nodes=2, devices=2, minutes=30, ticks_per_record=20, tick_s=10)
SCALED = {
    "STREAM_BUFFER_MAXSIZE": "50", "BROKER_MAX_POLL_RECORDS": "50", "WATTLEDGER_SINK_TAKE_MAX": "100",
}  # fmt: skip
"""Faust reads the first two itself: 50 records are held in memory instead of 4096, so that the worker soon polls no
more."""
WATCHDOG_S = 15
MOST_GROWTH_BYTES = 40 << 20
BUSY = http_answer(503, "Code: 202. DB::Exception: Too many simultaneous queries. (TOO_MANY_SIMULTANEOUS_QUERIES)", 202)


@pytest.fixture
def start(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    """Starts one cluster with a server of its own behind a proxy; ends it."""
    made: list[Cluster] = []

    def started(**env: str) -> Cluster:
        made.append(Cluster(tmp_path, broker=broker, prefix=f"ch-{topic_prefix}", clickhouse="server", env=env))
        return made[-1].start()

    yield started
    for cluster in made:
        print(f"exits: {cluster.exits}\n{cluster.fleet.log_tails(6)}")
        cluster.stop()


def proxy_of(cluster: Cluster) -> Proxy:
    assert cluster.clickhouse_proxy is not None
    return cluster.clickhouse_proxy


def server_of(cluster: Cluster) -> ClickhouseProcess:
    assert cluster.clickhouse is not None
    return cluster.clickhouse


def waits(cluster: Cluster) -> float:
    return metric(cluster.workers["sink"][0], "wattledger_not_available_total")


def sink_lag(cluster: Cluster) -> int:
    return sum(count for name, count in cluster.lag().behind.items() if name.startswith("sink:"))


def sink_members(cluster: Cluster) -> int:
    """How many workers the broker counts to the sink's group; -1 while its coordinator is not known."""
    admin = AdminClient({**cluster.kafka})
    group = f"{cluster.prefix}wattledger-sink"
    try:
        told = admin.describe_consumer_groups([group])[group].result(10)
    except KafkaException:
        return -1
    return 0 if told.state == ConsumerGroupState.EMPTY else len(told.members)


def test_no_outage_of_a_month_reaches_the_poll_interval() -> None:
    assert build_app("sink", WorkerSettings()).conf.broker_max_poll_interval > 31 * 86_400


@pytest.mark.fault(
    18,
    "ClickHouse refuses until the sink, its buffer full (50 records, 4096 in a deployment), polls no more; then 12 s",
    "lag grows, memory does not, the sink stays in its group, no worker ends, it catches up, every row once",
)
def test_an_outage_only_costs_time(start: Callable[..., Cluster], seen: Seen) -> None:
    cluster = start(**SCALED)
    play = Play(cluster, PLAN)
    proxy_of(cluster).refuse()
    until(lambda: waits(cluster) > 0, "the sink met the outage")
    lag, memory = sink_lag(cluster), cluster.fleet.pss_bytes("sink")
    until(lambda: sink_lag(cluster) > lag + 300, "more came than the sink holds in memory")
    holds_for(lambda: sink_members(cluster) == 1, 12, "the sink stays in its group")
    grown = cluster.fleet.pss_bytes("sink") - memory
    grew = sink_lag(cluster) - lag
    assert grown < MOST_GROWTH_BYTES, f"the sink grew by {grown >> 20} MB"
    assert proxy_of(cluster).counters.refused > 3
    proxy_of(cluster).pass_through()
    play.finish(seen)
    assert cluster.exits == []
    refused = proxy_of(cluster).counters.refused
    seen(f"lag grew by {grew} records, the sink by {grown >> 10} kB; {refused} tries refused")


@pytest.mark.fault(
    18,
    f"the sink is killed while ClickHouse refuses, for 2 limits of its watchdog of {WATCHDOG_S} s (60 s by default)",
    "started again it waits and is not ended; then every row once",
)
def test_a_sink_that_starts_without_clickhouse_waits_for_it(start: Callable[..., Cluster], seen: Seen) -> None:
    cluster = start(**SCALED, WATTLEDGER_WATCHDOG_S=str(WATCHDOG_S))
    play = Play(cluster, PLAN)
    proxy_of(cluster).refuse()
    cluster.kill("sink")
    until(lambda: ("sink", -signal.SIGKILL) in cluster.exits, "it was killed")
    refused = proxy_of(cluster).counters.refused
    until(lambda: waits(cluster) > 0, "the new sink met the outage")
    holds_for(lambda: cluster.exits == [("sink", -signal.SIGKILL)], 2 * WATCHDOG_S, "the sink that waits is left alone")
    assert proxy_of(cluster).counters.refused > refused + 3
    proxy_of(cluster).pass_through()
    play.finish(seen)
    seen(f"exits: {cluster.exits}")


@pytest.mark.fault(
    18, "ClickHouse takes connections and answers nothing for two minutes", "timed out and tried again; once each"
)
def test_timeouts_are_tried_again(start: Callable[..., Cluster], seen: Seen) -> None:
    cluster = start()
    play = Play(cluster, PLAN)
    proxy_of(cluster).stall()
    holds_for(lambda: cluster.exits == [], 62, "the sink waits for its answer")
    until(lambda: waits(cluster) > 0, "a request timed out, and the client's own second try")
    proxy_of(cluster).pass_through()
    play.finish(seen)
    assert cluster.exits == []


@pytest.mark.fault(
    18, "ClickHouse answers 503 (too busy), a second sink joins meanwhile", "both try again; every row once"
)
def test_a_busy_clickhouse_is_asked_again(start: Callable[..., Cluster], seen: Seen) -> None:
    cluster = start(**SCALED)
    play = Play(cluster, PLAN)
    requests = proxy_of(cluster).counters.requests
    proxy_of(cluster).answer(BUSY)
    until(lambda: waits(cluster) > 2, "three tries were answered with 503")
    cluster.scale("sink", 2)
    holds_for(lambda: cluster.exits == [], 10, "the sinks go on asking")
    asked = proxy_of(cluster).counters.requests - requests
    proxy_of(cluster).pass_through()
    play.finish(seen)
    seen(f"{asked} requests answered with 503, exits {cluster.exits}")
    assert asked > 3 and cluster.exits == []


@pytest.mark.fault(18, "each byte to and from ClickHouse takes 1 s, at 20 kB/s", "slow, and every row once")
def test_a_slow_clickhouse_is_slow(start: Callable[..., Cluster], seen: Seen) -> None:
    cluster = start(**SCALED)
    play = Play(cluster, PLAN)
    proxy_of(cluster).delay(1.0)
    proxy_of(cluster).throttle(20_000)
    before = proxy_of(cluster).counters.bytes_down
    holds_for(lambda: cluster.exits == [], 15, "the sink goes on")
    assert proxy_of(cluster).counters.bytes_down > before, "answers still come"
    lag = sink_lag(cluster)
    proxy_of(cluster).pass_through()
    play.finish(seen)
    assert cluster.exits == [] and lag > 0
    seen(f"{lag} records behind when it became quick again")


@pytest.mark.quick
@pytest.mark.fault(
    19, "the connection is cut after an insert was applied, three times, then after every one for a while",
    "sent again and recognised: no row is even stored twice",
)  # fmt: skip
def test_an_insert_whose_answer_was_lost_is_not_stored_again(start: Callable[..., Cluster], seen: Seen) -> None:
    cluster = start()
    play = Play(cluster, PLAN)
    proxy = proxy_of(cluster)
    for n in (1, 2, 3):
        lost = proxy.counters.lost_answers
        proxy.cut_after_request(n, match="INSERT INTO")
        until(above(lambda: proxy.counters.lost_answers, lost), f"the answer to insert {n} from now was lost")
    proxy.drop_responses(match="INSERT INTO")
    lost = proxy.counters.lost_answers
    until(lambda: proxy.counters.lost_answers >= lost + 4, "four more answers were lost")
    proxy.pass_through()
    play.finish(seen)
    with closing(cluster.client()) as client:
        rows = counts(client)
    seen(f"{proxy.counters.lost_answers} answers lost; stored and standing rows: {rows['usage_lines']} lines")
    assert cluster.exits == [] and proxy.counters.lost_answers >= 7
    assert all(rows[table][0] == rows[table][1] for table in ("usage_lines", "cost_rows", "device_totals")), rows


@pytest.mark.fault(20, "ClickHouse killed -9 three times while the sink inserts", "acknowledged rows are there; exact")
def test_a_killed_clickhouse_has_what_was_acknowledged(start: Callable[..., Cluster], seen: Seen) -> None:
    cluster = start()
    play = Play(cluster, PLAN, speed=60)
    server, sink = server_of(cluster), cluster.workers["sink"][0]
    told = []
    for _ in range(3):
        until(above(lambda: metric(sink, ROWS), metric(sink, ROWS)), "an insert was acknowledged", every_s=0.005)
        acknowledged = cluster.committed("sink", "usage-lines")
        pid = server.child.pid
        server.kill()
        assert not server.child.alive
        server.start()
        assert server.child.pid != pid
        told.append(kept_up_to(cluster, acknowledged))
    play.finish(seen)
    seen(f"records acknowledged at each kill: {told}, the lines of all of them were there; exits {cluster.exits}")
    assert cluster.exits == [] and told[-1] > 0


def kept_up_to(cluster: Cluster, acknowledged: list[int]) -> int:
    """Every acknowledged `usage-lines` record has its rows in the server that was just started; how many records."""
    with closing(cluster.client()) as client:
        there = set(client.query("SELECT DISTINCT source_partition, source_offset FROM usage_lines").result_rows)
        there |= set(client.query("SELECT DISTINCT source_partition, source_offset FROM device_totals").result_rows)
    missing = [(p, o) for p, end in enumerate(acknowledged) for o in range(max(end, 0)) if (p, o) not in there]
    assert missing == [], f"acknowledged and not there: {missing[:5]}"
    return sum(max(end, 0) for end in acknowledged)


@pytest.mark.fault(
    21, "ClickHouse killed while views are refreshed, then a view's table is away so that its refresh fails",
    "the sink ends or tries again; afterwards base and views agree by every law",
)  # fmt: skip
def test_after_failed_refreshes_base_and_views_agree(start: Callable[..., Cluster], seen: Seen) -> None:
    cluster = start()
    play = Play(cluster, PLAN, speed=60)
    proxy, server = proxy_of(cluster), server_of(cluster)
    for statement in ("SYSTEM WAIT VIEW", "SYSTEM REFRESH VIEW"):
        lost = proxy.counters.lost_answers
        proxy.cut_after_request(2, match=statement)
        until(above(lambda: proxy.counters.lost_answers, lost), f"{statement} went unanswered", every_s=0.002)
        server.kill()
        server.start()
    with closing(cluster.client()) as client:
        client.command("RENAME TABLE tenant_margin_hour TO put_away")
        until(lambda: ("sink", 70) in cluster.exits, "the sink ended: a refresh that fails is not passed over")
        client.command("RENAME TABLE put_away TO tenant_margin_hour")
        play.finish(seen)
        wait_fresh(client)
        broken = [law for law in verify(client) if not law.ok]
        hours = client.query("SELECT count() FROM tenant_margin_hour FINAL").result_rows[0][0]
    seen(f"exits {cluster.exits}; {hours} rows of tenant_margin_hour, laws broken: {[law.name for law in broken]}")
    assert broken == [] and hours > 0


@pytest.mark.fault(
    22, "a deduplication window of 5 blocks overflown, then everything replayed from offset 0 in other cuts",
    "rows are stored twice, and once in FINAL; amounts exact",
)  # fmt: skip
def test_a_replay_beyond_the_deduplication_window_changes_nothing(start: Callable[..., Cluster], seen: Seen) -> None:
    cluster = start(WATTLEDGER_SINK_TAKE_MAX="20")
    play = Play(cluster, PLAN)
    with closing(cluster.client()) as client:
        for table in ("usage_lines", "cost_rows", "device_totals", "allocation_revisions", "prices"):
            client.command(f"ALTER TABLE {table} MODIFY SETTING non_replicated_deduplication_window = 5")
        play.finish(seen)
        before = counts(client)
        cluster.scale("sink", 0)
        group = f"{cluster.prefix}wattledger-sink"
        until(lambda: sink_members(cluster) == 0, "the sink left its group")
        admin = AdminClient({**cluster.kafka})
        admin.delete_consumer_groups([group])[group].result(20)
        cluster.scale("sink", 1)
        until(lambda: sum(cluster.committed("sink", "usage-lines")) > 0, "the replay has begun")
        cluster.settle()
        after = counts(client)
        assert after["usage_lines"][0] > before["usage_lines"][0], "the replay was beyond the window"
        assert {table: stands for table, (_, stands) in after.items()} == {t: s for t, (_, s) in before.items()}
        play.judge(seen)
        wait_fresh(client)
        assert [law for law in verify(client) if not law.ok] == []
    seen(f"lines stored and standing: {before['usage_lines']} before the replay, {after['usage_lines']} after it")
