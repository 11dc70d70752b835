"""Faults at named points of a process: `action:point:n` strikes at the n-th time the point is passed, once a folder."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ACTIONS = ("kill", "raise", "cancel", "term", "freeze", "hang")
TERM_HOLDS_S = 2.0
_HANG_S = 3600.0


class Injected(RuntimeError):
    """The exception that `raise` injects."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What to do, where, and at the how-manieth time; `text` is how it was written."""

    text: str
    action: str
    point: str
    number: int


def read_faults(text: str, points: Sequence[str], actions: Sequence[str] = ACTIONS) -> list[Fault]:
    """Faults of a comma-separated list. Raises ValueError for an action or a point that there is not: a fault that
    never strikes would show nothing."""
    found = []
    for part in filter(None, text.split(",")):
        action, _, rest = part.partition(":")
        point, _, number = rest.partition(":")
        if action not in actions or point not in points or not number.isdigit() or int(number) < 1:
            raise ValueError(f"fault {part!r}: say ACTION:POINT:N, of {'|'.join(actions)} and {'|'.join(points)}")
        found.append(Fault(part, action, point, int(number)))
    return found


class FaultPoints:
    """Counts what is passed and strikes. A marker in `folder` is made before, so that the next process goes on."""

    def __init__(self, faults: Sequence[Fault], folder: Path) -> None:
        self._faults, self._folder = faults, folder
        self._passed: Counter[str] = Counter()
        folder.mkdir(parents=True, exist_ok=True)

    def due(self, point: str, action: str | None = None) -> Fault | None:
        """The fault that strikes at this passing, if any; it is then marked as done. `action`: only faults of it."""
        self._passed[point] += 1
        for fault in self._faults:
            if fault.point == point and self._passed[point] >= fault.number and action in (None, fault.action):
                marker = self._folder / fault.text.replace(":", "-")
                try:
                    marker.touch(exist_ok=False)
                except FileExistsError:
                    continue
                return fault
        return None

    def hit(self, point: str) -> None:
        """Pass a point. Raises Injected; does not come back from `kill`; sleeps through `hang`."""
        fault = self.due(point)
        if fault is not None:
            strike(fault)


def strike(fault: Fault) -> None:
    """Do it, in the calling thread."""
    if fault.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault.action == "raise":
        raise Injected(f"injected: {fault.text}")
    elif fault.action == "cancel":
        task = asyncio.current_task()
        if task is None:
            raise ValueError(f"{fault.text}: nothing to cancel here, the point is outside of a task")
        task.cancel()
    elif fault.action == "term":
        # the stop comes while this point is being passed
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(TERM_HOLDS_S)
    elif fault.action == "freeze":
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        time.sleep(_HANG_S)
