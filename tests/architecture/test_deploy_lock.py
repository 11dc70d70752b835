"""The agent's own lock: what its extras need and nothing else, in the versions and hashes that the tests ran with."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.layout import ROOT

AGENT = ROOT / "infra" / "packages" / "requirements-agent.lock"
WHOLE = ROOT / "requirements.lock"
EXTRAS = ("nvidia", "amd", "kubernetes", "encryption")
HEAVY = {"chdb", "clickhouse-connect", "faust-streaming", "pandas", "pyarrow", "psutil", "openpyxl", "jinja2", "pytest"}
_BLOCK = re.compile(
    r"^([a-z0-9._-]+)(?:\[\S+\])?==(\S+)(?: ; ([^\\\n]+))? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)",
    re.MULTILINE,
)


def pins(lock: Path) -> set[tuple[str, str, frozenset[str]]]:
    """Name, version and hashes of what this machine would install."""
    text = lock.read_text()
    blocks = _BLOCK.findall(text)
    assert len(blocks) == len(re.findall(r"^\S+==", text, re.MULTILINE)), f"{lock} has pins without a hash"
    return {
        (name, version, frozenset(re.findall(r"sha256:(\w+)", hashes)))
        for name, version, marker, hashes in blocks
        if not marker or Marker(marker).evaluate()
    }


def needed(requirement: Requirement, seen: set[tuple[str, str]]) -> None:
    """Walks what is installed: the requirement and all below it on this machine."""
    name = canonicalize_name(requirement.name)
    for extra in ("", *sorted(requirement.extras)):
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for text in requires(name) or []:
            below = Requirement(text)
            if below.marker is None or below.marker.evaluate({"extra": extra}):
                needed(below, seen)


def test_the_agents_pins_are_the_projects_own() -> None:
    agent = pins(AGENT)
    assert {(name, version) for name, version, _ in agent - pins(WHOLE)} == set()
    assert HEAVY & {name for name, _, _ in agent} == set()


def test_the_agents_lock_is_what_its_extras_need_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    roots = [*project["dependencies"], *(text for extra in EXTRAS for text in project["optional-dependencies"][extra])]
    seen: set[tuple[str, str]] = set()
    for text in roots:
        needed(Requirement(text), seen)
    assert {name for name, _ in seen} == {name for name, _, _ in pins(AGENT)}
