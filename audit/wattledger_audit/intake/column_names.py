"""Columns found by name: headers in any order, case and spelling, and where each meaning is in a row."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_NOT_NAME = re.compile(r"[^a-z0-9#]+")


class Columns(NamedTuple):
    """`at` gives each meaning's place in a row and `title` its header as written; a missing one has the place
    `width`, where a padded row holds an empty cell."""

    at: Mapping[str, int]
    title: Mapping[str, str]
    width: int

    def has(self, meaning: str) -> bool:
        """Whether the file has a column for it."""
        return self.at[meaning] < self.width


def bare_name(header: str) -> str:
    """A header without case, blanks, marks: `GPU Model`, `gpu_model` and `gpuModel` are one."""
    return _NOT_NAME.sub("", header.lower()).replace("#", "n")


def find_columns(headers: Sequence[str], names: Mapping[str, Sequence[str]]) -> Columns:
    """Where each meaning of `names` is; earlier names of a meaning win over later ones, a header is used once."""
    places: dict[str, int] = {}
    for place, header in enumerate(headers):
        places.setdefault(bare_name(header), place)
    at, title, used = {}, {}, set()
    width = len(headers)
    for meaning, spellings in names.items():
        found = (places[name] for name in map(bare_name, spellings) if name in places and places[name] not in used)
        at[meaning] = place = next(found, width)
        title[meaning] = headers[place] if place < width else meaning
        if place < width:
            used.add(place)
    return Columns(at, title, width)
