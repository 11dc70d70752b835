"""The broker away, killed, slow, or its answers lost, under a whole deployment: nothing lost, every row once."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from wattledger_agent.wal import Wal
from wattledger_audit.broker import Broker
from wattledger_streams.log_reader import LogReader

from tests.fault_harness.broker_process import start_private_broker
from tests.fault_harness.cluster import Cluster
from tests.fault_harness.proxy import Proxy
from tests.fault_harness.publishing import Publishing
from tests.fault_harness.wire import PRODUCE
from tests.fault_harness.world import Plan
from tests.fault_play import AgentLog, Play, Seen, holds_for, repeated, until
from tests.plugins_broker import LIBS

pytestmark = pytest.mark.kafka
PLAN = Plan(seed=9, nodes=2, devices=2, minutes=45, ticks_per_record=20)
AWAY_S = 12
SPEED = 300
"""So that the broker is away for an hour of event time."""


@dataclass
class Proxied:
    """A broker of our own: its data outlives it, and workers and agents reach it through a proxy."""

    broker: Broker
    proxy: Proxy
    folder: Path
    prefix: str

    def start(self, **env: str) -> Cluster:
        address = {"WATTLEDGER_BOOTSTRAP": self.kafka["bootstrap.servers"]}
        return Cluster(self.folder, broker=self.broker, prefix=self.prefix, env=address | env)

    @property
    def kafka(self) -> dict[str, str]:
        return {
            "bootstrap.servers": f"127.0.0.1:{self.proxy.port}",
            "reconnect.backoff.max.ms": "500",
            "log_level": "2",
        }


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Proxy]]:
    broker, proxy = start_private_broker(tmp_path_factory.mktemp("own"), LIBS, with_proxy=True)
    assert proxy is not None
    yield broker, proxy
    proxy.close()
    broker.stop()


@pytest.fixture
def proxied(
    apache_kafka: Path, own_broker: tuple[Broker, Proxy], topic_prefix: str, tmp_path: Path
) -> Iterator[Proxied]:
    broker, proxy = own_broker
    assert apache_kafka == LIBS
    yield Proxied(broker, proxy, tmp_path, f"br-{topic_prefix}")
    proxy.pass_through()


def end_of(proxied: Proxied, topic: str, partitions: int) -> int:
    """How many records a topic has had, asked past the proxy."""
    found = 0
    for partition in range(partitions):
        kafka = {"bootstrap.servers": proxied.broker.bootstrap}
        reader = LogReader(kafka, proxied.prefix + topic, partition, "harness-looking")
        found += reader.end_offset()
        reader.close()
    return found


@pytest.mark.fault(
    7,
    f"the broker refuses agents and workers for {AWAY_S} s, {AWAY_S * SPEED // 60} minutes of event time",
    "the agent's log grows, then drains; nothing is missing",
)
def test_a_broker_out_of_reach_for_an_hour_gets_everything_afterwards(proxied: Proxied, seen: Seen) -> None:
    with proxied.start() as cluster:
        play = Play(cluster, PLAN, speed=None)
        agent = AgentLog(proxied.folder / "agent.wal", proxied.kafka, proxied.prefix)
        proxied.proxy.refuse()
        refused = proxied.proxy.counters.refused
        began_s, first_us = time.monotonic(), play.during[0].at_us
        for record in play.during:
            while time.monotonic() < began_s + (record.at_us - first_us) / 1_000_000 / SPEED:
                time.sleep(0.02)
            agent.take([record])
        holds_for(lambda: agent.wal.count() == len(play.during), AWAY_S - (time.monotonic() - began_s), "it is away")
        assert proxied.proxy.counters.refused > refused + 10
        assert end_of(proxied, "gpu-samples", cluster.partitions) < len(play.during)
        proxied.proxy.pass_through()
        until(agent.is_delivered, "the agent's log is empty")
        agent.stop()
        findings = play.finish(seen)
        assert repeated(findings, "gpu-samples") == 0
        seen(f"{len(play.during)} records waited in the agent's log; exits {cluster.exits}")


@pytest.mark.quick
@pytest.mark.fault(
    8,
    "every produce reaches the broker and its answer is lost: of an agent that is then started again, of a producer "
    "without idempotence, of the workers",
    "duplicates in the raw topics, billed once",
)
def test_records_that_came_twice_are_billed_once(proxied: Proxied, seen: Seen) -> None:
    with proxied.start() as cluster:
        play = Play(cluster, PLAN, speed=None)
        half = len(play.during) // 2
        agent = AgentLog(proxied.folder / "agent.wal", proxied.kafka, proxied.prefix)
        agent.take(play.during[:5])
        until(agent.is_delivered, "the agent delivers")
        before = end_of(proxied, "gpu-samples", cluster.partitions)
        lost = proxied.proxy.counters.lost_answers
        proxied.proxy.drop_responses(match=PRODUCE)
        agent.take(play.during[5:half])
        until(lambda: end_of(proxied, "gpu-samples", cluster.partitions) > before + 10, "the broker has batches")
        agent.stop()
        unreported = Wal(proxied.folder / "agent.wal")
        waiting = unreported.count()
        unreported.close()
        assert waiting > 20, "what the broker has was reported to the agent"
        assert proxied.proxy.counters.lost_answers > lost
        proxied.proxy.pass_through()
        again = AgentLog(proxied.folder / "agent.wal", proxied.kafka, proxied.prefix)
        until(again.is_delivered, "the next agent has delivered everything")
        again.stop()
        plain = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
        publishing = cluster.start_publishing(play.during[half:], 200, proxied.kafka, plain)
        lost = proxied.proxy.counters.lost_answers
        proxied.proxy.drop_responses(match=PRODUCE)
        until(lambda: proxied.proxy.counters.lost_answers > lost + 12, "answers of producers and workers were lost")
        proxied.proxy.pass_through()
        publishing.join(150)
        findings = play.finish(seen)
        twice = {topic: repeated(findings, topic) for topic in ("gpu-samples", "job-events", "price-book")}
        seen(f"{proxied.proxy.counters.lost_answers} answers lost, records that came again: {twice}")
        assert twice["gpu-samples"] > 10 and cluster.exits == []


RAW = {"gpu-samples": 2, "job-events": 2, "price-book": 1}


@pytest.mark.fault(9, "broker killed -9 twice while producing and consuming, started on its disk", "nothing is lost")
def test_a_killed_broker_has_what_it_acknowledged(proxied: Proxied, seen: Seen) -> None:
    with proxied.start() as cluster:
        play = Play(cluster, PLAN, speed=None)
        half = len(play.during) // 2
        told = [
            killed_and_started(proxied, cluster.start_publishing(part, 50))
            for part in (play.during[:half], play.during[half:])
        ]
        findings = play.finish(seen)
        again = repeated(findings, "gpu-samples")
        seen(f"acknowledged at the kills: {told}, all there; came again: {again}; exits {cluster.exits}")


def killed_and_started(proxied: Proxied, publishing: Publishing) -> int:
    """Kill the broker while records flow, start it; how many it had acknowledged, which are all there."""
    until(lambda: len(publishing.delivered) > 2, "records are acknowledged")
    [pid] = proxied.broker.pids
    assert publishing.running
    proxied.broker.kill()
    assert proxied.broker.pids == []
    acknowledged = sum(offset + 1 for offset in publishing.delivered.values())
    proxied.broker.restart()
    assert proxied.broker.pids != [pid]
    ends = sum(end_of(proxied, topic, count) for topic, count in RAW.items())
    assert ends >= acknowledged, f"{acknowledged} records were acknowledged, {ends} are there"
    publishing.join(150)
    return acknowledged


@pytest.mark.fault(
    10,
    "5 s from each request to its answer, then resets every 2 s; session timeout of a deployment",
    "slow; no timeout becomes a loss",
)
def test_a_slow_broker_that_cuts_connections_loses_nothing(proxied: Proxied, seen: Seen) -> None:
    with proxied.start(WATTLEDGER_SESSION_TIMEOUT_S="10") as cluster:
        play = Play(cluster, PLAN, speed=60, kafka=proxied.kafka)
        down, cut = proxied.proxy.counters.bytes_down, proxied.proxy.counters.cut
        proxied.proxy.delay(2.5)
        holds_for(play.is_publishing, 20, "records flow while it is slow")
        proxied.proxy.delay(0.5)
        for _ in range(5):
            proxied.proxy.reset()
            holds_for(play.is_publishing, 2, "records flow between resets")
        slow_bytes = proxied.proxy.counters.bytes_down - down
        proxied.proxy.pass_through()
        findings = play.finish(seen)
        cut = proxied.proxy.counters.cut - cut
        assert slow_bytes > 0 and cut > 10
        seen(f"{slow_bytes} bytes came slowly, {cut} connections cut, {repeated(findings, 'gpu-samples')} records came "
             f"again; exits {cluster.exits}")  # fmt: skip
