"""Prometheus: samples by remote write into a server of its own, then recording rules that integrate by job label.

What is fair: rules can't run faster than the clock, so they are evaluated by `promtool tsdb create-blocks-from rules`,
Prometheus' own way over stored samples. Remote write of 30 samples a series costs it less than scraping each second,
and what sends is not counted. No Kafka, no ClickHouse: the rows are recorded samples.
"""

import http.client
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from wattledger_audit.broker import Broker
from wattledger_audit.processes import Child, free_port

from benchmarks.ingestion.day import START_US, Day, S
from benchmarks.ingestion.outcome import Missing, NotRight, Outcome
from benchmarks.ingestion.remote_write import requests
from benchmarks.ingestion.watch import Used, Watch

NAME = "prometheus"
HOW = "`prometheus` and `promtool` are not on the PATH (Debian: `apt-get install --no-install-recommends prometheus`)"
RULES = Path(__file__).resolve().with_suffix(".yml").with_stem("prometheus_rules")
RELATIVE, ONE_SCRAPE_J = 0.01, 700.0
"""A sum over scrapes is a trapezoid's only to within one scrape at each end of a job."""
_STEP_S = 60
_READY_S = 30.0
_DUMPED = re.compile(r'\{__name__="(?P<name>[^"]+)", hpc_job="(?P<job>[^"]+)".*\} (?P<value>\S+) \d+')


def run(day: Day, _: Broker, work_dir: Path) -> Outcome:
    """Measure it, over the day in its own form. Raises Missing where it is not installed."""
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        raise Missing(HOW)
    plan = day.plan
    server = Server(work_dir)
    try:
        server.write(requests(day, 0, plan.warm_s))
        server.evaluate(0, plan.warm_s)
        bodies = list(requests(day, plan.warm_s, plan.end_s))
        with Watch({NAME: server.pid}, []) as watch:
            began_s, promtool_s = time.time(), _children_cpu_s()
            server.write(bodies)
            server.evaluate(plan.warm_s, plan.end_s + _STEP_S)
            ended_s, promtool_s = time.time(), _children_cpu_s() - promtool_s
            time.sleep(0.2)
        used = watch.used(began_s, ended_s)
    finally:
        server.stop()
    rows = check(server.dump(), day)
    parts = {**used.parts_cpu_s, "promtool": promtool_s}
    used = Used(used.wall_s, parts, 0.0, used.peak_pss_mb)
    return Outcome(NAME, plan.samples, rows, used, f"within {RELATIVE:.0%}", "no Kafka; rows are recorded samples")


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _called(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


class Server:
    """A Prometheus of its own on loopback that scrapes nothing."""

    def __init__(self, work_dir: Path) -> None:
        work_dir.mkdir(parents=True)
        (work_dir / "prometheus.yml").write_text("scrape_configs: []\n")
        self._folder, self._port = work_dir, free_port()
        command = [
            "prometheus", f"--config.file={work_dir / 'prometheus.yml'}", f"--storage.tsdb.path={work_dir / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}", "--web.enable-remote-write-receiver",
            "--storage.tsdb.retention.time=100y", "--log.level=warn",
        ]  # fmt: skip
        self._child = Child(NAME, command, work_dir / "log").start()
        until = time.monotonic() + _READY_S
        while not self._ready():
            if time.monotonic() > until or not self._child.alive:
                self.stop()
                raise TimeoutError(f"Prometheus does not get ready:\n{self._child.log_tail()}")
            time.sleep(0.1)

    @property
    def pid(self) -> int:
        return self._child.pid

    def _ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/-/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def write(self, bodies: Iterable[bytes]) -> None:
        """Remote write, one request after the other. Raises RuntimeError when one is refused."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        headers = {
            "Content-Encoding": "snappy",
            "Content-Type": "application/x-protobuf",
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        }
        for body in bodies:
            connection.request("POST", "/api/v1/write", body, headers)
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != 204:
                raise RuntimeError(f"remote write was refused with {answer.status}: {said[:200]!r}")
        connection.close()

    def evaluate(self, from_s: int, to_s: int) -> None:
        """The rules once a minute in `[from_s, to_s)`, at the second that promtool chooses for them, into blocks."""
        start_s, end_s = START_US // S + from_s, START_US // S + to_s - 1
        command = [
            "promtool", "tsdb", "create-blocks-from", "rules", f"--start={start_s}", f"--end={end_s}",
            f"--url=http://127.0.0.1:{self._port}", f"--eval-interval={_STEP_S}s",
            f"--output-dir={self._folder / 'recorded'}", str(RULES),
        ]  # fmt: skip
        _called(command)

    def dump(self) -> str:
        """All recorded samples as text. A folder of blocks is a database once it has a log."""
        (self._folder / "recorded" / "wal").mkdir()
        command = ["promtool", "tsdb", "dump", str(self._folder / "recorded")]
        return _called(command)

    def stop(self) -> None:
        self._child.stop()


def check(dumped: str, day: Day) -> int:
    """Joules and their cost by job, to within a scrape at each end; returns recorded samples. Raises NotRight."""
    sums: dict[tuple[str, str], float] = {}
    rows = 0
    for line in dumped.splitlines():
        if found := _DUMPED.match(line):
            key = found["name"], found["job"]
            sums[key] = sums.get(key, 0.0) + float(found["value"])
            rows += 1
    sizes = {job.job: job.size for job in day.jobs}
    for job, truth in day.truth().items():
        joules, cost = sums.get(("job:gpu_joules:sum1m", job), 0.0), sums.get(("job:gpu_energy_eur:sum1m", job), 0.0)
        slack = RELATIVE + ONE_SCRAPE_J * sizes[job] / max(truth.energy_uj / 1e6, 1.0)
        if abs(joules - truth.energy_uj / 1e6) > slack * truth.energy_uj / 1e6:
            raise NotRight(f"{NAME}: job {job} has {joules} J, expected {truth}")
        if abs(cost - float(truth.energy_eur)) > slack * float(truth.energy_eur):
            raise NotRight(f"{NAME}: job {job} has energy for {cost}, expected {truth}")
    return rows
