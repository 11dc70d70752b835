"""The schemas in the package: subjects, versions, fixed ids."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

PACKAGE = "wattledger_schemas"


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of one subject and its fixed id."""

    subject: str
    version: int
    schema_id: int
    schema: dict[str, Any]


@cache
def catalogue() -> tuple[Entry, ...]:
    """Every version of every subject, in the catalogue's order."""
    listed: dict[str, dict[int, int]] = yaml.safe_load((files(PACKAGE) / "catalogue.yaml").read_text())
    entries = []
    for subject, versions in listed.items():
        for version, schema_id in versions.items():
            text = (files(PACKAGE) / "avro" / subject / f"v{version}.avsc").read_text()
            entries.append(Entry(subject, version, schema_id, json.loads(text)))
    return tuple(entries)


def newest(subject: str) -> Entry:
    """The newest version of a subject; raises KeyError for an unknown one."""
    found = [entry for entry in catalogue() if entry.subject == subject]
    if not found:
        raise KeyError(f"no schema for subject {subject!r}")
    return max(found, key=lambda entry: entry.version)
