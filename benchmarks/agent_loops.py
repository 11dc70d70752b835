"""The programs that are measured, as processes of their own over one fake NVML, and the scraping of their pages."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from wattledger_audit.processes import Child, free_port

from benchmarks.agent_process import Snapshot, snapshot

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
SOURCE, PYTHON_FAKE, RIVALS = HERE / "agent_fake_nvml.c", HERE / "agent_python_fake.py", HERE / "agent_rivals.py"
_AGENT_SCRAPED_S, _EXPORTER_SCRAPED_S = 15.0, 1.0
_ANSWER_S = 5.0


@dataclass(slots=True)
class Loop:
    """One program. `port_file`: where it says the port of its page, `port`: known before. `usage_file`: where it
    writes the CPU of its children when it is sent SIGUSR1."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    scraped_s: float = _EXPORTER_SCRAPED_S
    port: int = 0
    port_file: Path | None = None
    usage_file: Path | None = None
    child: Child | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it; its output goes to a log file."""
        self.child = Child(self.name, self.command, self.folder / f"{self.name}.log", self.env).start()

    def _running(self) -> Child:
        if self.child is None or not self.child.alive:
            log = self.folder / f"{self.name}.log"
            said = log.read_text()[-1500:] if log.exists() else ""
            raise RuntimeError(f"{self.name} does not run: {said}")
        return self.child

    def snapshot(self) -> Snapshot:
        """What it has used so far. Raises RuntimeError when it does not run."""
        pid = self._running().pid
        return snapshot(pid, self._children_cpu_s(pid))

    def _children_cpu_s(self, pid: int) -> float:
        if self.usage_file is None:
            return 0.0
        self.usage_file.unlink(missing_ok=True)
        os.kill(pid, signal.SIGUSR1)
        until_s = time.monotonic() + _ANSWER_S
        while not (self.usage_file.exists() and self.usage_file.read_text()):
            if time.monotonic() > until_s:
                raise RuntimeError(f"{self.name} does not say what its children used")
            time.sleep(0.005)
        return float(self.usage_file.read_text())

    def page(self) -> str:
        """Where its metrics are."""
        port = self.port or (int(self.port_file.read_text()) if self.port_file else 0)
        return f"http://127.0.0.1:{port}/metrics"

    def stop(self) -> None:
        """End it and wait."""
        if self.child is not None:
            self.child.stop()


class Scrape:
    """Fetches a loop's page every `scraped_s`, as a Prometheus server does."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._loop.scraped_s):
            with urllib.request.urlopen(self._loop.page(), timeout=_ANSWER_S) as answer:
                answer.read()

    def stop(self) -> None:
        """End the fetching."""
        self._stop.set()
        self._thread.join()


@dataclass(frozen=True, slots=True)
class Machine:
    """A fake machine: the environment that its programs need, and what stands before their command."""

    env: Mapping[str, str]
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fake:
    """The fake NVML in a folder: a library and an `nvidia-smi`, or, without a compiler, the Python fake."""

    kind: str
    folder: Path
    is_library: bool

    @contextmanager
    def machine(self, gpus: int, mig: bool) -> Iterator[Machine]:
        """Cards with two processes each, which live as long as this."""
        holders = [subprocess.Popen(["sleep", "3600"]) for _ in range(2 * gpus)]
        try:
            pids = ",".join(str(holder.pid) for holder in holders)
            env = {"FAKE_GPUS": str(gpus), "FAKE_PIDS": pids, "FAKE_MIG": str(int(mig))}
            env["PATH"] = f"{self.folder}{os.pathsep}{os.environ['PATH']}"
            if self.is_library:
                yield Machine(env | {"LD_LIBRARY_PATH": str(self.folder)})
            else:
                yield Machine(env, (sys.executable, str(PYTHON_FAKE)))
        finally:
            for holder in holders:
                holder.kill()
                holder.wait()


def build_fake(folder: Path) -> Fake:
    """Build the library and the executable, or fall back to Python where there is no gcc."""
    gcc = shutil.which("gcc")
    if gcc is None:
        made = folder / "nvidia-smi"
        made.write_text(f"#!/bin/sh\nexec {sys.executable} {PYTHON_FAKE} --smi\n")
        made.chmod(0o755)
        return Fake("the tests' Python fake (no gcc here): its own cost is in every number", folder, False)
    library, smi = str(folder / "libnvidia-ml.so.1"), str(folder / "nvidia-smi")
    for target in (["-shared", "-fPIC", "-o", library], ["-DSMI", "-o", smi]):
        subprocess.run([gcc, "-O2", *target, str(SOURCE), "-lm"], check=True)
    return Fake("a library in C, built with gcc: near zero cost", folder, True)


def agent_loop(machine: Machine, folder: Path, bootstrap: str, prefix: str, rate_hz: int) -> Loop:
    """`wattledger-agent run` as it is installed: log, watcher of processes, health page, publisher."""
    port = free_port()
    settings = folder / "agent.toml"
    settings.write_text(
        f'node = "bench"\nwatchers = ["processes"]\nhttp_port = {port}\n'
        f'[wal]\npath = "{folder / "state" / "agent.wal"}"\n'
        f'[sampling]\nprobes = ["nvml"]\nperiod_ms = {1000 // rate_hz}\n'
        f'[kafka]\nbootstrap = "{bootstrap}"\ntopic_prefix = "{prefix}"\n'
    )
    command = [*machine.before, str(BIN / "wattledger-agent"), "run", "--config", str(settings)]
    return Loop("wattledger", command, machine.env, folder, _AGENT_SCRAPED_S, port=port)


def rival_loops(machine: Machine, folder: Path, period_s: float) -> list[Loop]:
    """Exporter, exporter that tells of processes too (as the agent does), and nvidia-smi."""
    python = machine.before or (sys.executable,)
    shared = ["--period-s", str(period_s)]
    found = []
    for name, more in (("exporter", []), ("exporter+processes", ["--processes"])):
        port_file = folder / f"{name}.port"
        command = [*python, str(RIVALS), "exporter", *shared, *more, "--port-file", str(port_file)]
        found.append(Loop(name, command, machine.env, folder, port_file=port_file))
    usage = folder / "usage"
    command = [sys.executable, str(RIVALS), "smi", *shared, "--usage-file", str(usage)]
    return [*found, Loop("nvidia-smi", command, machine.env, folder, usage_file=usage)]
