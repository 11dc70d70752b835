"""The one file that starts processes: children with a log file, a process group and a deadline to stop by."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_POLL_S = 0.02


class ChildFailed(RuntimeError):
    """A child ended when it should not have; says where its log is."""


class Child:
    """One child process in a group of its own; its output goes to a log file."""

    def __init__(self, name: str, args: Sequence[str], log_file: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.args = list(args)
        self.log_file = log_file
        self._env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Child":
        """Start (again); output is appended to the log file. Raises ChildFailed when there is no such program."""
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    self.args, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env, start_new_session=True
                )
            except OSError as error:
                raise ChildFailed(f"{self.name} could not be started: {self.args[0]}: {error.strerror}") from error
        return self

    @property
    def pid(self) -> int:
        """0 before the first start."""
        return self._process.pid if self._process else 0

    @property
    def exit_code(self) -> int | None:
        """None while it runs (or was never started); minus the signal's number when a signal ended it."""
        return self._process.poll() if self._process else None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL the whole group, now."""
        if self._process is not None:
            self._signal_group(signal.SIGKILL)
            self._process.wait()

    def stop(self, within_s: float = 10.0) -> None:
        """SIGTERM, and SIGKILL for what of the group is left at the deadline (a Faust worker may wait for ever)."""
        if self._process is None:
            return
        self._signal_group(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(within_s)
        self.kill()

    def _signal_group(self, number: signal.Signals) -> None:
        """A leader that was waited for may leave descendants: they are still in its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def log_tail(self, lines: int = 15) -> str:
        """The last lines of its log."""
        if not self.log_file.exists():
            return ""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])


def run(args: Sequence[str], log_file: Path, env: Mapping[str, str] | None = None) -> None:
    """Run to the end; raises ChildFailed with the log's tail on a non-zero exit."""
    child = Child(args[0], args, log_file, env).start()
    while child.alive:
        time.sleep(_POLL_S)
    if child.exit_code:
        raise ChildFailed(f"{' '.join(args[:3])} ended with {child.exit_code}; {log_file}:\n{child.log_tail()}")


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def total_pss_bytes(pids: Iterable[int]) -> int:
    """Summed proportional set size of processes and all their descendants; what has ended counts nothing."""
    children = _children_by_parent()
    waiting, seen = list(pids), set[int]()
    while waiting:
        pid = waiting.pop()
        if pid not in seen:
            seen.add(pid)
            waiting += children.get(pid, [])
    return sum(_pss_bytes(pid) for pid in seen)


def _children_by_parent() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text(errors="replace")
            except OSError:
                continue
            # The command in parentheses may hold spaces and parentheses; state and parent follow the last one.
            parent = int(stat.rpartition(")")[2].split()[1])
            found.setdefault(parent, []).append(int(entry.name))
    return found


def _pss_bytes(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    for line in rollup.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0
