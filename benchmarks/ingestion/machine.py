"""What the numbers were taken on."""

import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from benchmarks import agent_process

BENCH_VENV = Path(__file__).resolve().parents[2] / ".cache" / "bench-venv"
_LIBRARIES = ("confluent-kafka", "fastavro", "numpy", "faust-streaming", "chdb", "clickhouse-connect")


def machine_facts() -> dict[str, str]:
    """CPU, memory, kernel, Python, libraries, and how busy the machine was beforehand."""
    common = agent_process.machine_facts()
    memory_kb = next(int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal"))
    return {
        "cpu": common["cpu"],
        "memory": f"{memory_kb / 1e6:.0f} GB",
        "kernel": common["kernel"],
        "python": common["python"],
        "libraries": ", ".join(f"{name} {version(name)}" for name in _LIBRARIES),
        "load before": common["load"],
    }


def rival_facts() -> dict[str, str]:
    """Versions of what the rivals run on; what is not installed is not named."""
    installed = {
        path.name.removesuffix(".dist-info") for path in BENCH_VENV.glob("lib/python*/site-packages/*.dist-info")
    }
    wanted = ("faust_streaming-", "quixstreams-", "confluent_kafka-", "chdb-", "orjson-", "uvloop-")
    found = sorted(name.replace("-", " ") for name in installed if name.startswith(wanted))
    if shutil.which("prometheus"):
        said = subprocess.run(["prometheus", "--version"], capture_output=True, text=True, check=True)
        found.append(" ".join((said.stdout or said.stderr).replace(",", "").split()[:3:2]))
    return {"rivals": ", ".join(found)} if found else {}


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def rss_mb(pid: int) -> float:
    """Resident memory of a process, MB. Raises OSError when it has ended."""
    line = next(line for line in _lines(f"/proc/{pid}/status") if line.startswith("VmRSS"))
    return round(int(line.split()[1]) / 1000, 1)
