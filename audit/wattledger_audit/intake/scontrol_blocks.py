"""`scontrol show` output as blocks of `Key=Value`: one a paragraph, or one a line with `-o`. Values may hold blanks."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_PAIR = re.compile(r"(?:^|\s)([A-Z][A-Za-z0-9_]*(?:/[A-Za-z]+)?)=")


class Block(NamedTuple):
    """One object: its first physical line, and its values by key in lower case."""

    line: int
    values: dict[str, str]


def blocks(lines: Iterable[str], key: str) -> Iterator[Block]:
    """The objects whose first pair is `key` (`NodeName`), in file order; lines before the first are left out."""
    opening = f"{key}="
    first, parts = 0, list[str]()
    for line, text in enumerate(lines, 1):
        if text.startswith(opening):
            if parts:
                yield Block(first, _pairs(" ".join(parts)))
            first, parts = line, [text]
        elif parts:
            parts.append(text.strip())
    if parts:
        yield Block(first, _pairs(" ".join(parts)))


def _pairs(text: str) -> dict[str, str]:
    found = list(_PAIR.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    values: dict[str, str] = {}
    for match, end in zip(found, ends, strict=True):
        values.setdefault(match.group(1).lower(), text[match.end() : end].strip())
    return values


def said(block: Block, key: str) -> str:
    """The value of a key, blank where SLURM says that there is none."""
    value = block.values.get(key, "")
    return "" if value in ("(null)", "None", "N/A", "none") else value
