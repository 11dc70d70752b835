"""Who is on a card, with which SM share, by host pid. Believes no list that can't be one; joins no pid to a job."""

from collections.abc import Sequence
from typing import Any

from wattledger_agent.probes.nvml_library import NvmlFailure, NvmlLibrary
from wattledger_agent.probes.nvml_values import (
    NO_PERMISSION_CODE,
    NOT_FOUND_CODE,
    U32_NONE,
    number,
    reason_of,
    share_ppm,
)
from wattledger_agent.probes.reading import (
    ABI_MISMATCH,
    IMPLAUSIBLE,
    NOT_SUPPORTED,
    SENTINEL,
    STALE,
    ProcessReading,
    Reading,
    unknown,
)

HIGHEST_PID = 4_194_304
"""Linux' limit on 64 bits (PID_MAX_LIMIT)."""
_COMPUTE, _MPS = "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3"
_UTILIZATION = "nvmlDeviceGetProcessUtilization"
_FIRST_LOOK_US = 1_000_000
_AHEAD_US = 1_000_000
_IDLE_AFTER_US = 2_000_000
"""The driver samples at least once a second; a process without a sample for two has used nothing."""


class ProcessReader:
    """The processes of one card, tick by tick. `mps`: clients of an MPS server are asked for too."""

    def __init__(self) -> None:
        self.mps = False
        self._seen_us = 0
        self._stamps: dict[int, int] = {}
        self._quiet_since: dict[int, int] = {}

    def find_mps(self, library: NvmlLibrary, handle: Any) -> None:
        """Look whether MPS clients are on the card; too dear for every tick."""
        self.mps = bool(library.attempt(_MPS, handle))

    def read(
        self, library: NvmlLibrary, handle: Any, mig_handles: Sequence[Any], is_mig: bool, total_bytes: int, now_us: int
    ) -> tuple[tuple[ProcessReading, ...] | None, str]:
        """(processes, reason): the processes with an empty reason, or None and why. Raises NvmlFailure only for what
        concerns the whole card."""
        try:
            running = self._running(library, handle, mig_handles)
        except NvmlFailure as failed:
            return None, reason_of(failed.code)
        if not all(_possible_pid(process.pid) for process in running):
            return None, ABI_MISMATCH
        memory = _memory_by_process(running, total_bytes)
        if not memory:
            self._stamps.clear()
            self._quiet_since.clear()
            return (), ""
        pids = {pid for pid, _ in memory}
        shares = {} if is_mig else self._shares(library, handle, pids, now_us)
        untold = unknown(NOT_SUPPORTED)
        found = [ProcessReading(pid, shares.get(pid, untold), held, gi) for (pid, gi), held in memory.items()]
        # A pid that only the utilisation list knows may be the same process in another pid namespace (HAMi-core#112)
        # or one that has just ended: it is told, and joined to nothing here.
        found += [ProcessReading(pid, share) for pid, share in shares.items() if pid not in pids]
        return tuple(sorted(found, key=lambda process: (process.pid, process.gpu_instance))), ""

    def _running(self, library: NvmlLibrary, handle: Any, mig_handles: Sequence[Any]) -> list[Any]:
        """Raises NvmlFailure. Without the privilege to see all of a MIG card, its instances are asked one by one."""
        try:
            running = list(library.call(_COMPUTE, handle))
        except NvmlFailure as failed:
            if failed.code != NO_PERMISSION_CODE or not mig_handles:
                raise
            running = [process for mig in mig_handles for process in library.call(_COMPUTE, mig)]
        return running + list(library.attempt(_MPS, handle) or ()) if self.mps else running

    def _shares(self, library: NvmlLibrary, handle: Any, pids: set[int], now_us: int) -> dict[int, Reading]:
        """SM share by pid: of every pid of `pids`, and of those that only this list knows."""
        if self._seen_us == 0 or self._seen_us > now_us:
            self._seen_us = now_us - _FIRST_LOOK_US
        try:
            samples = library.call(_UTILIZATION, handle, self._seen_us)
        except NvmlFailure as failed:
            # The binding raises code 0 when the size query finds none (SUCCESS with a count of 0).
            if failed.code not in (0, NOT_FOUND_CODE):
                return dict.fromkeys(pids, unknown(reason_of(failed.code)))
            samples = ()
        samples = [sample for sample in samples if sample.pid or sample.timeStamp]
        if not all(map(_possible_sample, samples)):
            return dict.fromkeys(pids, unknown(ABI_MISMATCH))
        shares = self._fresh(samples, now_us)
        known_only = {sample.pid for sample in samples} <= pids
        for pid in pids - shares.keys():
            quiet_since = self._quiet_since.setdefault(pid, now_us)
            idle = known_only and now_us - quiet_since >= _IDLE_AFTER_US
            shares[pid] = Reading(0) if idle else unknown(STALE)
        self._stamps = {pid: stamp for pid, stamp in self._stamps.items() if pid in shares}
        self._quiet_since = {pid: since for pid, since in self._quiet_since.items() if pid in shares}
        return shares

    def _fresh(self, samples: Sequence[Any], now_us: int) -> dict[int, Reading]:
        """Shares of the samples newer than the last one of their pid; each pid carries a stamp of its own."""
        shares: dict[int, Reading] = {}
        newest = self._seen_us
        for sample in samples:
            pid, stamp = sample.pid, sample.timeStamp
            if stamp > now_us + _AHEAD_US:
                shares[pid] = unknown(IMPLAUSIBLE)
            elif stamp > self._stamps.get(pid, self._seen_us):
                shares[pid] = share_ppm(sample.smUtil)
                self._stamps[pid] = stamp
                self._quiet_since[pid] = now_us
                newest = max(newest, min(stamp, now_us))
        self._seen_us = newest
        return shares


def _possible_pid(pid: int) -> bool:
    return 0 < pid <= HIGHEST_PID


def _possible_sample(sample: Any) -> bool:
    """No pid beyond the limit and no share above 100: where one is, the whole list is garbage (nvtop#110)."""
    shares = (sample.smUtil, sample.memUtil, sample.encUtil, sample.decUtil)
    return _possible_pid(sample.pid) and all(share <= 100 or share == U32_NONE for share in shares)


def _memory_by_process(running: Sequence[Any], total_bytes: int) -> dict[tuple[int, str], Reading]:
    """Memory by (pid, GPU instance): a process with several compute instances or contexts is one."""
    memory: dict[tuple[int, str], Reading] = {}
    for process in running:
        instance = "" if process.gpuInstanceId == U32_NONE else str(process.gpuInstanceId)
        # The binding turns the sentinel of this one field into None.
        held = unknown(SENTINEL) if process.usedGpuMemory is None else number(process.usedGpuMemory)
        if held.value is not None and held.value > total_bytes > 0:
            held = unknown(IMPLAUSIBLE)
        before = memory.get((process.pid, instance))
        if before is None or before.value is None:
            memory[(process.pid, instance)] = held
        elif held.value is not None:
            memory[(process.pid, instance)] = Reading(max(before.value, held.value))
    return memory
