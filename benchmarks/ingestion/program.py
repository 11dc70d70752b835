"""Runs a contestant that is one program: warm it up, freeze it, publish the day, thaw it, hold its rows to the sums.

Frozen is stopped by SIGSTOP: what is measured is how fast it works off what lies there, and not how fast it is fed.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from wattledger_audit.broker import Broker
from wattledger_audit.processes import Child, run

from benchmarks.ingestion.as_samples import job_messages, write_prices
from benchmarks.ingestion.day import Day
from benchmarks.ingestion.feed import Record, make_topics, publish
from benchmarks.ingestion.outcome import NotRight, Outcome
from benchmarks.ingestion.watch import Watch

HERE = Path(__file__).resolve().parent
RELATIVE = 1e-6
_WITHIN_S = 180.0
_LAST_FLUSH_S = 3.0


@dataclass(frozen=True, slots=True)
class Program:
    """A script of this folder and the Python that runs it.

    `topic` is what its consumer `group` acknowledges, and with `follows_jobs` the topic `jobs` too; others read all
    jobs when they start. `writes`: topics that it publishes to.
    """

    name: str
    script: str
    python: Path
    group: str
    topic: str
    follows_jobs: bool = False
    more: Sequence[str] = ()
    writes: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Feed:
    """Records of the warm-up, and those that are measured."""

    warm: Iterable[Record]
    rest: Iterable[Record]


def run_program(program: Program, day: Day, broker: Broker, work_dir: Path, feed: Feed) -> Outcome:
    """Measure it. Raises NotRight when its rows are not the day's sums, TimeoutError when it does not get there."""
    prefix, bootstrap, plan = f"{program.name}.", broker.bootstrap, day.plan
    work_dir.mkdir(parents=True)
    make_topics(bootstrap, prefix, dict.fromkeys((program.topic, "jobs", *program.writes), plan.partitions))
    publish(bootstrap, prefix, job_messages(day))
    made = list(feed.rest)
    prices = write_prices(day, work_dir / "prices.json")
    database = work_dir / "clickhouse"
    given = ["--bootstrap", bootstrap, "--prefix", prefix, "--prices", str(prices), "--database", str(database)]
    command = [str(program.python), str(HERE / program.script), *given, *program.more]
    child = Child(program.name, command, work_dir / "log").start()
    lag = Lag(bootstrap, prefix + program.group, plan.partitions)
    topic = prefix + program.topic
    try:
        if program.follows_jobs:
            lag.wait(child, prefix + "jobs")
        publish(bootstrap, prefix, feed.warm)
        lag.wait(child, topic)
        time.sleep(_LAST_FLUSH_S)
        os.kill(child.pid, signal.SIGSTOP)
        publish(bootstrap, prefix, made)
        with Watch({program.name: child.pid}, broker.pids) as watch:
            began_s = time.time()
            os.kill(child.pid, signal.SIGCONT)
            lag.wait(child, topic)
            time.sleep(_LAST_FLUSH_S)
    finally:
        lag.close()
        child.stop()
    found = read_rows(database, work_dir)
    check(program.name, found, day)
    used = watch.used(began_s, found.last_s)
    return Outcome(program.name, plan.samples, found.rows, used, f"within {RELATIVE:g}", program.note)


class Lag:
    """How far a consumer group is behind."""

    def __init__(self, bootstrap: str, group: str, partitions: int) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 3}
        )
        self._partitions = partitions

    def wait(self, child: Child, topic: str) -> None:
        """Until everything in a topic is acknowledged. Raises TimeoutError, or NotRight when the program has ended."""
        until = time.monotonic() + _WITHIN_S
        behind = -1
        while time.monotonic() < until:
            if not child.alive:
                raise NotRight(f"{child.name} ended with {child.exit_code}:\n{child.log_tail()}")
            with suppress(KafkaException):  # a coordinator that has just come up, or moves
                behind = self._behind(topic)
            if not behind:
                return
            time.sleep(0.25)
        raise TimeoutError(
            f"{child.name} is still {behind} records behind after {_WITHIN_S:.0f} s:\n{child.log_tail()}"
        )

    def _behind(self, topic: str) -> int:
        count = 0
        for place in self._consumer.committed([TopicPartition(topic, p) for p in range(self._partitions)], 10):
            low, high = self._consumer.get_watermark_offsets(place, 10)
            count += high - max(place.offset, low)
        return count

    def close(self) -> None:
        self._consumer.close()


@dataclass(frozen=True, slots=True)
class Rows:
    """What a contestant's table holds: joules, device-seconds and energy cost by job, and when the last row came."""

    rows: int
    last_s: float
    jobs: dict[str, list[float]]


def read_rows(database: Path, work_dir: Path) -> Rows:
    """Read in a process of its own: an engine's folder has one owner."""
    answer = work_dir / "rows.json"
    run([sys.executable, str(HERE / "read_rows.py"), str(database), str(answer)], work_dir / "read.log")
    return Rows(**json.loads(answer.read_text()))


def check(name: str, found: Rows, day: Day) -> None:
    """Joules, device-seconds and energy cost of every job, to what floats allow. Raises NotRight."""
    for job, truth in day.truth().items():
        expected = (truth.energy_uj / 1e6, truth.held_s, float(truth.energy_eur))
        got = found.jobs.get(job, [0.0, 0.0, 0.0])
        if any(abs(a - b) > RELATIVE * abs(b) for a, b in zip(got, expected, strict=True)):
            raise NotRight(f"{name}: job {job} has joules, device-seconds and cost {got}, expected {expected}")
