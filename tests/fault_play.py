"""A world played through a cluster around a fault: one part before and during it, the rest after it, then the truth."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from clickhouse_connect.driver.client import Client
from wattledger_agent.publisher import Publisher
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import BROADCAST, BY_KEY, WalRecord

from tests import waiting
from tests.fault_harness.checker import Finding, assert_exact, check
from tests.fault_harness.cluster import Cluster
from tests.fault_harness.plan import MINUTE
from tests.fault_harness.publishing import EVERY_PARTITION
from tests.fault_harness.worker_fleet import Worker
from tests.fault_harness.world import Plan, Sent, World

Seen = Callable[[str], None]
until = partial(waiting.until, within_s=150)
ROWS = "wattledger_rows_total"
WARM_MINUTES = 4
FACTS = ("usage_lines", "cost_rows", "device_totals", "allocation_revisions", "marks", "prices", "dead_letters")


def above(value: Callable[[], float], than: float) -> Callable[[], bool]:
    """Whether a value has passed what it was."""
    return lambda: value() > than


def holds_for(is_so: Callable[[], bool], seconds: float, what: str) -> None:
    """A fault has to last: the condition is looked at all the while, and has to hold each time."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        assert is_so(), what
        time.sleep(0.1)


class Play:
    """The world's first minutes are published and their rows waited for, so that all workers are at work. Then its
    records up to `minutes` of event time (`during`) are for the fault; `finish` publishes the rest.

    With `speed` (event time over wall time) `during` is played in the background at once; `kafka` and `producer` are
    then address and settings of the producer, if not the cluster's own. Without it the case publishes them itself.
    """

    def __init__(
        self, cluster: Cluster, plan: Plan, minutes: float | None = None, speed: float | None = 100,
        kafka: Mapping[str, str] | None = None, producer: Mapping[str, str | int | float | bool] | None = None,
    ) -> None:  # fmt: skip
        self.cluster, self.world = cluster, World(plan)
        warm_us = plan.start_us + WARM_MINUTES * MINUTE
        until_us = plan.start_us + round((minutes or plan.minutes * 2 / 3) * MINUTE)
        emissions = list(self.world.emissions())
        self.during = [sent for sent in emissions if warm_us < sent.at_us <= until_us]
        self.rest = [sent for sent in emissions if sent.at_us > until_us]
        cluster.publish(sent for sent in emissions if sent.at_us <= warm_us)
        sinks = cluster.workers["sink"]
        until(lambda: any(metric(sink, ROWS) > 0 for sink in sinks), "rows of the first minutes are in ClickHouse")
        self.publishing = cluster.start_publishing(self.during, speed, kafka, producer) if speed else None

    def is_publishing(self) -> bool:
        """Records are still to come: a fault that strikes now strikes while they flow."""
        return self.publishing is not None and self.publishing.running

    def finish(self, seen: Seen, within_s: float = 240) -> list[Finding]:
        """Publish the rest, wait until all is at rest, and hold everything against the truth."""
        self.publish_rest(within_s)
        return self.judge(seen)

    def publish_rest(self, within_s: float = 240) -> None:
        """The fault is over: what is published now shows that work goes on. Returns when all is at rest."""
        if self.publishing is not None:
            self.publishing.join(within_s)
        assert self.rest, "nothing is left to show that work goes on"
        self.cluster.publish(self.rest, within_s=within_s)
        self.cluster.settle(within_s)

    def judge(self, seen: Seen) -> list[Finding]:
        """Hold what there is against the truth, to the last digit."""
        client = self.cluster.client()
        try:
            findings = check(self.world, self.cluster.kafka, self.cluster.prefix, self.cluster.partitions, client)
            assert_exact(findings)
            rows = counts(client)
        finally:
            client.close()
        lines = rows["usage_lines"][1]
        assert lines > 200, f"only {lines} lines: too small a world to be wrong about"
        seen(
            f"{len(self.during)} records published meanwhile, {len(self.rest)} afterwards; {lines} lines and "
            f"{rows['cost_rows'][1]} cost rows equal the truth ({len(findings)} findings)"
        )
        return findings


class AgentLog:
    """An agent's write-ahead log and publisher, in this process; `stop` without emptying is what a crash leaves."""

    def __init__(self, wal_file: Path, kafka: Mapping[str, str], prefix: str) -> None:
        self.wal = Wal(wal_file)
        self._publisher = Publisher(self.wal, kafka, prefix)
        self._publisher.start()

    def take(self, records: list[Sent]) -> None:
        """Durable when this returns."""
        self.wal.append(
            [
                WalRecord(r.topic, r.key.decode(), r.value, BROADCAST if r.partition_key == EVERY_PARTITION else BY_KEY)
                for r in records
            ]
        )

    def is_delivered(self) -> bool:
        return self.wal.count() == 0

    def stop(self) -> None:
        self._publisher.stop(empty=False)
        self.wal.close()


def counts(client: Client) -> dict[str, tuple[int, int]]:
    """By table: rows as stored, and rows that stand (FINAL)."""
    found = {}
    for table in FACTS:
        stored = client.query(f"SELECT count() FROM {table}").result_rows[0][0]
        stands = client.query(f"SELECT count() FROM {table} FINAL").result_rows[0][0]
        found[table] = int(stored), int(stands)
    return found


def repeated(findings: list[Finding], topic: str) -> int:
    """How many records of a raw topic came again, as the checker counted them."""
    [told] = [finding.what for finding in findings if finding.what.startswith(f"{topic} in Kafka")]
    return int(told.partition("(")[2].split()[0])


def metric(worker: Worker, name: str) -> float:
    """The sum of a worker's own metric over its labels; 0 while it has none or does not answer."""
    try:
        with urlopen(f"http://127.0.0.1:{worker.metrics_port}/metrics", timeout=2) as answer:
            text = answer.read().decode()
    except (URLError, OSError):
        return 0.0
    lines = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
    return sum(float(line.rpartition(" ")[2]) for line in lines)
