"""Remembers processes between looks, by pid and start time, so that a look costs one small read a process."""

from collections import OrderedDict
from dataclasses import dataclass

from wattledger_agent.watchers.process_table import Process, ProcessTable, Unread

YOUNG_US = 2_000_000
OLD_US = 30_000_000
_MOST = 4096


@dataclass(slots=True)
class _Known:
    first_us: int
    read_us: int
    asked_us: int
    found: Process | Unread


class ProcessCache:
    """For one thread. Within one instant the answer is the same.

    A process is read anew when its start time differs, two seconds after it was first seen, and then as seldom as it is
    old, every 30 seconds at the most: SLURM moves a process into its job's cgroup after it was started.
    """

    def __init__(self, table: ProcessTable) -> None:
        self.table = table
        self._known: OrderedDict[int, _Known] = OrderedDict()

    def read(self, pid: int, now_us: int) -> Process | Unread:
        """The process, or why there is none."""
        known = self._known.get(pid)
        if known is not None:
            if known.asked_us == now_us:
                return known.found
            self._known.move_to_end(pid)
            known.asked_us = now_us
            if self._is_fresh(known, now_us):
                return known.found
        found = self.table.read(pid)
        if known is not None and _start(known.found) == _start(found) is not None:
            known.read_us, known.found = now_us, found
        else:
            self._known[pid] = _Known(now_us, now_us, now_us, found)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return found

    def _is_fresh(self, known: _Known, now_us: int) -> bool:
        keep_us = min(max(known.read_us - known.first_us, YOUNG_US), OLD_US)
        if isinstance(known.found, Unread) or not 0 <= now_us - known.read_us < keep_us:
            return False
        return self.table.start_ticks(known.found.pid) == known.found.start_ticks


def _start(found: Process | Unread) -> int | None:
    return found.start_ticks if isinstance(found, Process) else None
