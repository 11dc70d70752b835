"""`wattledger doctor`: each check tells good from bad, and the command's exit codes."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner, Result
from wattledger_audit import doctor_check
from wattledger_audit.command_doctor import doctor_command
from wattledger_audit.doctor_check import (
    LIBRARIES,
    Library,
    check_chdb,
    check_library,
    check_nvml,
    check_pynvml_shadow,
    check_python,
    check_tzdata,
    examine,
)
from wattledger_audit.doctor_machine import (
    available_memory_bytes,
    check_disk,
    check_docker,
    check_java,
    check_kafka_jars,
    check_memory,
)
from wattledger_audit.doctor_trial import MISSING, OK, WARN, Check, Ran, Run, run_child, run_python

NAMES = {
    "python", "pynvml", "nvml", "chdb runs", "tzdata", "java", "kafka jars", "docker", "disk", "memory",
    *(f"library {one.distribution}" for one in LIBRARIES),
}  # fmt: skip


def says(code: int | None, output: str) -> Run:
    """A trial that always ends so."""
    return lambda args: Ran(code, output)


def call(monkeypatch: pytest.MonkeyPatch, checks: list[Check], *args: str) -> Result:
    monkeypatch.setattr("wattledger_audit.command_doctor.examine", lambda libs, folder: checks)
    app = typer.Typer()
    app.command()(doctor_command)
    return CliRunner().invoke(app, args)


def test_everything_is_looked_at_once_and_what_is_not_ok_has_a_fix(tmp_path: Path) -> None:
    checks = examine(tmp_path, tmp_path)
    assert sorted(check.name for check in checks) == sorted(NAMES)
    for check in checks:
        assert check.status in (OK, WARN, MISSING)
        assert check.what
        assert bool(check.fix) == (check.status != OK), check
    found = {check.name: check.status for check in checks}
    # What this environment is known to have; the jars are looked for in an empty folder.
    assert {name for name in ("python", "chdb runs", "tzdata", "library pyarrow") if found[name] == OK} == {
        "python", "chdb runs", "tzdata", "library pyarrow",
    }  # fmt: skip
    assert found["kafka jars"] == WARN


@pytest.mark.parametrize(("found", "status"), [((3, 10, 9), MISSING), ((3, 11, 0), OK), ((3, 14, 1), OK), ((4, 0), OK)])
def test_python_is_new_enough_or_missing(found: Sequence[int], status: str) -> None:
    assert check_python(found).status == status


@pytest.mark.parametrize(("needed", "status"), [(False, WARN), (True, MISSING)])
def test_a_library_that_is_not_there_or_does_not_import_names_the_extra_that_brings_it(
    needed: bool, status: str
) -> None:
    absent = check_library(Library("no-such-package-here", "nothing", "audit", "no report", needed), says(0, ""))
    assert (absent.status, absent.what) == (status, "not installed: no report")
    assert absent.fix == "pip install 'wattledger[audit]'"
    broken = check_library(
        Library("pydantic", "pydantic", "audit", "no report", needed), says(1, "Traceback\nImportError: no libfoo\n")
    )
    assert broken.status == status
    assert "does not import (ImportError: no libfoo): no report" in broken.what
    assert "wattledger[audit]" in broken.fix
    good = check_library(Library("pydantic", "pydantic", "audit", "no report", needed), says(0, ""))
    assert (good.status, good.fix) == (OK, "")


@pytest.mark.parametrize(
    ("origin", "status"),
    [("/x/site-packages/pynvml.py", OK), ("/x/site-packages/pynvml/__init__.py", WARN)],
)
def test_an_old_pynvml_that_hides_nvidia_ml_py_is_told_by_where_it_lies(origin: str, status: str) -> None:
    found = check_pynvml_shadow(says(0, f"FutureWarning: the pynvml package is deprecated\n{origin}\n"))
    assert found.status == status
    assert ("pip uninstall" in found.fix) == (status == WARN)


def test_a_real_package_folder_named_pynvml_is_found(tmp_path: Path) -> None:
    (tmp_path / "pynvml").mkdir()
    (tmp_path / "pynvml" / "__init__.py").write_text("")
    shadowed = check_pynvml_shadow(
        lambda args: run_child([args[0], "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {args[2]}"])
    )
    assert shadowed.status == WARN
    assert check_pynvml_shadow(run_child).status == OK


def test_nvml_says_how_many_gpus_or_why_not() -> None:
    assert check_nvml(says(0, "8\n")).what == "NVML answers, 8 GPUs"
    silent = check_nvml(says(1, "Traceback\npynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found\n"))
    assert silent.status == WARN
    assert "NVML Shared Library Not Found" in silent.what


@pytest.mark.parametrize(
    ("code", "output", "status"),
    [(0, "1\n", OK), (0, "", MISSING), (-4, "", MISSING), (1, "1", MISSING), (None, "no answer within 60 s", MISSING)],
)
def test_chdb_counts_only_when_it_really_gives_one(code: int | None, output: str, status: str) -> None:
    assert check_chdb(says(code, output)).status == status


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ('openjdk version "17.0.15" 2025-04-15', OK),
        ('openjdk version "21" 2023-09-19', OK),
        ('java version "1.8.0_392"', WARN),
        ('openjdk version "11.0.2" 2019-01-15', WARN),
        ("Error: could not find libjava.so", WARN),
        ("", WARN),
    ],
)
def test_java_is_seventeen_or_later(line: str, status: str) -> None:
    assert check_java("/usr/bin/java", says(0, f"{line}\nmore\n")).status == status
    assert check_java("/usr/bin/java", says(1, line)).status == WARN
    assert check_java(None, says(0, line)).status == WARN


def test_docker_answers_or_says_why_not() -> None:
    assert check_docker("/bin/docker", says(0, "Server:\n")).status == OK
    assert "permission denied" in check_docker("/bin/docker", says(1, "permission denied\n")).what
    assert check_docker(None, says(0, "")).status == WARN


def test_kafka_jars_are_found_where_they_are(tmp_path: Path) -> None:
    assert check_kafka_jars(tmp_path / "none").status == WARN
    (tmp_path / "kafka_2.13-4.3.1.jar").touch()
    assert check_kafka_jars(tmp_path).what.startswith("kafka_2.13-4.3.1 in ")


def test_little_room_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for free, status in ((1_999_999_999, WARN), (2_000_000_000, OK)):
        usage = SimpleNamespace(free=free)
        monkeypatch.setattr("shutil.disk_usage", lambda folder, usage=usage: usage)
        assert check_disk(tmp_path).status == status
    for free_bytes, status in ((1_499_999_999, WARN), (1_500_000_000, OK), (None, OK)):
        assert check_memory(free_bytes).status == status


@pytest.mark.parametrize(
    ("meminfo", "limit", "expected"),
    [
        ("MemTotal: 9 kB\nMemAvailable:  2000 kB\n", None, 2_048_000),
        ("MemAvailable: 2000 kB\n", "1500000", 1_000_000),
        ("MemAvailable: 2000 kB\n", "max", 2_048_000),
        ("MemAvailable: 2000 kB\n", "400000", 0),
        (None, "1500000", 1_000_000),
        (None, None, None),
    ],
)
def test_memory_is_the_lower_of_the_machines_and_the_containers(
    meminfo: str | None, limit: str | None, expected: int | None, tmp_path: Path
) -> None:
    if meminfo is not None:
        (tmp_path / "meminfo").write_text(meminfo)
    if limit is not None:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text("500000\n")
    assert available_memory_bytes(tmp_path, tmp_path) == expected


def test_tzdata_comes_from_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert check_tzdata().status == OK
    monkeypatch.setattr(doctor_check, "files", lambda package: tmp_path)
    assert check_tzdata().status == MISSING


def test_a_trial_that_hangs_crashes_or_can_not_start_is_told(tmp_path: Path) -> None:
    hanging = run_child([sys.executable, "-c", "import time; time.sleep(600)"], within_s=0.3)
    assert hanging == Ran(None, "no answer within 0.3 s")
    assert run_python("import os; os.abort()", run_child).code == -6
    assert run_child([str(tmp_path / "nothing")]).code is None
    assert run_python("print('x')", run_child) == Ran(0, "x")


GOOD = Check("python", OK, "Python 3.11", "")
OPTIONAL = Check("docker", WARN, "no engine", "start it")
NEEDED = Check("chdb runs", MISSING, "no", "pip install it")


@pytest.mark.parametrize(
    ("checks", "strict", "code"),
    [
        ([GOOD], (), 0),
        ([GOOD], ("--strict",), 0),
        ([GOOD, OPTIONAL], (), 0),
        ([GOOD, OPTIONAL], ("--strict",), 1),
        ([NEEDED], (), 0),
        ([NEEDED], ("--strict",), 1),
    ],
)
def test_it_fails_only_when_asked_to_be_strict(
    checks: list[Check], strict: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = call(monkeypatch, checks, "--json", *strict)
    assert done.exit_code == code
    assert json.loads(done.stdout) == {
        "ok": checks == [GOOD],
        "checks": [{"name": one.name, "status": one.status, "what": one.what, "fix": one.fix} for one in checks],
    }
    assert call(monkeypatch, checks, *strict).exit_code == code


def test_for_people_each_check_is_a_line_and_each_fix_another(monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(monkeypatch, [GOOD, OPTIONAL]).stdout.splitlines() == [
        "ok      python: Python 3.11",
        "warn    docker: no engine",
        "        fix: start it",
        "1 of 2 ok. No browser is needed to audit.",
    ]
