"""What a process uses: CPU by its own clock, memory and wake-ups from /proc. Starts and stops nothing."""

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path

_PER_PROCESS = 2
"""CPUCLOCK_SCHED of Linux' clock ids: the CPU clock of a process with all its threads, also of those that ended."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A process at one moment; `children_cpu_s` of the children that have ended."""

    at_s: float
    cpu_s: float
    children_cpu_s: float
    switches: int
    threads: int
    rss_mb: float
    pss_mb: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class Use:
    """Between two snapshots: share of one core (children included), memory at the end, wake-ups (voluntary context
    switches of threads that live)."""

    core_pct: float
    rss_mb: float
    pss_mb: float
    peak_mb: float
    wakeups_per_s: float
    threads: int


def snapshot(pid: int, children_cpu_s: float = 0.0) -> Snapshot:
    """The process now. Raises OSError when it has ended."""
    at_s, cpu_s = time.monotonic(), time.clock_gettime(~pid << 3 | _PER_PROCESS)
    proc = Path("/proc") / str(pid)
    status = _fields(proc / "status")
    rollup = _fields(proc / "smaps_rollup")
    switches = sum(_fields(task / "status").get("voluntary_ctxt_switches", 0) for task in (proc / "task").iterdir())
    return Snapshot(
        at_s, cpu_s, children_cpu_s, switches, status["Threads"], status["VmRSS"] / 1024, rollup["Pss"] / 1024,
        status["VmHWM"] / 1024,
    )  # fmt: skip


def use_between(before: Snapshot, after: Snapshot) -> Use:
    """What was used per second between the two."""
    seconds = after.at_s - before.at_s
    cpu_s = after.cpu_s - before.cpu_s + after.children_cpu_s - before.children_cpu_s
    return Use(
        round(100 * cpu_s / seconds, 3), round(after.rss_mb, 1), round(after.pss_mb, 1), round(after.peak_mb, 1),
        round((after.switches - before.switches) / seconds, 1), after.threads,
    )  # fmt: skip


def _fields(path: Path) -> dict[str, int]:
    """Numbers of a /proc file of `Name: number kB` lines."""
    found = {}
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found


def delivered_ticks(bootstrap: str, prefix: str, gpus: int) -> int:
    """Ticks of `gpus` devices that the topic holds; the first tick of a batch repeats the last of the one before.
    Raises RuntimeError where a batch has another number of devices, or readings are missing in it."""
    from confluent_kafka import Consumer, TopicPartition
    from wattledger_schemas import Codec

    codec = Codec()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "benchmark", "enable.partition.eof": True})
    consumer.assign([TopicPartition(f"{prefix}gpu-samples", 0, 0)])
    ticks = 0
    while (message := consumer.poll(10)) is not None and message.error() is None:
        record = codec.decode(message.value() or b"").record
        missing = [null for device in record["devices"] for null in device["nulls"] if null["column"] == "power_mw"]
        if len(record["devices"]) != gpus or missing:
            raise RuntimeError(f"a batch of {len(record['devices'])} devices, power missing: {missing}")
        ticks += len(record["ticks_us"]) // 8 - (ticks > 0)
    consumer.close()
    return ticks


def machine_facts() -> dict[str, str]:
    """What the numbers were taken on."""
    models = {line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")}
    return {
        "cpu": f"{', '.join(sorted(models)) or platform.machine()}, {os.cpu_count()} cores",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
