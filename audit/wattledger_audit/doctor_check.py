"""What works here for WattLedger: one check a thing, each with the fix. Owns the checks of Python's side."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from wattledger_audit.doctor_machine import (
    available_memory_bytes,
    check_disk,
    check_docker,
    check_java,
    check_kafka_jars,
    check_memory,
)
from wattledger_audit.doctor_trial import MISSING, OK, WARN, Check, Run, run_child, run_python

OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Library:
    """An optional package: what it is imported as, the extra that brings it, and what is not possible without it."""

    distribution: str
    module: str
    extra: str
    without: str
    needed: bool = False


LIBRARIES = (
    Library("nvidia-ml-py", "pynvml", "nvidia", "the agent can't read NVIDIA GPUs"),
    Library("amdsmi", "amdsmi", "amd", "the agent can't read AMD GPUs"),
    Library("faust-streaming", "faust", "streams", "no stream processors, `wattledger demo` or `wattledger up`"),
    Library("clickhouse-connect", "clickhouse_connect", "streams", "nothing can be written to or read from ClickHouse"),
    Library("chdb", "chdb", "audit", "no `wattledger audit`, and no embedded stack", needed=True),
    Library("jinja2", "jinja2", "audit", "`wattledger audit` can't write report.html", needed=True),
    Library("openpyxl", "openpyxl", "audit", "`wattledger audit` can't read .xlsx", needed=True),
    Library("pyarrow", "pyarrow", "audit", "`wattledger audit` can't read or write Parquet", needed=True),
    Library("xlsxwriter", "xlsxwriter", "audit", "`wattledger audit` can't write its workbook", needed=True),
)


def check_python(found: Sequence[int]) -> Check:
    """The interpreter that runs this."""
    text = ".".join(str(part) for part in found[:3])
    if tuple(found[:2]) >= OLDEST_PYTHON:
        return Check("python", OK, f"Python {text}", "")
    return Check("python", MISSING, f"Python {text} is older than 3.11", "install Python 3.11 or later")


def check_library(library: Library, run: Run) -> Check:
    """It is installed, and imports."""
    fix = f"pip install 'wattledger[{library.extra}]'"
    bad = MISSING if library.needed else WARN
    name = f"library {library.distribution}"
    try:
        installed = version(library.distribution)
    except PackageNotFoundError:
        return Check(name, bad, f"not installed: {library.without}", fix)
    tried = run_python(f"import {library.module}", run)
    if tried.code == 0:
        return Check(name, OK, f"{installed}, imports", "")
    fix = "install AMD's driver with its libamd_smi" if library.distribution == "amdsmi" else f"{fix} --force-reinstall"
    return Check(name, bad, f"{installed} does not import ({tried.last_line}): {library.without}", fix)


def check_pynvml_shadow(run: Run) -> Check:
    """`pynvml` up to 11 is a package folder that hides nvidia-ml-py's module of the same name."""
    name, fix = "pynvml", "pip uninstall pynvml && pip install --force-reinstall 'wattledger[nvidia]'"
    if find_spec("pynvml") is None:
        return Check(name, OK, "nothing shadows nvidia-ml-py (neither is installed)", "")
    tried = run_python("import pynvml; print(pynvml.__file__)", run)
    origin = Path(tried.last_line)
    if tried.code == 0 and origin.name != "pynvml.py":
        what = (
            f"`import pynvml` gives the old package {origin.parent.name}/, not nvidia-ml-py: wrong or missing readings"
        )
        return Check(name, WARN, what, fix)
    return Check(name, OK, "`import pynvml` gives nvidia-ml-py", "")


def check_nvml(run: Run) -> Check:
    """The driver answers, and how many GPUs it sees."""
    if find_spec("pynvml") is None:
        return Check(
            "nvml", WARN, "nvidia-ml-py is not installed: no NVIDIA readings", "pip install 'wattledger[nvidia]'"
        )
    code = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())"
    tried = run_python(code, run)
    if tried.code == 0:
        return Check("nvml", OK, f"NVML answers, {tried.last_line} GPUs", "")
    what = f"NVML does not answer ({tried.last_line}): no live NVIDIA readings here; files are audited all the same"
    return Check("nvml", WARN, what, "install NVIDIA's driver, or run the agent where the GPUs are")


def check_chdb(run: Run) -> Check:
    """The engine really runs a query: in a process of its own, for a process may open it once only."""
    if find_spec("chdb") is None:
        return Check("chdb runs", MISSING, "not installed: no `wattledger audit`", "pip install 'wattledger[audit]'")
    tried = run_python("import chdb; print(str(chdb.query('SELECT 1', 'CSV')).strip())", run)
    if (tried.code, tried.last_line) == (0, "1"):
        return Check("chdb runs", OK, "SELECT 1 gives 1", "")
    fix = "pip install --force-reinstall 'wattledger[audit]' (chDB needs Linux or macOS, x86-64 with AVX2 or ARM)"
    return Check("chdb runs", MISSING, f"SELECT 1 does not run ({tried.last_line}): no `wattledger audit`", fix)


def check_tzdata() -> Check:
    """Time zones come from the `tzdata` package, never from the machine, so that results are alike everywhere."""
    fix = "pip install --force-reinstall tzdata"
    try:
        found = version("tzdata")
        there = files("tzdata").joinpath("zoneinfo", "Europe", "Berlin").is_file()
    except (PackageNotFoundError, ModuleNotFoundError):
        return Check("tzdata", MISSING, "not installed: local tariffs and days can't be read", fix)
    if not there:
        return Check("tzdata", MISSING, f"tzdata {found} has no zone files", fix)
    return Check("tzdata", OK, f"{found}, from the package and not from this machine", "")


def examine(libs: Path, folder: Path, run: Run = run_child) -> list[Check]:
    """Every check, in the order in which they are shown."""
    return [
        check_python(sys.version_info[:3]),
        *(check_library(library, run) for library in LIBRARIES),
        check_pynvml_shadow(run),
        check_nvml(run),
        check_chdb(run),
        check_tzdata(),
        check_java(shutil.which("java"), run),
        check_kafka_jars(libs),
        check_docker(shutil.which("docker"), run),
        check_disk(folder),
        check_memory(available_memory_bytes()),
    ]
