"""What a watcher sees: runs, which are the holds of one attempt of one job on this node. Values only."""

from dataclasses import dataclass

BY_UUID = "uuid"
"""`GPU-…`, also a unique prefix of it, or an AMD device's identity."""
BY_MIG_UUID = "mig_uuid"
"""`MIG-…` in either form; also `GPU-uuid/gi/ci` of the R450 drivers."""
BY_MINOR = "minor"
"""Device minor number: what SLURM's global GPU ids are, unless gres.conf says otherwise."""
BY_PCI = "pci"
BY_INDEX = "index"
"""The driver's own index (GKE's `nvidia0` is a minor; nvidia-smi's number is an index)."""
BY_UNKNOWN = "unknown"
"""A number of an unknown index space (CUDA_VISIBLE_DEVICES inside a cgroup): never resolved, always a discrepancy."""


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """How a source names a device; `gpu_instance` where it names the instance by number (`nvidia0/gi7`)."""

    by: str
    value: str
    gpu_instance: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """One device, or a part of it, that a run holds. `share_num/share_den` is the part of what the reference names, a
    device or a MIG instance, where the source tells (1 of the replicas); None: the whole of it."""

    ref: DeviceRef
    share_num: int | None = None
    share_den: int | None = None
    sharing: str = "exclusive"
    cpus: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt of one job on this node, as one source sees it. Times in µs since the epoch, UTC; `ended_us` None
    while it runs. Empty text: the source does not say.

    `is_suspended` is what holds now. `owner_keys` are what ties processes to it: cgroup elements such as `job_123`,
    a SLUID, a container id, a pod UID, or `pid:starttime` of a plain process.
    """

    source: str
    cluster: str
    job: str
    attempt: int
    started_us: int
    held: tuple[Held, ...]
    ended_us: int | None = None
    stop_requested_us: int | None = None
    released_us: int | None = None
    is_suspended: bool = False
    outcome: str = ""
    tenant: str = ""
    project: str = ""
    user: str = ""
    model_tag: str = ""
    plan: str = ""
    requested_profile: str = ""
    exclusive: bool = False
    owner_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a watcher could not take: for dead letters. `reason` is a snake_case code, `detail` says what was
    wrong, where, which value, what to do; `raw` is the input, cut to 4 KiB, empty where it may hold private things."""

    source: str
    reason: str
    detail: str
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one look of a watcher gave.

    `runs` are those open now and those that ended since the last look. `is_snapshot`: an open run that was in an
    earlier sighting of this source and is not in this one has ended (at `at_us`, at the latest); otherwise a run
    stays open until its end is seen. `reported_to_us`: everything that happened up to then is in (for ticks).
    """

    at_us: int
    runs: tuple[Run, ...] = ()
    is_snapshot: bool = False
    reported_to_us: int = 0
    findings: tuple[Finding, ...] = ()
