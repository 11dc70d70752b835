"""The workers of a cluster as child processes: several of a processor, each with a folder and ports of its own, and
a supervisor that starts again what ends, as any real one would."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from wattledger_audit.processes import Child, free_port, total_pss_bytes

ROOT = Path(__file__).resolve().parent.parent.parent
PROCESSORS = ("sessions", "meter", "sink")
_SUPERVISE_S = 0.1
_LINE = 1500
LAUNCH = "tests.fault_harness.launch"


class Worker(Child):
    """One worker process; `faulty`: started through the launcher that injects `fault`."""

    def __init__(self, processor: str, number: int, folder: Path, env: Mapping[str, str], fault: str) -> None:
        self.processor, self.number = processor, number
        self.metrics_port = free_port()
        own = {
            **env,
            "WATTLEDGER_WORK_DIR": str(folder / "work"),
            "WATTLEDGER_METRICS_PORT": str(self.metrics_port),
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "HARNESS_FAULT": fault,
        }
        args = [sys.executable, "-m", LAUNCH if fault else "wattledger_streams", processor]
        super().__init__(f"{processor}-{number}", args, folder / "worker.log", own)

    def send(self, number: signal.Signals) -> None:
        """A signal to the process and its children; nothing when it has ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)


class WorkerFleet:
    """Workers by processor. `env(processor)` says what all workers of one are told; `faults` what is injected."""

    def __init__(
        self, work_dir: Path, env: Callable[[str], Mapping[str, str]], faults: Mapping[str, str], supervise: bool
    ) -> None:
        self.workers: dict[str, list[Worker]] = {name: [] for name in PROCESSORS}
        self.exits: list[tuple[str, int]] = []
        self.restarts = 0
        self.supervise = supervise
        self.faults = dict(faults)
        self._work_dir, self._env = work_dir, env
        self._numbers = dict.fromkeys(PROCESSORS, 0)
        self._told: set[int] = set()
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        self._thread.start()

    def scale(self, processor: str, count: int, within_s: float = 8) -> None:
        """Start or stop workers until `count` run; the newest are stopped, by SIGTERM and at the deadline SIGKILL."""
        with self._lock:
            there = self.workers[processor]
            leaving = [there.pop() for _ in range(len(there) - count)]
            while len(there) < count:
                there.append(self._made(processor))
        for worker in leaving:
            worker.send(signal.SIGCONT)
            worker.stop(within_s)

    def _made(self, processor: str) -> Worker:
        number = self._numbers[processor]
        self._numbers[processor] += 1
        folder = self._work_dir / f"{processor}-{number}"
        worker = Worker(processor, number, folder, self._env(processor), self.faults.get(processor, ""))
        worker.start()
        return worker

    def kill(self, processor: str, i: int = 0, sig: signal.Signals = signal.SIGKILL) -> None:
        """Send `sig` to the i-th worker; with SIGKILL it has ended when this returns. Waits while it is starting
        again, so that a kill always meets a process."""
        worker = self._running(processor, i)
        with self._lock:  # the supervisor must not start it again between the kill and the wait for its end
            if sig == signal.SIGKILL:
                worker.kill()
            else:
                worker.send(sig)

    def _running(self, processor: str, i: int, within_s: float = 10) -> Worker:
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            with self._lock:
                if self.workers[processor][i].alive:
                    return self.workers[processor][i]
            time.sleep(0.01)
        raise TimeoutError(f"{processor} {i} does not run after {within_s:.0f} s, exits: {self.exits}")

    def freeze(self, processor: str, i: int = 0) -> None:
        """SIGSTOP: it keeps its connections and does nothing."""
        self._running(processor, i).send(signal.SIGSTOP)

    def thaw(self, processor: str, i: int = 0) -> None:
        """SIGCONT."""
        self.workers[processor][i].send(signal.SIGCONT)

    def _watch(self) -> None:
        while not self._stop.wait(_SUPERVISE_S):
            with self._lock:
                for worker in [one for group in self.workers.values() for one in group]:
                    self._look_at(worker)

    def _look_at(self, worker: Worker) -> None:
        code = worker.exit_code
        if code is None or worker.pid in self._told or self._stop.is_set():
            return
        self._told.add(worker.pid)
        self.exits.append((worker.processor, code))
        if self.supervise:
            self.restarts += 1
            worker.start()

    def pss_bytes(self, processor: str) -> int:
        """Summed proportional set size of a processor's workers now."""
        return total_pss_bytes(worker.pid for worker in self.workers[processor] if worker.alive)

    def log_tails(self, lines: int = 12) -> str:
        """The last lines of every worker's log, without librdkafka's, for a failure's message."""
        found = []
        for worker in [one for group in self.workers.values() for one in group]:
            kept = [line[:_LINE] for line in worker.log_tail(lines * 20).splitlines() if not line.startswith("%")]
            found += [f"--- {worker.name}", *kept[-lines:]]
        return "\n".join(found)

    def close(self) -> None:
        """Stop every worker, all at once asked and then one by one waited for."""
        self._stop.set()
        self._thread.join(10)
        found = [worker for group in self.workers.values() for worker in group]
        for worker in found:
            if worker.alive:
                worker.send(signal.SIGCONT)
                worker.send(signal.SIGTERM)
        until = time.monotonic() + 5
        for worker in found:
            worker.stop(max(0.1, until - time.monotonic()))
