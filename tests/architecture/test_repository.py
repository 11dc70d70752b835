"""What the repository and the wheel hold: everything that a package needs, and nothing of one machine."""

import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

from tests.architecture import rules
from tests.architecture.layout import PACKAGES, ROOT

IN_PACKAGES = {".sql", ".avsc", ".yaml", ".yml", ".json", ".py"}
BUILD_WITHIN_S = 120


def versioned() -> list[Path]:
    """What git tracks, and what it would be asked to track next."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [path for path in (ROOT / name for name in listed.split("\0") if name) if path.is_file()]


def test_nothing_versioned_names_a_machine_or_a_registry() -> None:
    files = versioned()
    assert ROOT / "pyproject.toml" in files
    found = {str(path.relative_to(ROOT)): rules.places(path.read_text(errors="replace")) for path in files}
    assert {name: places for name, places in found.items() if places} == {}


def test_every_source_root_is_packaged() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    lying = {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/wattledger_*/__init__.py")}
    assert set(listed) == lying == {str(folder.relative_to(ROOT)) for folder in PACKAGES.values()}


def test_every_module_and_data_file_of_the_packages_is_in_the_wheel(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=BUILD_WITHIN_S)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    wanted = {
        f"{package}/{path.relative_to(folder)}"
        for package, folder in PACKAGES.items()
        for path in folder.rglob("*")
        if path.suffix in IN_PACKAGES
    }
    assert {Path(name).suffix for name in wanted} >= {".sql", ".avsc", ".yaml", ".py"}
    assert wanted - inside == set()
    assert any(name.endswith("licenses/LICENSE") for name in inside)
