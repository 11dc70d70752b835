"""What the agent says of its machine: name, boot, CPUs, main memory. Reads /proc; unknown is None or empty."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Host:
    """`boot_id` changes with each boot of the machine."""

    node: str
    boot_id: str = ""
    cpus: int | None = None
    memory_bytes: int | None = None


def read_host(node: str = "", proc: Path = Path("/proc")) -> Host:
    """The machine; `node` in place of its host name when it is given."""
    return Host(node or socket.gethostname(), _boot_id(proc), os.cpu_count(), _memory_bytes(proc))


def _boot_id(proc: Path) -> str:
    try:
        return (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _memory_bytes(proc: Path) -> int | None:
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, rest = line.partition(":")
        words = rest.split()
        if name == "MemTotal" and len(words) == 2 and words[0].isdigit() and words[1] == "kB":
            return int(words[0]) * 1024
    return None
