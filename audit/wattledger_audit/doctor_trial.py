"""How one thing is tried on this machine, and what is said of it. Changes nothing.

What may crash or hang (native imports, drivers, engines) is tried in a process of its own, with a deadline.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from wattledger_audit.processes import Child, ChildFailed

OK, WARN, MISSING = "ok", "warn", "missing"
WITHIN_S = 60.0
_POLL_S = 0.02


class Check(NamedTuple):
    """`status` is ok, warn (something optional does not work; `what` says what that means) or missing (it is needed).
    `fix` is the command or change that helps, empty when ok."""

    name: str
    status: str
    what: str
    fix: str


class Ran(NamedTuple):
    """How a trial ended; `code` None when it could not be started or was ended at the deadline."""

    code: int | None
    output: str

    @property
    def last_line(self) -> str:
        lines = self.output.strip().splitlines()
        return lines[-1].strip() if lines else "no output"


Run = Callable[[Sequence[str]], Ran]


def run_child(args: Sequence[str], within_s: float = WITHIN_S) -> Ran:
    """Run a program to its end, or to the deadline, in a process group of its own."""
    with TemporaryDirectory(prefix="wattledger-doctor-") as folder:
        child = Child(args[0], args, Path(folder) / "output.log")
        try:
            child.start()
        except ChildFailed as error:
            return Ran(None, str(error))
        end_s = time.monotonic() + within_s
        while child.alive and time.monotonic() < end_s:
            time.sleep(_POLL_S)
        code = child.exit_code
        child.kill()
        return Ran(code, child.log_tail() if code is not None else f"no answer within {within_s:g} s")


def run_python(code: str, run: Run) -> Ran:
    """Run a piece of Python in a fresh interpreter of this environment."""
    return run([sys.executable, "-c", code])
