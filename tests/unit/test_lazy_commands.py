"""Commands are imported when called: one whose parts are missing says what to install and stops no other."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
import typer
from typer.testing import CliRunner
from wattledger_audit.__main__ import Commands, app
from wattledger_audit.lazy_commands import LazyCommands


def build(places: Mapping[str, str]) -> typer.Typer:
    named = places

    class Group(LazyCommands):
        places: ClassVar[Mapping[str, str]] = named
        extras: ClassVar[Mapping[str, str]] = {"broken": "embedded"}

    made = typer.Typer(cls=Group)
    made.callback()(lambda: None)
    return made


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    (tmp_path / "command_that_lacks.py").write_text("import no_such_library_anywhere\n\ndef run() -> None: ...\n")
    (tmp_path / "command_that_works.py").write_text("def run() -> None:\n    print('worked')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return build({"broken": "command_that_lacks:run", "fine": "command_that_works:run"})


def test_a_command_without_its_parts_says_what_to_install(group: typer.Typer) -> None:
    done = CliRunner().invoke(group, ["broken", "some.file", "--flag"])
    assert done.exit_code == 1
    assert "no_such_library_anywhere" in done.output
    assert "wattledger[embedded]" in done.output


def test_the_others_work_and_are_listed_beside_it(group: typer.Typer) -> None:
    assert CliRunner().invoke(group, ["fine"]).output == "worked\n"
    listed = CliRunner().invoke(group, ["--help"]).output
    assert "fine" in listed
    assert "Not installed" in listed


@pytest.mark.parametrize("name", list(Commands.places))
def test_every_command_is_where_it_is_said_to_be(name: str) -> None:
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0, done.output
    assert "Usage" in done.output
