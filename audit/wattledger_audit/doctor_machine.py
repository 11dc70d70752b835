"""Checks of the machine for the doctor: Java, Kafka's jars, Docker, room on disk and in memory."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from wattledger_audit.doctor_trial import OK, WARN, Check, Run

OLDEST_JAVA = 17
DISK_BYTES, MEMORY_BYTES = 2_000_000_000, 1_500_000_000


def check_java(java: str | None, run: Run) -> Check:
    """Java for the embedded Apache Kafka."""
    fix = "apt-get install default-jre-headless"
    without = "no embedded Apache Kafka; `--broker tansu` or a broker of yours still works"
    if java is None:
        return Check("java", WARN, f"no `java` on the PATH: {without}", fix)
    tried = run([java, "-version"])
    first = tried.output.strip().splitlines()[0] if tried.output.strip() else "no output"
    digits = first.partition('"')[2].partition('"')[0].partition(".")[0]
    if tried.code == 0 and digits.isdigit() and int(digits) >= OLDEST_JAVA:
        return Check("java", OK, first, "")
    return Check("java", WARN, f"{first}: Java {OLDEST_JAVA} or later is needed: {without}", fix)


def check_kafka_jars(libs: Path) -> Check:
    """Apache Kafka's jars, fetched by `make setup`."""
    jars = sorted(path.stem for path in libs.glob("kafka_*.jar"))
    if jars:
        return Check("kafka jars", OK, f"{jars[-1]} in {libs}", "")
    return Check("kafka jars", WARN, f"none in {libs}: no embedded Apache Kafka", "make setup (needs Maven)")


def check_docker(docker: str | None, run: Run) -> Check:
    """A Docker engine answers."""
    without = "no Apache Kafka in a container; nothing else needs Docker"
    if docker is None:
        return Check("docker", WARN, f"no `docker` on the PATH: {without}", "install Docker, or choose another broker")
    tried = run([docker, "info"])
    if tried.code == 0:
        return Check("docker", OK, "an engine answers", "")
    return Check("docker", WARN, f"no engine answers ({tried.last_line}): {without}", "start Docker's engine")


def check_disk(folder: Path) -> Check:
    """Room for tables beside the report."""
    free = shutil.disk_usage(folder).free
    what = f"{free // 1_000_000:,} MB free in {folder}"
    if free >= DISK_BYTES:
        return Check("disk", OK, what, "")
    return Check("disk", WARN, f"{what}: large files may not fit", "free some space, or choose another --out")


def check_memory(available: int | None) -> Check:
    """What an audit of a million rows may take."""
    if available is None:
        return Check("memory", OK, "how much is free can't be told on this system", "")
    what = f"{available // 1_000_000:,} MB available"
    if available >= MEMORY_BYTES:
        return Check("memory", OK, what, "")
    return Check("memory", WARN, f"{what}: a million rows take up to 1,500 MB", "end other programs, or audit by month")


def available_memory_bytes(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The lower of what the machine and the container still give; None where neither says."""
    found = [*_machine_free(proc / "meminfo"), *_container_free(cgroup)]
    return min(found, default=None)


def _machine_free(meminfo: Path) -> Iterable[int]:
    if meminfo.is_file():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024


def _container_free(cgroup: Path) -> Iterable[int]:
    limit, used = cgroup / "memory.max", cgroup / "memory.current"
    if limit.is_file() and used.is_file() and limit.read_text().strip().isdigit():
        yield max(int(limit.read_text()) - int(used.read_text()), 0)
