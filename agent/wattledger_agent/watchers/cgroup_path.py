"""Who owns a process by the text of its `/proc/<pid>/cgroup`: pure parsing of v1, v2 and hybrid. Reads no file."""

import re
from dataclasses import dataclass

SLURM = "slurm"
KUBERNETES = "kubernetes"
CONTAINER = "container"
SESSION = "session"
NOTHING = "nothing"
"""A service or a kernel thread: nobody that a run could name."""

_RANK = {NOTHING: 0, SESSION: 1, CONTAINER: 2, KUBERNETES: 3, SLURM: 4}
_TRUST = ("devices", "", "memory", "freezer", "cpuset", "cpu", "cpuacct", "pids", "name=systemd")
"""Which hierarchy is believed where two name different owners of one kind: the one that confines devices first ("" is
the unified one)."""

_SLURM_ROOT = re.compile(r"slurm(?:_.+)?|(?:(?P<node>.+)_)?slurmstepd\.scope")
_SLURM_JOB = re.compile(r"job_\d+|s[0-9A-Z]{13}")
_POD = re.compile(
    r"(?:.*[-/])?pod(?P<uid>[0-9a-f]{8}(?P<s>[-_])[0-9a-f]{4}(?P=s)[0-9a-f]{4}(?P=s)[0-9a-f]{4}(?P=s)[0-9a-f]{12}"
    r"|[0-9a-f]{32})(?:\.slice)?"
)
_ID = r"[0-9a-f]{64}"
_SCOPE = re.compile(
    rf"(?P<runtime>docker|libpod|libpod-payload|cri-containerd|crio|cri-dockerd|nerdctl|buildah)-(?P<id>{_ID})(?:\.scope)?"
)
_BARE = re.compile(_ID)
_LXC = re.compile(r"lxc\.payload\.(?P<name>.+)")
_USER_MANAGER = re.compile(r"user@(?P<uid>\d+)\.service")
_SESSION_SCOPE = re.compile(r"session-(?P<id>[^/]+)\.scope")
_USER_SLICE = re.compile(r"user-(?P<uid>\d+)\.slice")
_RUNTIMES = {
    "docker": "docker", "libpod": "podman", "libpod-payload": "podman", "libpod_parent": "podman", "crio": "crio",
    "cri-containerd": "containerd", "cri-dockerd": "docker", "nerdctl": "containerd", "lxc": "lxc",
    "buildah": "buildah",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Owner:
    """What a process belongs to. `keys` tie it to runs, the innermost first: `job_123`, a SLUID, a container id, a pod
    UID with dashes, `session_3` and `uid_1000`. A scheduler outranks a container inside it. `path` is the cgroup in
    the hierarchy that was believed, `hierarchy` its controllers (empty: the unified one)."""

    kind: str = NOTHING
    keys: tuple[str, ...] = ()
    runtime: str = ""
    slurm_node: str = ""
    """SLURM's node name where several slurmd run on one host (`gamba1_slurmstepd.scope`)."""
    path: str = ""
    hierarchy: str = ""

    @property
    def container_id(self) -> str:
        """Id of the innermost container; empty where there is none."""
        found = (key for key in self.keys if _BARE.fullmatch(key.rsplit("/", 1)[-1]) or key.startswith("lxc/"))
        return next(found, "")


def owner_of(text: str) -> Owner:
    """The owner by the content of `/proc/<pid>/cgroup`: all hierarchies are read, the strongest statement counts.

    SLURM on v1 puts a process into some controllers only, and systemd's own hierarchy then still names the service.
    """
    best, best_rank = Owner(), (0, 0, 0)
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        found = owner_of_path(parts[2], parts[1])
        rank = (_RANK[found.kind], _trust(parts[1]), len(found.keys))
        if rank > best_rank or not best.path:
            best, best_rank = found, rank
    return best


def owner_of_path(path: str, hierarchy: str = "") -> Owner:
    """The owner by one cgroup path. A path that was removed under its process (`… (deleted)`) still names it, and one
    seen from inside another cgroup namespace (`/../../kubepods…`) does as far as it goes."""
    clean = path.removesuffix(" (deleted)")
    # containerd without a systemd parent writes slice:prefix:id in one element
    segments = [s for s in re.sub(r":([a-z-]+):", r"/\1-", clean).split("/") if s not in ("", "..")]
    keys: list[str] = []
    kind, runtime, slurm_node, user = NOTHING, "", "", ""
    for place, segment in enumerate(segments):
        before = segments[place - 1] if place else ""
        if (manager := _USER_MANAGER.fullmatch(segment)) is not None:
            user = manager["uid"]
        slurm = None if user else _slurm(segment, segments[:place])
        if slurm is not None:
            keys, kind, slurm_node = [segment, *keys], SLURM, slurm
        elif not user and (pod := _POD.fullmatch(segment)) is not None:
            keys, kind = [pod["uid"].replace("_", "-"), *keys], max(kind, KUBERNETES, key=_RANK.__getitem__)
        elif (container := _container(segment, before)) is not None:
            # a user owns the tree below his own manager: what it names counts as his only
            key = f"user_{user}/{container[1]}" if user else container[1]
            keys, runtime = [key, *keys] if key not in keys else keys, container[0]
            kind = max(kind, CONTAINER, key=_RANK.__getitem__)
    if kind == NOTHING:
        kind, keys = _session(segments)
    return Owner(kind, tuple(keys), runtime, slurm_node, clean, hierarchy)


def _slurm(segment: str, before: list[str]) -> str | None:
    """The node prefix (mostly empty) where the element is a job of SLURM; None where it is not. Only below SLURM's own
    directory, and only its first job: a job may make what it likes below."""
    if not _SLURM_JOB.fullmatch(segment):
        return None
    roots = [match for s in before if (match := _SLURM_ROOT.fullmatch(s)) is not None]
    jobs_before = any(_SLURM_JOB.fullmatch(s) for s in before)
    if not roots or jobs_before:
        return None
    return roots[-1]["node"] or ""


def _container(segment: str, before: str) -> tuple[str, str] | None:
    """Runtime and id."""
    if (scope := _SCOPE.fullmatch(segment)) is not None:
        return _RUNTIMES[scope["runtime"]], scope["id"]
    if _BARE.fullmatch(segment):
        return _RUNTIMES.get(before, "container"), segment
    if (payload := _LXC.fullmatch(segment)) is not None:
        return "lxc", f"lxc/{payload['name']}"
    if before == "lxc" and segment:
        return "lxc", f"lxc/{segment}"
    return None


def _session(segments: list[str]) -> tuple[str, list[str]]:
    keys: list[str] = []
    for segment in segments:
        if (user := _USER_SLICE.fullmatch(segment)) is not None:
            keys.insert(0, f"uid_{user['uid']}")
        elif keys and (session := _SESSION_SCOPE.fullmatch(segment)) is not None:
            keys.insert(0, f"session_{session['id']}")
    return (SESSION, keys) if keys else (NOTHING, [])


def _trust(controllers: str) -> int:
    """Higher: believed first."""
    places = [_TRUST.index(name) for name in controllers.split(",") if name in _TRUST]
    return len(_TRUST) - min(places, default=len(_TRUST))
