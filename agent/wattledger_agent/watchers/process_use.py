"""Which processes are on which devices, as the probes last saw it, with what `/proc` says of each. Decides nothing."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wattledger_agent.watchers.process_cache import ProcessCache
from wattledger_agent.watchers.process_table import Process
from wattledger_agent.watchers.run import BY_UUID, DeviceRef, Held

SeenOnDevices = Callable[[], Iterable[tuple[str, str, int]]]
"""Device, GPU instance (empty: not told) and host pid, for every process that the probes last saw on one."""

Place = tuple[str, str]
"""Device and GPU instance."""


@dataclass(frozen=True, slots=True)
class InUse:
    """A process and the places that it is on, sorted."""

    process: Process
    places: tuple[Place, ...]


def in_use(seen: Iterable[tuple[str, str, int]], processes: ProcessCache, now_us: int) -> tuple[InUse, ...]:
    """Processes on devices that can be read, by pid. Kernel threads are none: their pid was another namespace's."""
    by_pid: dict[int, set[Place]] = {}
    for device, gpu_instance, pid in seen:
        by_pid.setdefault(pid, set()).add((device, gpu_instance))
    found = []
    for pid in sorted(by_pid):
        process = processes.read(pid, now_us)
        if isinstance(process, Process) and not process.is_kernel_thread:
            found.append(InUse(process, tuple(sorted(by_pid[pid]))))
    return tuple(found)


def shared_evenly(places: Iterable[Place], holders: dict[Place, int]) -> tuple[Held, ...]:
    """A hold of each place: the whole of it where nobody else of this source is there, else one part of as many as
    there are, for who shares a card without a scheduler has no share that anybody set."""
    held = []
    for device, gpu_instance in sorted(places):
        ref, count = DeviceRef(BY_UUID, device, gpu_instance), holders[(device, gpu_instance)]
        held.append(Held(ref) if count == 1 else Held(ref, 1, count, "time_sliced"))
    return tuple(held)


class FirstSeen:
    """When a hold began that was first seen now: at the start of its process where that lies after the look before;
    otherwise now, for nothing is claimed of a time in which nobody saw it."""

    def __init__(self, looked_us: int | None) -> None:
        self._looked_us = looked_us
        self._since: dict[str, int] = {}

    def since_us(self, key: str, process_started_us: int, now_us: int) -> int:
        """The same for a key at every look."""
        if key not in self._since:
            is_new = self._looked_us is not None and self._looked_us < process_started_us
            self._since[key] = min(process_started_us, now_us) if is_new else now_us
        return self._since[key]

    def looked(self, now_us: int, alive: Iterable[str]) -> None:
        """End of a look: what is not `alive` is forgotten."""
        self._looked_us = now_us
        self._since = {key: self._since[key] for key in alive if key in self._since}
