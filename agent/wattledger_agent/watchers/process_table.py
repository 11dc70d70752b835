"""Reads processes from `/proc`: identity, owner and two variables that a process may carry. Never a command line."""

import os
from dataclasses import dataclass
from pathlib import Path

from wattledger_agent.watchers.cgroup_path import Owner, owner_of

TENANT_VARIABLE = "WATTLEDGER_TENANT"
MODEL_VARIABLE = "WATTLEDGER_MODEL"

GONE = "gone"
NO_PERMISSION = "no_permission"
HIDDEN = "hidden"
"""`/proc` is mounted with hidepid: the process may be there all the same."""
MALFORMED = "malformed"

NOBODY = Owner()
_CHUNK_BYTES = 1 << 16
_MOST_CHUNKS = 64
"""An environment can be megabytes; what lies beyond 4 MiB is not looked at."""
_PID_LIMIT = 4_194_304
_HOST_PID_NAMESPACE = "pid:[4026531836]"
"""The inode that the kernel gives its first pid namespace (PROC_PID_INIT_INO)."""
_KERNEL_THREAD = 0x00200000
_MPS_SERVER = "nvidia-cuda-mps"
"""The 15 characters that the kernel keeps of `nvidia-cuda-mps-server` and `-control`."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process. `start_ticks` counts clock ticks since boot: (pid, start_ticks) is what a reused pid changes.

    `started_us` is as exact as the kernel's boot time, a second. `uid` is the real one, None with a reason in
    `unread`, which names what could not be read and why. `namespace_pids`: from the outermost namespace inwards.
    `tags` are the allow-listed variables that it carries; `command` is empty unless it is allowed.
    """

    pid: int
    start_ticks: int
    started_us: int
    uid: int | None = None
    namespace_pids: tuple[int, ...] = ()
    owner: Owner = NOBODY
    tags: tuple[tuple[str, str], ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    is_kernel_thread: bool = False
    is_mps_server: bool = False
    command: str = ""

    @property
    def key(self) -> str:
        """`pid:starttime`, which ties it to a run."""
        return f"{self.pid}:{self.start_ticks}"

    def why_unread(self, what: str) -> str:
        """Why `cgroup`, `status` or `environ` is unknown; empty: it was read."""
        return dict(self.unread).get(what, "")


@dataclass(frozen=True, slots=True)
class Unread:
    """No process, and why: gone, hidden, no_permission or malformed."""

    pid: int
    reason: str


class ProcessTable:
    """Processes under `root`. `variables` is the whole list of what is ever taken from an environment; `show_command`
    lets the short name of the program (15 characters) through."""

    def __init__(
        self,
        root: Path = Path("/proc"),
        variables: tuple[str, ...] = (TENANT_VARIABLE, MODEL_VARIABLE),
        show_command: bool = False,
        ticks_per_s: int | None = None,
    ) -> None:
        self.root = root
        self._root = str(root)
        self._variables = {name.encode(): name for name in variables}
        self._show_command = show_command
        self._ticks_per_s = ticks_per_s or os.sysconf("SC_CLK_TCK")
        self._boot_us: int | None = None
        self._absent_reason: str | None = None

    def start_ticks(self, pid: int) -> int | Unread:
        """Only when it started: one small read, to see that a pid is still the same process."""
        stat = self._stat(pid)
        return stat if isinstance(stat, Unread) else stat[1]

    def read(self, pid: int) -> Process | Unread:
        """All that is allowed to be known of a process. One that ends, or whose pid is taken over, is gone."""
        stat = self._stat(pid)
        if isinstance(stat, Unread):
            return stat
        command, start_ticks, flags = stat
        unread: dict[str, str] = {}
        uid, namespace_pids = self._status(pid, unread)
        cgroup = self._text(pid, "cgroup", unread)
        tags = self._tags(pid, unread)
        if self.start_ticks(pid) != start_ticks:
            return Unread(pid, GONE)
        started_us = self.boot_us() + start_ticks * 1_000_000 // self._ticks_per_s
        return Process(
            pid, start_ticks, started_us, uid, namespace_pids, owner_of(cgroup), tags, tuple(sorted(unread.items())),
            bool(flags & _KERNEL_THREAD), command.startswith(_MPS_SERVER), command if self._show_command else "",
        )  # fmt: skip

    def boot_us(self) -> int:
        """When the machine started, µs since the epoch; read once, for the kernel shifts it when the clock is set. 0:
        not told."""
        if self._boot_us is None:
            self._boot_us = 0
            for line in _lines(self.root / "stat"):
                if line.startswith("btime ") and line[6:].strip().isdigit():
                    self._boot_us = int(line[6:]) * 1_000_000
        return self._boot_us

    def boot_id(self) -> str:
        """The kernel's name of this run of the machine; empty: not told."""
        return next(iter(_lines(self.root / "sys/kernel/random/boot_id")), "").strip()

    def is_host_namespace(self) -> bool | None:
        """Whether pids here are the host's, as drivers report them; None: not told."""
        try:
            return os.readlink(self.root / "self/ns/pid") == _HOST_PID_NAMESPACE
        except OSError:
            return None

    def inner_pids(self) -> dict[int, tuple[int, ...]]:
        """Pids here by the pid that some inner namespace gives the process. Walks all: not for every tick."""
        found: dict[int, tuple[int, ...]] = {}
        try:
            pids = sorted(int(name) for name in os.listdir(self.root) if name.isdigit())
        except OSError:
            return found
        for pid in pids:
            for inner in set(self._status(pid, {})[1][1:]):
                found[inner] = (*found.get(inner, ()), pid)
        return found

    def _stat(self, pid: int) -> tuple[str, int, int] | Unread:
        """Name, start time (field 22 of `/proc/<pid>/stat`) and flags (field 9)."""
        if not 0 < pid <= _PID_LIMIT:
            return Unread(pid, MALFORMED)
        unread: dict[str, str] = {}
        text = self._text(pid, "stat", unread)
        if unread:
            return Unread(pid, unread["stat"])
        # the name may hold spaces and brackets: it ends at the last one
        head, bracket, tail = text.rpartition(")")
        fields = tail.split()
        if not bracket or len(fields) < 20 or not fields[19].isdigit() or not fields[6].isdigit():
            return Unread(pid, MALFORMED)
        return head.partition("(")[2], int(fields[19]), int(fields[6])

    def _status(self, pid: int, unread: dict[str, str]) -> tuple[int | None, tuple[int, ...]]:
        uid: int | None = None
        namespace_pids: tuple[int, ...] = ()
        for line in self._text(pid, "status", unread).splitlines():
            name, _, rest = line.partition(":")
            fields = rest.split()
            if name == "Uid" and fields and fields[0].isdigit():
                uid = int(fields[0])
            elif name == "NSpid":
                namespace_pids = tuple(int(field) for field in fields if field.isdigit())
        if uid is None:
            unread.setdefault("status", MALFORMED)
        return uid, namespace_pids

    def _tags(self, pid: int, unread: dict[str, str]) -> tuple[tuple[str, str], ...]:
        """Allow-listed variables; everything else that was read is dropped here. The first of a name counts."""
        if not self._variables:
            return ()
        try:
            data = self._bytes(pid, "environ")
        except OSError as error:
            unread["environ"] = self._reason(error)
            return ()
        found: dict[str, str] = {}
        for item in data.split(b"\0"):
            name, equals, value = item.partition(b"=")
            if equals and name in self._variables:
                found.setdefault(self._variables[name], value.decode("utf-8", "replace"))
        return tuple(sorted(found.items()))

    def _text(self, pid: int, name: str, unread: dict[str, str]) -> str:
        try:
            return self._bytes(pid, name).decode("utf-8", "replace")
        except OSError as error:
            unread[name] = self._reason(error)
            return ""

    def _bytes(self, pid: int, name: str) -> bytes:
        with open(f"{self._root}/{pid}/{name}", "rb", buffering=0) as file:
            parts = [file.read(_CHUNK_BYTES)]
            while parts[-1] and len(parts) < _MOST_CHUNKS:
                parts.append(file.read(_CHUNK_BYTES))
        return b"".join(parts)

    def _reason(self, error: OSError) -> str:
        if isinstance(error, PermissionError):
            return NO_PERMISSION
        if self._absent_reason is None:
            options = [line.split()[3].split(",") for line in _lines(self.root / "mounts") if " proc " in line]
            hides = {o for found in options for o in found if o.startswith("hidepid=")}
            self._absent_reason = HIDDEN if hides - {"hidepid=0", "hidepid=off"} else GONE
        return self._absent_reason


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
