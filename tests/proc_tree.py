"""A fake `/proc` in a folder: what tests of the agent's process reading write there."""

from collections.abc import Mapping
from pathlib import Path

BOOT_S = 1_700_000_000
HZ = 100
BOOT_ID = "46a22e07-4e72-4aba-95ab-2ea45cdd6a8c"
HOST_NAMESPACE = "pid:[4026531836]"


class ProcTree:
    """`add` writes a process, `remove` ends it. Its clock ticks HZ times a second since BOOT_S."""

    def __init__(self, root: Path, namespace: str = HOST_NAMESPACE, mounts: str = "proc /proc proc rw 0 0\n") -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        (root / "stat").write_text(f"cpu  1 2 3\nbtime {BOOT_S}\nprocesses 9\n")
        (root / "mounts").write_text(mounts)
        (root / "sys/kernel/random").mkdir(parents=True)
        (root / "sys/kernel/random/boot_id").write_text(BOOT_ID + "\n")
        (root / "self/ns").mkdir(parents=True)
        (root / "self/ns/pid").symlink_to(namespace)

    def add(
        self,
        pid: int,
        start_ticks: int = 1000,
        uid: int = 1000,
        cgroup: str = "0::/user.slice/user-1000.slice/session-3.scope\n",
        environ: Mapping[str, str] | None = None,
        comm: str = "python3",
        inner: tuple[int, ...] = (),
        flags: int = 0x00400000,
    ) -> None:
        """One process; `inner` are its pids in inner namespaces."""
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        fields = ["S", "1", "1", "1", "0", "-1", str(flags), *["0"] * 12, str(start_ticks), *["0"] * 30]
        (folder / "stat").write_text(f"{pid} ({comm}) {' '.join(fields)}\n")
        namespaces = "\t".join(map(str, (pid, *inner)))
        (folder / "status").write_text(f"Name:\t{comm}\nUid:\t{uid}\t0\t0\t0\nNSpid:\t{namespaces}\nThreads:\t1\n")
        (folder / "cgroup").write_text(cgroup)
        variables = {"PATH": "/bin", "SECRET_TOKEN": "hunter2", **(environ or {})}
        (folder / "environ").write_bytes(b"".join(f"{k}={v}\0".encode() for k, v in variables.items()))
        (folder / "cmdline").write_bytes(b"python3\0--password\0hunter2\0")

    def remove(self, pid: int) -> None:
        """The process is gone."""
        for path in (self.root / str(pid)).iterdir():
            path.rmdir() if path.is_dir() else path.unlink()
        (self.root / str(pid)).rmdir()
