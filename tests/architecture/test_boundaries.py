"""Rules of the house on the packages' modules: what the core, the agent and the rest may do."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture import rules
from tests.architecture.layout import PACKAGES, every_module, imported, modules, short_name

FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc", "manager"}
MAX_LINES = 400
PROCESSES = "wattledger_audit/processes.py"
CLOCKS = {"wattledger_agent/clock.py", "wattledger_streams/clock.py"}


@pytest.mark.parametrize("path", modules("wattledger_core"), ids=short_name)
def test_the_core_imports_the_standard_library_numpy_and_itself_and_reaches_nothing_outside(path: Path) -> None:
    assert rules.impure(path.read_text()) == set()


@pytest.mark.parametrize("path", modules("wattledger_core"), ids=short_name)
def test_the_core_has_no_float_and_no_true_division(path: Path) -> None:
    assert rules.inexact(path.read_text()) == []


@pytest.mark.parametrize("path", modules("wattledger_agent"), ids=short_name)
def test_the_agent_sets_nothing_and_starts_nothing(path: Path) -> None:
    source = path.read_text()
    assert (rules.setters(source), rules.process_starts(source)) == ([], set())


@pytest.mark.parametrize("path", every_module(), ids=short_name)
def test_files_are_short_and_named_by_what_they_own(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) < MAX_LINES
    parts = Path(short_name(path)).with_suffix("").parts
    assert not FORBIDDEN_NAMES & {word for part in parts for word in (part, *part.split("_"))}
    if source.strip():
        assert ast.get_docstring(ast.parse(source)), "a module says what it owns"


def test_only_processes_py_starts_processes_and_reads_the_environment() -> None:
    starting = {short_name(path) for path in every_module() if rules.process_starts(path.read_text())}
    reading = {short_name(path) for path in every_module() if rules.environment_reads(path.read_text())}
    assert (starting, reading) == ({PROCESSES}, {PROCESSES})


def test_only_the_clocks_ask_what_time_it_is() -> None:
    assert {short_name(path) for path in every_module() if rules.clock_reads(path.read_text())} <= CLOCKS


def test_wire_and_core_meet_in_mapping_only() -> None:
    for path in every_module():
        defined = re.findall(r"^\s*def ((?:from|to)_wire_\w+)", path.read_text(), re.MULTILINE)
        assert not defined or short_name(path).startswith("wattledger_streams/mapping"), (path, defined)


def test_packages_import_one_another_by_their_full_names() -> None:
    roots = {folder.parent.name for folder in PACKAGES.values()}
    assert {short_name(path) for path in every_module() if imported(path.read_text()) & roots} == set()
