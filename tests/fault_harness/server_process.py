"""The ClickHouse server of a cluster as a child process: started, killed, frozen, and started again on its folder."""

import os
import signal
import sys
import time
from pathlib import Path

import httpx
from wattledger_audit.processes import Child, ChildFailed, free_port

from tests.fault_harness.worker_fleet import ROOT

_START_WITHIN_S = 60.0
_POLL_S = 0.05


class ClickhouseProcess:
    """`port` stays the same over restarts. `fault`: see `clickhouse_server`."""

    def __init__(self, folder: Path, fault: str = "") -> None:
        self.folder = folder
        self.port = free_port()
        self.fault = fault
        self._child: Child | None = None

    def start(self) -> "ClickhouseProcess":
        """Start (again) and wait until it answers. Raises ChildFailed with its log's end."""
        args = [sys.executable, "-m", "tests.fault_harness.clickhouse_server", str(self.folder), str(self.port)]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        env = {"PYTHONPATH": path, "HARNESS_SERVER_FAULT": self.fault, "PYTHONUNBUFFERED": "1"}
        self._child = Child("clickhouse", args, self.folder / "server.log", env).start()
        until = time.monotonic() + _START_WITHIN_S
        while time.monotonic() < until:
            if not self._child.alive:
                raise ChildFailed(f"clickhouse ended with {self._child.exit_code}:\n{self._child.log_tail()}")
            try:
                if httpx.get(f"http://127.0.0.1:{self.port}/ping", timeout=2, trust_env=False).text == "Ok.\n":
                    return self
            except httpx.HTTPError:
                time.sleep(_POLL_S)
        raise ChildFailed(f"clickhouse does not answer after {_START_WITHIN_S:.0f} s:\n{self._child.log_tail()}")

    @property
    def child(self) -> Child:
        if self._child is None:
            raise RuntimeError("the server was not started")
        return self._child

    def kill(self) -> None:
        """SIGKILL, as a power cut would for the process (the operating system keeps what it was given)."""
        self.child.kill()

    def freeze(self) -> None:
        os.killpg(self.child.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.child.pid, signal.SIGCONT)

    def stop(self) -> None:
        if self._child is not None and self._child.alive:
            self.thaw()
            self._child.stop(5)
