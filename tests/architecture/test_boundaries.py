"""Rules of the house that a machine can check."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "wattledger_agent": ROOT / "agent" / "wattledger_agent",
    "wattledger_audit": ROOT / "audit" / "wattledger_audit",
    "wattledger_core": ROOT / "streams" / "wattledger_core",
    "wattledger_schemas": ROOT / "schemas" / "wattledger_schemas",
    "wattledger_sql": ROOT / "sql" / "wattledger_sql",
    "wattledger_streams": ROOT / "streams" / "wattledger_streams",
}
FORBIDDEN_IN_CORE = {"os", "socket", "subprocess", "asyncio", "threading", "random", "logging", "time"}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc", "manager"}
MAX_LINES = 400
SETTER = re.compile(r"nvmlDeviceSet\w*|amdsmi_set_\w*")
HOSTS = ("py" + "pi.org", "pythonhosted" + ".org", "maven" + ".org", "apache.org/maven", "npmjs" + ".org")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|root)/")


def modules(package: str) -> Iterator[Path]:
    yield from sorted(PACKAGES[package].rglob("*.py"))


def every_module() -> list[Path]:
    return [path for package in PACKAGES for path in modules(package)]


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("path", list(modules("wattledger_core")), ids=lambda path: path.stem)
def test_the_core_imports_the_standard_library_numpy_and_itself(path: Path) -> None:
    allowed = (set(sys.stdlib_module_names) - FORBIDDEN_IN_CORE) | {"numpy", "wattledger_core"}
    assert imported(path) - allowed == set()


@pytest.mark.parametrize("path", list(modules("wattledger_core")), ids=lambda path: path.stem)
def test_the_core_has_no_float_and_no_true_division(path: Path) -> None:
    tree = ast.parse(path.read_text())
    floats = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, float)]
    divisions = [
        n.lineno for n in ast.walk(tree) if isinstance(n, ast.BinOp | ast.AugAssign) and isinstance(n.op, ast.Div)
    ]
    names = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "float"]
    assert (floats, divisions, names) == ([], [], [])


def test_the_agent_sets_nothing_and_starts_nothing() -> None:
    for path in modules("wattledger_agent"):
        assert not SETTER.search(path.read_text()), path
        assert not imported(path) & {"subprocess", "multiprocessing"}, path


@pytest.mark.parametrize("path", every_module(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_files_are_short_and_named_by_what_they_own(path: Path) -> None:
    assert len(path.read_text().splitlines()) < MAX_LINES
    assert path.stem not in FORBIDDEN_NAMES
    if path.stem not in ("__init__",) or path.read_text().strip():
        assert ast.get_docstring(ast.parse(path.read_text())), "a module says what it owns"


def test_only_processes_py_starts_processes() -> None:
    users = {path.name for path in every_module() if "subprocess" in imported(path)}
    assert users == {"processes.py"}


def test_only_the_clocks_ask_what_time_it_is() -> None:
    asking = re.compile(r"time\.time\(|time_ns\(|datetime\.now\(|utcnow\(")
    users = {f"{path.parent.name}/{path.name}" for path in every_module() if asking.search(path.read_text())}
    assert users <= {"wattledger_agent/clock.py", "wattledger_streams/clock.py"}


def test_wire_and_core_meet_in_mapping_only() -> None:
    for path in modules("wattledger_streams"):
        defined = re.findall(r"^def ((?:from|to)_wire_\w+)", path.read_text(), re.MULTILINE)
        assert not defined or path.stem.startswith("mapping"), path


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [ROOT / name for name in listed.split("\0") if name]


def test_nothing_tracked_names_a_machine_or_a_registry() -> None:
    wrong = []
    for path in tracked():
        if path.exists() and path.name != "requirements.lock":
            text = path.read_text(errors="replace")
            if MACHINE_PATHS.search(text) or any(host in text for host in HOSTS):
                wrong.append(str(path.relative_to(ROOT)))
    assert wrong == []


def test_every_data_file_of_the_packages_is_in_the_wheel(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    wanted = {
        f"{package}/{path.relative_to(folder)}"
        for package, folder in PACKAGES.items()
        for path in folder.rglob("*")
        if path.suffix in (".sql", ".avsc", ".yaml", ".json", ".py")
    }
    assert wanted - inside == set()
