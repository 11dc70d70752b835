"""Stands beside a running agent and stops it at the first thing that is more than reading: by Python's audit events,
and, for what is written in C, by the kernel."""

import ctypes
import errno
import os
import platform
import struct
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.architecture.rules_agent import READS

CHILDREN = {
    "subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn",
}  # fmt: skip
OTHERS = {"os.kill", "os.killpg", "signal.pthread_kill", "fcntl.ioctl", "resource.prlimit", "ctypes.call_function"}
PATHS = {
    "os.mkdir": 1, "os.remove": 1, "os.rmdir": 1, "os.rename": 2, "os.link": 2, "os.symlink": 2, "os.chmod": 1,
    "os.chown": 1, "os.truncate": 1, "os.utime": 1, "os.setxattr": 1, "os.removexattr": 1, "sqlite3.connect": 1,
    "shutil.rmtree": 1,
}  # fmt: skip
"""Events whose first arguments are paths that are changed."""
VENDORS = ("libnvidia-ml.so", "libamd_smi.so")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class NotReading(RuntimeError):
    """The agent is about to do more than read."""


class Watch:
    """`own`: the only folder that may change; `port`: the only one that may be listened on."""

    def __init__(self, own: Path, port: int) -> None:
        self.wrong: list[str] = []
        self.seen: Counter[str] = Counter()
        self._own = os.path.realpath(own)
        self._port = port

    def install(self) -> None:
        """From now on, and until the process ends: an audit hook can't be taken back."""
        sys.addaudithook(self._hear)

    def symbol(self, name: str) -> None:
        """A vendor's function was looked up."""
        self._see("symbol")
        if not READS.fullmatch(name):
            self._stop(f"{name} was looked up in a vendor's library")

    def _see(self, what: str) -> None:
        self.seen[what] += 1

    def _stop(self, what: str) -> None:
        self.wrong.append(what)
        raise NotReading(what)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event in CHILDREN or event in OTHERS:
            self._stop(f"{event}{args!r}")
        elif event == "open" and isinstance(args[2], int) and args[2] & _WRITING:
            self._change(event, args[0])
        elif event in PATHS:
            for path in args[: PATHS[event]]:
                self._change(event, path)
        elif event == "socket.bind":
            self._bound(args[1])
        elif event == "ctypes.dlopen" and args[0] is not None:
            self._see(event)
            if not os.path.basename(str(args[0])).startswith(VENDORS):
                self._stop(f"{args[0]} was loaded")
        elif event == "ctypes.dlsym" and str(args[0]).find("libnvidia-ml") >= 0:
            self.symbol(str(args[1]))
        elif event == "ctypes.dlsym":
            self._stop(f"{args[1]} was looked up in {args[0]}")

    def _change(self, event: str, path: object) -> None:
        self._see(f"change:{event}")
        if not isinstance(path, str | bytes | os.PathLike):
            # a descriptor: opening it was seen
            return
        where = os.path.realpath(os.fsdecode(path).removeprefix("file://").partition("?")[0])
        if where != self._own and not where.startswith(f"{self._own}{os.sep}"):
            self._stop(f"{event} changes {where}")

    def _bound(self, address: object) -> None:
        self._see("socket.bind")
        if isinstance(address, str):
            self._change("socket.bind", address)
        elif address != ("127.0.0.1", self._port):
            self._stop(f"{address} is listened on")


_NR, _ARCH, _FLAGS = 0, 4, 16
_X86_64, _CLONE_THREAD = 0xC000003E, 0x10000
_FORK, _VFORK, _CLONE, _EXECVE, _EXECVEAT, _CLONE3 = 57, 58, 56, 59, 322, 435
_KILL, _ALLOW, _REFUSE = 0x80000000, 0x7FFF0000, 0x00050000 | errno.ENOSYS
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2


def can_forbid_processes() -> bool:
    """The filter below is written for one machine."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def forbid_processes() -> None:
    """From now on the kernel kills this process when any of its threads starts another or becomes another program, also
    from C (seccomp). Threads stay possible: clone3 hides its flags in memory, so libc is sent back to clone. Raises
    OSError where the kernel has no such filter."""
    # (operation, jump if so, jump if not, operand); jumps are to the three answers at the end
    rows = [
        (_LOAD, 0, 0, _ARCH), (_EQUAL, 0, 9, _X86_64), (_LOAD, 0, 0, _NR),
        (_EQUAL, 8, 0, _FORK), (_EQUAL, 7, 0, _VFORK), (_EQUAL, 6, 0, _EXECVE), (_EQUAL, 5, 0, _EXECVEAT),
        (_EQUAL, 5, 0, _CLONE3), (_EQUAL, 0, 2, _CLONE), (_LOAD, 0, 0, _FLAGS), (_ANY_BIT, 0, 1, _CLONE_THREAD),
        (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _KILL), (_RETURN, 0, 0, _REFUSE),
    ]  # fmt: skip
    code = b"".join(struct.pack("HBBI", *row) for row in rows)
    buffer = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rows), ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (_SECCOMP, _FILTER, ctypes.addressof(program), 0, 0)):
        if libc.prctl(*(ctypes.c_ulong(each) for each in arguments)):
            raise OSError(ctypes.get_errno(), "the kernel takes no seccomp filter")
