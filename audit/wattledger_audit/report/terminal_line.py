"""Lines for a terminal: made safe, cut, wrapped and packed by the columns that they take. Knows no report."""

import re
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

WIDTH = 100
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]+")


def clean(text: str) -> str:
    """The text without what would move the cursor, colour the terminal or turn the reading order."""
    return _UNSAFE.sub(" ", text)


def cut(text: str, width: int = WIDTH) -> str:
    """At most `width` columns, the end replaced by `…` where it is longer."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def padded(text: str, width: int, right: bool = False) -> str:
    """Exactly `width` columns."""
    shown = cut(text, width)
    blanks = " " * (width - cell_len(shown))
    return blanks + shown if right else shown + blanks


def packed(prefix: str, items: Sequence[str], width: int) -> list[str]:
    """Items side by side, as many a line as fit; the lines after the first are indented under the prefix's end."""
    lines, line = [], prefix
    for item in items:
        if line.strip() and line != prefix and cell_len(line) + 1 + cell_len(item) > width:
            lines.append(line)
            line = " " * cell_len(prefix)
        line += item if line.endswith(" ") or not line else f" {item}"
    return [*lines, line]


def wrapped(prefix: str, text: str, most: int) -> list[str]:
    """Words over at most `most` lines, the last cut where more is left."""
    lines = packed(prefix, text.split(), WIDTH)
    if len(lines) > most:
        lines = [*lines[: most - 1], " ".join([lines[most - 1], *(line.strip() for line in lines[most:])])]
    return [cut(line) for line in lines]
