"""Ties pids on devices to the jobs of open runs and sums what they use by job. It starts and changes nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wattledger_agent.probes.reading import ABI_MISMATCH, DeviceReading, ProcessReading, Reading
from wattledger_agent.run_conflict import Job, Use
from wattledger_agent.watchers.cgroup_path import CONTAINER, KUBERNETES, SLURM
from wattledger_agent.watchers.process_cache import ProcessCache
from wattledger_agent.watchers.process_table import GONE, Process, ProcessTable, Unread

NO_RUN = "no_run"
"""Its cgroup or pid is of no run that is known (yet)."""
AMBIGUOUS = "ambiguous"
"""Two jobs claim what it belongs to."""
FOREIGN_NAMESPACE = "foreign_pid_namespace"
"""The agent does not see the host's pids, which are what drivers report: run it in the host's pid namespace."""
MPS_SERVER = "mps_server"
"""Its clients' work goes through it: whose it was, the driver does not tell."""

LARGEST_PID = 4_194_304
"""PID_MAX_LIMIT of 64-bit Linux; what is above is garbage of a library that does not match its driver."""
_INDEX_US = 60_000_000
"""How long the walk over all processes, for pids of inner namespaces, counts."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Whose a process is. `job` None: nobody's that is known, and `reason` says why; `label` says what it is."""

    job: Job | None
    reason: str = ""
    label: str = ""


class ProcessOwners:
    """`follow` is told the runs' keys; a reused pid is another process."""

    def __init__(self, table: ProcessTable) -> None:
        self._processes = ProcessCache(table)
        self._table = table
        self._keys: Mapping[str, Job | None] = {}
        self._inner: dict[int, tuple[int, ...]] = {}
        self._indexed_us: int | None = None
        self._is_host = table.is_host_namespace()

    def follow(self, keys: Mapping[str, Job | None]) -> None:
        """Owner keys of the runs as the run book gives them."""
        self._keys = keys

    def owner(self, pid: int, now_us: int) -> Ownership:
        """The job of a pid that a driver reported."""
        if self._is_host is False:
            return Ownership(None, FOREIGN_NAMESPACE)
        process = self._processes.read(pid, now_us)
        if isinstance(process, Unread) and process.reason != GONE:
            return Ownership(None, process.reason)
        if isinstance(process, Unread) or process.is_kernel_thread:
            # some drivers give a pid of the container's own namespace (HAMi-core#112)
            inner = self._inside(pid, now_us)
            found = self._processes.read(inner[0], now_us) if len(inner) == 1 else Unread(pid, GONE)
            if isinstance(found, Unread):
                return Ownership(None, AMBIGUOUS if len(inner) > 1 else GONE)
            process = found
        return self._owned(process)

    def of_device(self, processes: Iterable[ProcessReading], now_us: int) -> dict[Job | None, Reading]:
        """SM share by job, None for all that belong to no known one. A share that one of its processes lacks makes
        the job's unknown; of those of nobody the known ones count, for they have nothing to do with each other. A
        process that is listed under two pids has the share that one of them has.

        One impossible pid means that the library and its driver disagree on the list's layout: then nothing of it is
        anybody's, and the only entry is unknown.
        """
        listed = list(processes)
        if any(not is_pid(one.pid) for one in listed):
            return {None: Reading(None, ABI_MISMATCH)}
        of_process: dict[int, Reading] = {}
        aliases = self._aliases([one.pid for one in listed], now_us)
        for one in listed:
            pid = aliases.get(one.pid, one.pid)
            of_process[pid] = _sum_known(of_process[pid], one.sm_ppm) if pid in of_process else one.sm_ppm
        shares: dict[Job | None, Reading] = {}
        for pid, share in of_process.items():
            job = self.owner(pid, now_us).job
            add = _sum_known if job is None else _sum
            shares[job] = add(shares[job], share) if job in shares else share
        return shares

    def uses(self, devices: Iterable[DeviceReading], now_us: int) -> list[Use]:
        """Who is on which device, for the run book's contradictions. What can't be read is left out: nobody can say
        whether it may be there."""
        found: dict[Use, None] = {}
        for device in devices:
            listed = device.processes or ()
            if any(not is_pid(one.pid) for one in listed):
                continue
            aliases = self._aliases([one.pid for one in listed], now_us)
            for one in listed:
                owned = self.owner(aliases.get(one.pid, one.pid), now_us)
                if owned.label:
                    found[Use(device.device, one.gpu_instance, owned.job, owned.label)] = None
        return list(found)

    def _owned(self, process: Process) -> Ownership:
        label = _label(process)
        for key in (process.key, *process.owner.keys):
            if key in self._keys:
                job = self._keys[key]
                if job is None:
                    return Ownership(None, AMBIGUOUS)
                return Ownership(job, label=f"a process of {'/'.join(job)}")
        if process.is_mps_server:
            return Ownership(None, MPS_SERVER)
        if (why := process.why_unread("cgroup")) != "":
            return Ownership(None, why)
        return Ownership(None, NO_RUN, label)

    def _aliases(self, pids: list[int], now_us: int) -> dict[int, int]:
        """Pids in a device's list that another listed process has in its own namespace: they are that process, unless
        the host's process of that pid belongs to a run itself."""
        if self._is_host is False:
            return {}
        found: dict[int, int] = {}
        for pid in pids:
            process = self._processes.read(pid, now_us)
            for inner in process.namespace_pids[1:] if isinstance(process, Process) else ():
                if inner in pids and inner != pid and not self._is_tied(self._processes.read(inner, now_us)):
                    found[inner] = pid
        return found

    def _is_tied(self, process: Process | Unread) -> bool:
        return isinstance(process, Process) and any(k in self._keys for k in (process.key, *process.owner.keys))

    def _inside(self, pid: int, now_us: int) -> tuple[int, ...]:
        """Host pids of what an inner namespace calls `pid`."""
        if self._indexed_us is None or not 0 <= now_us - self._indexed_us < _INDEX_US:
            self._inner, self._indexed_us = self._table.inner_pids(), now_us
        return self._inner.get(pid, ())


def is_pid(pid: int) -> bool:
    """Whether it can be a pid at all."""
    return 0 < pid <= LARGEST_PID


def _sum(first: Reading, second: Reading) -> Reading:
    if first.value is None or second.value is None:
        return first if first.value is None else second
    return Reading(first.value + second.value)


def _sum_known(first: Reading, second: Reading) -> Reading:
    if first.value is None or second.value is None:
        return second if first.value is None else first
    return Reading(first.value + second.value)


def _label(process: Process) -> str:
    """What it is, the same for all of its kind; no name of a program."""
    owner = process.owner
    if owner.kind in (SLURM, KUBERNETES, CONTAINER):
        what = {SLURM: "SLURM job", KUBERNETES: "Kubernetes pod", CONTAINER: "container"}[owner.kind]
        key = next((k for k in owner.keys if k != owner.container_id), owner.keys[-1]) if owner.keys else ""
        return f"a process of {what} {key}"
    uid = "an unknown uid" if process.uid is None else f"uid {process.uid}"
    return f"a process of {uid} outside any job"
