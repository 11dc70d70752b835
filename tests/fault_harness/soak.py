"""Faults at random for as long as asked, over a world that goes on: is everything there in the end, to the last digit
(conservation), and does the deployment work again each time the faults stop (liveness)?

    python -m tests.fault_harness.soak --minutes 30 [--seed N] [--out out/soak]

Ends with 0 when both held. The seed draws the world and the faults; how they fall together is the machine's.
"""

import argparse
import json
import secrets
import shutil
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from clickhouse_connect.driver.exceptions import Error

from tests.fault_harness.checker import check
from tests.fault_harness.cluster import Cluster
from tests.fault_harness.publishing import Publishing
from tests.fault_harness.soak_faults import Faults
from tests.fault_harness.soak_report import Calm, Outcome, markdown
from tests.fault_harness.stop_signal import leave_on_sigterm
from tests.fault_harness.worker_fleet import PROCESSORS
from tests.fault_harness.world import Plan, World

STORM_S = 90.0
CALM_WITHIN_S = 120.0
SPEED = 40.0
"""Event time over wall time: half an hour is a day of the world."""
_END_US = 5 * 60_000_000
"""Before the world's end every node has whole batches."""
_NEWEST = """
SELECT if(count() < {nodes}, 0, min(newest_us)) FROM (
    SELECT max(toUnixTimestamp64Micro(group_end_at)) AS newest_us FROM usage_lines WHERE kind = 'energy' GROUP BY node
)
"""


@dataclass
class Soak:
    """One run."""

    seed: int
    minutes: float
    work_dir: Path
    nodes: int = 8
    calms: list[Calm] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    _last_us: int = 0

    def run(self) -> Outcome:
        """Publish, strike, heal, look, until the time is up; then settle and check everything."""
        began_s = time.monotonic()
        plan = replace(
            Plan(self.seed, nodes=self.nodes, devices=4, minutes=int(self.minutes * SPEED)).with_every_trouble(),
            late_by_min=20, late_records_by_min=60, gaps=int(self.minutes * SPEED / 60) + 1,
        )  # fmt: skip
        world = World(plan)
        with Cluster(
            self.work_dir, partitions=4, clickhouse="server", broker_proxy=True,
            workers=dict.fromkeys(PROCESSORS, 2),
        ) as cluster:  # fmt: skip
            faults = Faults(cluster, Random(self.seed))
            through_proxy = {**cluster.kafka, "bootstrap.servers": cluster.worker_bootstrap}
            publishing = Publishing(world.emissions(), through_proxy, cluster.prefix, cluster.partitions, SPEED)
            self._last_us = plan.end_us - _END_US
            try:
                self._storms(faults, publishing, began_s + self.minutes * 60)
                faults.heal()
                sent = publishing.join(600)
            finally:
                publishing.end()
            self.say("published to the end; waiting for rest")
            cluster.settle(600)
            self.say("at rest; checking everything")
            client = cluster.client()
            findings = check(world, cluster.kafka, cluster.prefix, cluster.partitions, client)
            restarts, exits = cluster.fleet.restarts, len(cluster.exits)
            client.close()
        return Outcome(
            self.seed, self.minutes, time.monotonic() - began_s, sent, restarts, exits, faults.done, self.calms,
            findings,
        )  # fmt: skip

    def _storms(self, faults: Faults, publishing: Publishing, until_s: float) -> None:
        while time.monotonic() < until_s and publishing.running:
            storm_until_s = min(time.monotonic() + STORM_S, until_s)
            while time.monotonic() < storm_until_s:
                self.say(faults.strike())
                time.sleep(faults.random.uniform(0.2, 4.0))
            faults.heal()
            self._calm(faults.cluster, publishing)

    def _calm(self, cluster: Cluster, publishing: Publishing) -> None:
        """The faults have stopped: what every node sends from now on must be in the ledger soon. The world's last
        samples come long before its last ticks and late events: near its end, they must be there."""
        wanted_us = min(publishing.at_us, self._last_us)
        healed_s = time.monotonic()
        while time.monotonic() < healed_s + CALM_WITHIN_S and publishing.running:
            if self._newest_us(cluster) > wanted_us:
                break
            time.sleep(0.5)
        took_s = time.monotonic() - healed_s
        memory = {name: cluster.fleet.pss_bytes(name) // max(len(cluster.workers[name]), 1) for name in PROCESSORS}
        self.calms.append(Calm(took_s, took_s < CALM_WITHIN_S, memory))
        shown = ", ".join(f"{name} {size >> 20} MB" for name, size in memory.items())
        self.say(f"calm: caught up in {took_s:.1f} s; a worker's memory: {shown}")

    def _newest_us(self, cluster: Cluster) -> int:
        """Up to where the ledger has samples of every node; 0 when nobody answers."""
        try:
            client = cluster.client(10)
            try:
                return int(client.query(_NEWEST.format(nodes=self.nodes)).result_rows[0][0])
            finally:
                client.close()
        except (Error, OSError):
            return 0

    def say(self, what: str) -> None:
        self.told.append(what)
        print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=None, help="draws the world and the faults; drawn when not given")
    parser.add_argument("--out", type=Path, default=Path("out/soak"))
    given = parser.parse_args()
    leave_on_sigterm()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    print(f"seed {seed}: repeat with --seed {seed} --minutes {given.minutes:g}", flush=True)
    shutil.rmtree(given.out, ignore_errors=True)
    outcome = Soak(seed, given.minutes, given.out / "work").run()
    text = markdown(outcome)
    (given.out / "soak.md").write_text(text)
    (given.out / "soak.json").write_text(json.dumps(outcome.as_json(), indent=1))
    print(text)
    if outcome.ok:
        shutil.rmtree(given.out / "work", ignore_errors=True)
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    sys.exit(main())
