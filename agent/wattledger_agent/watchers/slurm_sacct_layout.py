"""Physical lines of a `sacct -P` dump as records: which columns it has, and names with newlines put together."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wattledger_agent.watchers.slurm_state import state_word

RECOMMENDED = (
    "jobidraw", "jobid", "cluster", "account", "user", "uid", "partition", "qos", "wckey", "submit", "eligible",
    "start", "end", "elapsedraw", "suspended", "state", "exitcode", "restarts", "nnodes", "nodelist", "reqtres",
    "alloctres", "dbindex", "sluid", "originalsluid", "flags", "jobname",
)  # fmt: skip
"""The columns of the export that infra/slurm/README.md recommends; JobName is the last, for it may hold anything."""
NEWER = frozenset({"restarts", "sluid", "originalsluid"})
"""Columns that older releases lack."""
FREE_TEXT = frozenset({
    "jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir", "extra", "container", "stdin",
    "stdout", "stderr", "constraints", "derivedexitstr",
})  # fmt: skip
_KNOWN = FREE_TEXT.union(RECOMMENDED, {
    "elapsed", "elapsedraw", "timelimit", "timelimitraw", "reqgres", "allocgres", "gresused", "group", "gid",
    "ncpus", "alloccpus", "reqcpus", "reqmem", "priority", "reason", "reservation", "derivedexitcode",
    "oversubscribe", "exclusive", "allocnodes", "planned", "reqnodes", "cputime", "maxrss", "totalcpu", "usercpu",
    "systemcpu",
})  # fmt: skip
MOST_JOINED_LINES = 500
_DELIMITERS = ("|", "\x1f", "\x1e", "\t", "^", "~", "@", ";", ",")
_HEADER_NAME = re.compile(r"[A-Za-z]\w*(?:%-?\d+)?")
_JOB_ID = re.compile(r"\d+(?:_(?:\d+|\[[^\]]*\]?(?:\.\.\.)?))?(?:\+\d+)?(?:\.[\w+.\-]+)?")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|\d{9,11}|Unknown|None|N/A|#+|")


@dataclass(frozen=True, slots=True)
class Layout:
    """`fields` are column names in lower case; `trailing`: a delimiter ends each record (`sacct -p`)."""

    delimiter: str
    fields: tuple[str, ...]
    trailing: bool = False

    def cells(self, text: str) -> list[str] | None:
        """The cells of a whole record; None when there are too few or they can't be of these columns.

        Delimiters too many belong to the only column of free text, the last one first."""
        parts = text.split(self.delimiter)
        if self.trailing and parts[-1] == "":
            parts.pop()
        width = len(self.fields)
        if len(parts) < width:
            return None
        surplus = len(parts) - width
        takers = [at for at, name in enumerate(self.fields) if name in FREE_TEXT] if surplus else [0]
        for at in reversed(takers):
            middle = self.delimiter.join(parts[at : at + surplus + 1])
            cells = [*parts[:at], middle, *parts[at + surplus + 1 :]]
            if self._fits(cells):
                return cells
        return None

    def begins(self, text: str) -> bool:
        """Whether a line can be the beginning of a record that goes on in the next: what is there fits."""
        parts = text.split(self.delimiter)[:-1]
        named = {name for name, part in zip(self.fields, parts, strict=False) if part}
        return bool(named & {"jobid", "jobidraw", "state"}) and self._fits(parts)

    def _fits(self, cells: Sequence[str]) -> bool:
        for name, cell in zip(self.fields, cells, strict=False):
            if name in ("jobid", "jobidraw"):
                if _JOB_ID.fullmatch(cell) is None:
                    return False
            elif name == "state":
                if not state_word(cell):
                    return False
            elif name in ("start", "end") and _STAMP.fullmatch(cell) is None:
                return False
        return True


def find_layout(lines: Sequence[str], fields: Sequence[str] = RECOMMENDED) -> tuple[Layout, int] | None:
    """The layout and the index of the header (-1: none). Without a header: `fields`, or those without the columns
    that older releases lack, whichever the first records prove. None: nothing proves any."""
    for at, line in enumerate(lines[:20]):
        layout = _of_header(line)
        if layout is not None:
            return layout, at
    names = tuple(name.lower() for name in fields)
    older = tuple(name for name in names if name not in NEWER)
    for line in lines[:50]:
        for delimiter in _DELIMITERS:
            if line.count(delimiter) + 1 < len(older):
                continue
            for candidate in (names, older):
                for trailing in (False, True):
                    layout = Layout(delimiter, candidate, trailing)
                    if trailing == line.endswith(delimiter) and layout.cells(line) is not None:
                        return layout, -1
    return None


def records(lines: Sequence[str], layout: Layout, header: int) -> Iterator[tuple[int, list[str] | None]]:
    """Line number (from 1) and cells of each record; None for one that never got whole.

    After a whole record, lines that begin none are more of the free text at its end. A last line that was cut is
    left to the caller: it shows as a record that never got whole."""
    pending: list[str] = []
    first = 0
    for number, line in enumerate(lines, 1):
        if number - 1 == header or not (line.strip() or pending):
            continue
        cells = layout.cells(line)
        if cells is not None:
            if pending:
                yield first, None
            pending = []
            yield number, cells
        elif not pending:
            if layout.begins(line):
                pending, first = [line], number
        else:
            pending.append(line)
            joined = layout.cells("\n".join(pending))
            if joined is not None or len(pending) > MOST_JOINED_LINES:
                yield first, joined
                pending = []
    if pending:
        yield first, None


def _of_header(line: str) -> Layout | None:
    text = line.strip(" \r\n").lstrip("\ufeff# ")
    found = list(_HEADER_NAME.finditer(text))
    known = [match for match in found if match.group().partition("%")[0].lower() in _KNOWN]
    if len(known) < 3 or found[0] is not known[0]:
        return None
    delimiter = text[known[0].end() : found[1].start()]
    if not delimiter.strip(" "):
        return None
    names = [name.strip().partition("%")[0].lower() for name in text.split(delimiter)]
    trailing = names[-1] == ""
    names = names[:-1] if trailing else names
    if not {"jobid", "jobidraw"} & set(names):
        return None
    return Layout(delimiter, tuple(names), trailing)
