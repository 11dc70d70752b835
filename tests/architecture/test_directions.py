"""core | schemas < sql < streams | agent < audit: import-linter's contracts say exactly that, and hold."""

import os
import subprocess
import sys
from configparser import ConfigParser

import pytest

from tests.architecture.layout import PACKAGES, ROOT

CONTRACTS = ROOT / ".importlinter"
MAY_IMPORT = {
    "wattledger_core": set[str](),
    "wattledger_schemas": set[str](),
    "wattledger_sql": {"wattledger_core", "wattledger_schemas"},
    "wattledger_streams": {"wattledger_core", "wattledger_schemas", "wattledger_sql"},
    "wattledger_agent": {"wattledger_schemas"},
    "wattledger_audit": set(PACKAGES) - {"wattledger_audit"},
}


@pytest.fixture(scope="module")
def config() -> ConfigParser:
    found = ConfigParser()
    assert found.read(CONTRACTS)
    return found


def test_every_package_is_looked_at(config: ConfigParser) -> None:
    assert set(config["importlinter"]["root_packages"].split()) == set(PACKAGES) == set(MAY_IMPORT)


def test_the_contracts_forbid_all_that_is_not_allowed_and_ignore_nothing(config: ConfigParser) -> None:
    forbidden: dict[str, set[str]] = {package: set() for package in PACKAGES}
    for section in config.sections():
        if section.startswith("importlinter:contract:"):
            contract = config[section]
            assert set(contract) == {"name", "type", "source_modules", "forbidden_modules"}, section
            assert contract["type"] == "forbidden"
            for source in contract["source_modules"].split():
                forbidden[source] |= set(contract["forbidden_modules"].split())
    assert forbidden == {package: set(PACKAGES) - {package} - allowed for package, allowed in MAY_IMPORT.items()}


def test_import_linter_finds_no_import_against_the_direction() -> None:
    call = "from importlinter.cli import lint_imports_command as lint; lint()"
    command = [sys.executable, "-c", call, "--config", str(CONTRACTS), "--no-cache"]
    # This tree's packages, not those of another checkout that the environment may have installed.
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(folder.parent) for folder in PACKAGES.values())}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(PACKAGES) - 1} kept, 0 broken" in done.stdout
