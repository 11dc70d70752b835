"""How a sacct dump is laid out: its delimiter and columns, by its header, by --fields, or by proof from its cells."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from wattledger_audit.intake.sacct_fields import FIELDS, FREE_TEXT, ID_FIELDS, field_name, misfit

QUOTABLE = frozenset({",", ";", "\t"})
"""sacct quotes nothing, but what spreadsheets and data frames wrote again with these may be quoted."""
_MEASURED = """state jobid reqcpus reqmem reqnodes constraints submit eligible start elapsed suspended end exitcode
derivedexitcode allocnodes ncpus maxdiskread maxdiskwrite maxpages maxrss maxvmsize cputime usercpu systemcpu
totalcpu"""
_RECOMMENDED = """jobidraw jobid cluster account user uid partition qos wckey submit eligible start end elapsedraw
suspended state exitcode restarts nnodes nodelist reqtres alloctres dbindex sluid originalsluid flags jobname"""
KNOWN_WITHOUT_HEADER = (
    tuple(_MEASURED.split()),
    (*_MEASURED.split(), "partition"),
    tuple(_RECOMMENDED.split()),
    tuple(field for field in _RECOMMENDED.split() if field not in ("restarts", "sluid", "originalsluid")),
)
_HEADER = re.compile(r"[A-Za-z]\w*")


@dataclass(frozen=True, slots=True)
class Layout:
    """`fields` are column names in lower case. `trailing`: a delimiter ends each record (`sacct -p`)."""

    delimiter: str
    fields: tuple[str, ...]
    trailing: bool
    by_header: bool

    @property
    def width(self) -> int:
        """How many columns a record has."""
        return len(self.fields)

    @property
    def id_column(self) -> int:
        """The column that every record fills: JobID, or else JobIDRaw."""
        return next(self.fields.index(name) for name in ID_FIELDS if name in self.fields)

    @property
    def last_is_free(self) -> bool:
        """The last column is free text, so what is left over belongs to it."""
        return self.fields[-1] in FREE_TEXT

    @property
    def pieces(self) -> int:
        """How many parts the delimiter cuts a whole record into."""
        return len(self.fields) + self.trailing

    def split(self, text: str) -> list[str]:
        """The parts between delimiters: more than `pieces` where one stands inside a cell, fewer where a record is
        broken."""
        if self.delimiter in QUOTABLE and '"' in text:
            return next(csv.reader([text], delimiter=self.delimiter), [])
        return text.split(self.delimiter)


def layout_of_header(
    line: str,
    delimiter: str | None = None,
    vocabulary: frozenset[str] = FIELDS,
    ids: Sequence[str] = ID_FIELDS,
) -> Layout | None:
    """The layout that a header line proves; None when the line is none.

    The delimiter is what stands between the names, whatever it is, the same each time. `vocabulary` are the names
    that a command has, `ids` those of which one must be there."""
    text = line.strip(" \r\n").lstrip("\ufeff#").strip(" ")
    names = [match.group() for match in _HEADER.finditer(text.replace('"', ""))]
    known = [name for name in names if name.lower() in vocabulary]
    if len(known) < 2 or not any(field_name(name) in ids for name in known):
        return None
    between = delimiter or _between(text, known)
    if between is None or between.strip(" ") == "":
        return None
    cells = [cell.strip().strip('"') for cell in text.split(between)]
    trailing = cells[-1] == ""
    fields = tuple(field_name(cell) for cell in (cells[:-1] if trailing else cells))
    strangers = sum(field not in vocabulary for field in fields)
    if len(fields) < 2 or strangers * 3 > len(fields) or not any(name in fields for name in ids):
        return None
    return Layout(between, fields, trailing, by_header=True)


def _between(text: str, known: Sequence[str]) -> str | None:
    """What stands between two neighbouring known names."""
    gaps: Counter[str] = Counter()
    at = text.index(known[0]) + len(known[0])
    for name in known[1:]:
        then = text.find(name, at)
        if then < 0:
            return None
        gap = re.sub(r"^%\d+", "", text[at:then]).replace('"', "")
        gaps[gap] += 1
        at = then + len(name)
    best = min(gaps, key=lambda gap: (-gaps[gap], len(gap)))
    return best if best and not best[0].isalnum() else None


def layout_of_fields(fields: Sequence[str], lines: Sequence[str], delimiter: str | None) -> Layout | None:
    """The layout of a dump without a header whose columns a person names; None: no delimiter gives that many."""
    names = tuple(field_name(field) for field in fields)
    for mark in [delimiter] if delimiter else ["|", "\t", ";", ",", "^", "~", "\x1f", "@"]:
        counts = Counter(line.count(mark) for line in lines)
        plain, ended = counts[len(names) - 1], counts[len(names)]
        ends = sum(line.endswith(mark) for line in lines if line.count(mark) == len(names))
        if plain or ended:
            return Layout(mark, names, trailing=ended > plain and ends == ended, by_header=False)
    return None


def layout_of_cells(lines: Sequence[str], delimiter: str | None) -> Layout | None:
    """A known layout that every whole record among the lines fits, column by column; None: no proof."""
    mark = delimiter or "|"
    for fields in KNOWN_WITHOUT_HEADER:
        layout = layout_of_fields(fields, lines, mark)
        if layout is None:
            continue
        rows = [parts[: layout.width] for parts in map(layout.split, lines) if len(parts) == layout.pieces]
        jobs = [
            row for row in rows if row[layout.id_column] and row[fields.index("state")] and row[fields.index("submit")]
        ]
        if rows and len(rows) * 2 >= len(lines) and jobs and all(misfit(fields, row) is None for row in rows):
            return layout
    return None


def without_comments(lines: Sequence[str]) -> list[str]:
    """The lines that can be records: not blank, no comment, no message of sacct itself."""
    return [line for line in lines if line.strip() and not line.startswith(("#", "sacct: ", "slurm_"))]


def find_layout(lines: Sequence[str], fields: Sequence[str] | None, delimiter: str | None) -> tuple[Layout, int] | None:
    """The layout of a dump's first lines and the index of its header among them (-1: none); None: not found."""
    for at, line in enumerate(lines[:50]):
        layout = layout_of_header(line, delimiter)
        if layout is not None:
            return layout, at
    records = without_comments(lines)
    found = layout_of_fields(fields, records, delimiter) if fields else layout_of_cells(records, delimiter)
    return None if found is None else (found, -1)
