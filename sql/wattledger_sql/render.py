"""One set of migrations for one server (or chDB) and for a cluster: fills in the placeholders. Runs nothing."""

import re
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

STATEMENT_LINE = "-- statement"
_FILE_NAME = re.compile(r"(\d{4})_[a-z]+(?:_[a-z0-9]+)+\.sql")
_CLUSTER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDER = re.compile(r"\{[^}]*\}")


class MigrationError(Exception):
    """A migration that can't be read or may not be applied; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What the placeholders become. `{on_cluster}`: where a statement runs; `{replicated}`: the prefix of engines."""

    on_cluster: str = ""
    replicated: str = ""


SINGLE = Layout()
"""chDB, or one server."""


def cluster_layout(cluster: str) -> Layout:
    """One shard with replicas: every statement on every replica, every table replicated at the server's default path.

    Raises `MigrationError` for a name that is not an identifier.
    """
    if not _CLUSTER_NAME.fullmatch(cluster):
        raise MigrationError(f"cluster name {cluster!r} is not an identifier: use the name in system.clusters")
    return Layout(f"ON CLUSTER {cluster}", "Replicated")


@dataclass(frozen=True, slots=True)
class Migration:
    """One released file: its number, name without ending, and text."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the file, hex: what is recorded, so that an edit of a released file is seen."""
        return sha256(self.text.encode()).hexdigest()


def migrations() -> list[Migration]:
    """Every migration of the package, by number. Raises `MigrationError` when the numbers have a gap or a double."""
    found = []
    for entry in files("wattledger_sql").joinpath("migrations").iterdir():
        if not entry.name.endswith(".sql"):
            continue
        match = _FILE_NAME.fullmatch(entry.name)
        if match is None:
            raise MigrationError(f"migration {entry.name}: rename it to NNNN_verb_noun.sql")
        found.append(Migration(int(match[1]), entry.name.removesuffix(".sql"), entry.read_text(encoding="utf-8")))
    found.sort(key=lambda migration: migration.version)
    numbers = [migration.version for migration in found]
    if numbers != list(range(1, len(found) + 1)):
        raise MigrationError(f"migration numbers {numbers} are not 1, 2, 3, ...: renumber the ones not yet released")
    return found


def statements(migration: Migration, layout: Layout) -> list[str]:
    """The migration's statements in order, placeholders filled in, comment lines before the first one left out.

    Raises `MigrationError` for an unknown placeholder or a file without a statement.
    """
    blocks: list[list[str]] = []
    for line in migration.text.splitlines():
        if line.strip() == STATEMENT_LINE:
            blocks.append([])
        elif blocks:
            blocks[-1].append(line)
    if not blocks:
        raise MigrationError(f"migration {migration.name} has no statement: put a line {STATEMENT_LINE!r} before each")
    return [_fill(migration, "\n".join(block).strip(), layout) for block in blocks]


def _fill(migration: Migration, text: str, layout: Layout) -> str:
    filled = text.replace("{on_cluster}", layout.on_cluster).replace("{replicated}", layout.replicated)
    unknown = _PLACEHOLDER.search(filled)
    if unknown:
        raise MigrationError(
            f"migration {migration.name}: unknown placeholder {unknown[0]}: use {{on_cluster}} and {{replicated}}"
        )
    return "\n".join(line.rstrip() for line in filled.splitlines())
