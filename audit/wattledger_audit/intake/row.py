"""Rows and cells, whatever the file: text as written, or `Exact` where a typed sheet gave the value."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Exact(str):
    """A cell that a typed sheet gave: a canonical number such as `1234.5`, or an ISO date or date-time.

    It is taken as it is and proves nothing about how the file writes numbers or dates as text.
    """

    __slots__ = ()


class Row(NamedTuple):
    """`line` is the first physical line in the file, from 1; a sheet's row; a Parquet file's row."""

    line: int
    cells: list[str]


@dataclass(slots=True)
class Table:
    """A table under its header. `rows` streams and can be read once. `header_line` is 0 where the format has none.

    `how` says in words what was decided (delimiter, sheet).
    """

    headers: list[str]
    header_line: int
    rows: Iterator[Row]
    how: str = ""
