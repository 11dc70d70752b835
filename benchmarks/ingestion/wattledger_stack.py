"""WattLedger itself: the workers as the product starts them, a day in its topics, and rows in its tables."""

import os
import signal
import sys
import time
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from clickhouse_connect import get_client
from clickhouse_connect.driver.client import Client
from wattledger_audit.broker import Broker
from wattledger_audit.demo import read_client
from wattledger_audit.processes import Child
from wattledger_audit.settling import NotSettled, Settling, partitions_of
from wattledger_audit.stack import Stack, StackSettings

from benchmarks.ingestion.as_records import SETTLE_S, event_records, sample_records
from benchmarks.ingestion.day import QUARTER_S, Day, S
from benchmarks.ingestion.feed import publish
from benchmarks.ingestion.outcome import NotRight, Outcome
from benchmarks.ingestion.watch import Used, Watch

NAME = "wattledger"
_SETTLE_WITHIN_S = 300.0
_LAST_ROW = "SELECT greatest((SELECT max(inserted_at) FROM usage_lines), (SELECT max(inserted_at) FROM cost_rows))"
_ENERGY = """
SELECT l.job, sum(l.energy_uj), toString(sum(c.cost)), count()
FROM usage_lines AS l FINAL INNER JOIN cost_rows AS c FINAL ON l.line_id = c.line_id
WHERE l.kind = 'energy' AND l.state = 'held' AND c.component = 'energy'
GROUP BY l.job
"""
_ROWS = "SELECT (SELECT count() FROM usage_lines) + (SELECT count() FROM cost_rows)"
_TIME = "SELECT job, sum(device_us) FROM usage_lines FINAL WHERE kind = 'time' AND state = 'held' GROUP BY job"


class Workers:
    """The stack with `meters` meter workers, warmed up on the first minutes of a day. A context manager.

    ClickHouse is embedded in the sink; with the `port` of a server on this machine, there.
    """

    def __init__(self, day: Day, broker: Broker, work_dir: Path, meters: int = 1, port: int = 0) -> None:
        plan = day.plan
        self._day, self._broker, self._prefix, self._port = day, broker, f"{NAME}.", port
        more = {"WATTLEDGER_CLICKHOUSE_DSN": f"http://default@127.0.0.1:{port}"} if port else {}
        settings = StackSettings(
            work_dir, Path(), broker.bootstrap, plan.partitions, self._prefix, future_limit_s=plan.end_s + 7200,
            extra_env=more,
        )  # fmt: skip
        self._stack = Stack(settings)
        self._meters = meters
        self._more: list[Child] = []

    def __enter__(self) -> "Workers":
        self._stack.start()
        try:
            self._more = [self._start_meter(number) for number in range(2, self._meters + 1)]
            warm_s = self._day.plan.warm_s
            publish(self._broker.bootstrap, self._prefix, event_records(self._day, 0, warm_s + SETTLE_S + 1))
            publish(self._broker.bootstrap, self._prefix, sample_records(self._day, 0, warm_s))
            self._settling = Settling(self._stack.kafka, self._prefix, partitions_of(self._day.plan.partitions))
            self._settle()
            self.client = self._reader()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._more:
            child.stop()
        self._stack.stop()

    def _start_meter(self, number: int) -> Child:
        """One more worker of the meter's group."""
        work_dir = self._stack.settings.work_dir
        args = [sys.executable, "-m", "wattledger_streams", "meter"]
        env = {**self._stack.env(), "WATTLEDGER_WORK_DIR": str(work_dir / f"work-{number}")}
        return Child(f"meter {number}", args, work_dir / f"meter-{number}.log", env).start()

    def _reader(self) -> Client:
        if self._port:
            return get_client(host="127.0.0.1", port=self._port, database="wattledger")
        return read_client(self._stack)

    def pids(self) -> dict[str, int]:
        """The workers by name."""
        return {child.name: child.pid for child in (*self._stack.workers.values(), *self._more)}

    def _log_tails(self) -> str:
        children = (*self._stack.workers.values(), *self._more)
        return "\n".join(f"{child.name}:\n{child.log_tail()}" for child in children)

    def _settle(self) -> None:
        try:
            self._settling.wait(_SETTLE_WITHIN_S)
        except NotSettled as error:
            raise NotRight(f"{error}\n{self._log_tails()}") from error

    def play(self, from_s: int, to_s: int) -> Used:
        """Freeze the workers, publish `[from_s, to_s)`, thaw them, and time them to the last row.

        Raises NotRight when one ended, or when they do not come to rest.
        """
        made = [*event_records(self._day, from_s + SETTLE_S + 1, to_s + SETTLE_S + 1)]
        made += sample_records(self._day, from_s, to_s)
        pids = self.pids()
        _signal(pids.values(), signal.SIGSTOP)
        publish(self._broker.bootstrap, self._prefix, made)
        with Watch(pids, self._broker.pids) as watch:
            began_s = time.time()
            _signal(pids.values(), signal.SIGCONT)
            self._settle()
        if self._stack.restarts or pids != self.pids():
            raise NotRight(f"a worker ended and was started again:\n{self._log_tails()}")
        return watch.used(began_s, self.client.query(_LAST_ROW).result_rows[0][0].timestamp())


def run(day: Day, broker: Broker, work_dir: Path) -> Outcome:
    """Measure one worker of each kind over the day. Raises NotRight when a sum differs."""
    with Workers(day, broker, work_dir) as workers:
        used = workers.play(day.plan.warm_s, day.plan.end_s)
        rows = check(workers.client, day)
    spent = ", ".join(f"{name} {cpu_s:.1f}" for name, cpu_s in used.parts_cpu_s.items())
    return Outcome(NAME, day.plan.samples, rows, used, "exact", f"CPU seconds: {spent}")


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def check(client: Client, day: Day) -> int:
    """Hold energy to the last µJ, device-time to the µs, cost to half a unit of the last digit a row; returns rows."""
    expected = day.truth()
    found = {str(job): tuple(values) for job, *values in client.query(_ENERGY).result_rows}
    if found.keys() != {job for job, truth in expected.items() if truth.energy_uj}:
        raise NotRight(f"{NAME}: {len(found)} jobs have energy, {len(expected)} were expected")
    for job, (energy_uj, cost, rows) in found.items():
        truth = expected[job]
        off = abs(Fraction(Decimal(cost)) - truth.energy_eur)
        if energy_uj != truth.energy_uj or off > Fraction(rows, 2 * 10**12):
            raise NotRight(f"{NAME}: job {job} has {energy_uj} µJ for {cost}, expected {truth}")
    held = {str(job): int(device_us) for job, device_us in client.query(_TIME).result_rows}
    settled_s = day.plan.end_s // QUARTER_S * QUARTER_S
    if held != {job.job: job.held_s(settled_s) * S for job in day.jobs if job.held_s(settled_s)}:
        raise NotRight(f"{NAME}: device-time up to the last full quarter-hour differs")
    return int(client.query(_ROWS).result_rows[0][0])
