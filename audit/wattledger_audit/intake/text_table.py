"""Delimited text: which delimiter by proof, where the header is, rows with the line on which they start."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.row import Row, Table
from wattledger_audit.intake.source import HEAD_BYTES, Source, text_lines

DELIMITERS = (",", ";", "\t", "|")
HEADER_ROWS = 60
CELL_CHARACTERS = 16 << 20
_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "|"}
_SEP = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
_WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}


class _Proof(NamedTuple):
    """How well a delimiter fits the head: share of rows as wide as the header in ppm, and that width."""

    fit_ppm: int
    width: int
    delimiter: str


class _Lines:
    """Lines for csv.reader, counted; `last` is the one given last."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.count = 0
        self.last = ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.last = next(self._lines) + "\n"
        self.count += 1
        return self.last


def open_delimited(source: Source, asked: str | None, is_header: Callable[[Sequence[str]], bool]) -> Table:
    """The table in a text; `asked` is `--delimiter`. Raises `InputRefused`."""
    delimiter = _asked(source, asked) or _declared(source.head) or _proven(source, is_header)
    rows = delimited_rows(source.name, text_lines(source), delimiter)
    for row in islice(rows, HEADER_ROWS):
        if is_header(row.cells):
            headers = row.cells
            while headers and not headers[-1]:
                headers.pop()
            return Table(headers, row.line, rows, f"delimiter {_NAMES.get(delimiter, delimiter)}")
    raise InputRefused(
        f"{source.name}: none of its first {HEADER_ROWS} rows, split at {_NAMES.get(delimiter, delimiter)!r}, is the "
        "header that is looked for: check the column names, or say --delimiter"
    )


def text_head(source: Source, limit: int) -> list[list[str]]:
    """The first rows of a text, split at what splits most rows alike."""
    lines = _head_lines(source)
    declared = _declared(source.head)
    best: list[list[str]] = []
    best_proof = _Proof(-1, 0, "")
    for delimiter in (declared,) if declared else DELIMITERS:
        rows = [row.cells for row in islice(_lenient_rows(source.name, lines, delimiter), limit)]
        widths = Counter(len(row) for row in rows)
        width, count = max(widths.items(), key=lambda item: (item[0] > 1, item[1], item[0]), default=(0, 0))
        proof = _Proof(count * 1_000_000 // len(rows) if width > 1 else 0, width, delimiter)
        if proof[:2] > best_proof[:2]:
            best, best_proof = rows, proof
    return best


def delimited_rows(name: str, lines: Iterable[str], delimiter: str) -> Iterator[Row]:
    """Rows that aren't wholly empty, quoting obeyed. Raises `InputRefused` for a quote that is never closed."""
    csv.field_size_limit(CELL_CHARACTERS)
    feed = _Lines(lines)
    reader = csv.reader(feed, delimiter=delimiter, strict=True)
    while True:
        line = feed.count + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if feed.count != line:
                raise _unclosed(name, line, feed.count) from error
            if "field larger" in str(error):
                raise _huge(name, line) from error
            cells = _odd_quotes(name, line, feed.last, delimiter)
        cells = [cell.strip() for cell in cells]
        if line == 1 and len(cells) <= 2 and _SEP.fullmatch(feed.last.strip()):
            continue
        if any(cells):
            yield Row(line, cells)


def _odd_quotes(name: str, line: int, text: str, delimiter: str) -> list[str]:
    """A line such as `"a" b,c`, which no quoting rule covers: read leniently if its quotes end on the line."""
    reader = csv.reader((text, "\n"), delimiter=delimiter)
    try:
        cells = next(reader)
    except csv.Error as error:
        raise InputRefused(
            f"{name}, line {line}: {text[:60]!r} can't be split into cells ({error}): mend its quotes, or export again"
        ) from error
    if reader.line_num > 1:
        raise _unclosed(name, line, line)
    return cells


def _huge(name: str, line: int) -> InputRefused:
    return InputRefused(
        f"{name}, line {line}: a cell has more than {CELL_CHARACTERS:,} characters, which no cell of a table has: "
        "shorten it, or export the file again"
    )


def _unclosed(name: str, line: int, last: int) -> InputRefused:
    return InputRefused(
        f'{name}, line {line}: a quote (") opens a cell here and is not closed rightly by line {last}: '
        'close it, or write a quote inside a cell twice ("")'
    )


def _asked(source: Source, asked: str | None) -> str | None:
    if asked is None:
        return None
    delimiter = _WORDS.get(asked.lower(), asked)
    if len(delimiter) != 1 or delimiter in '"\r\n' or delimiter.isalnum():
        raise InputRefused(f"{source.name}: --delimiter {asked!r} is no delimiter: use one of , ; | or tab")
    return delimiter


def _declared(head: str) -> str | None:
    """What a first line `sep=;` says."""
    found = _SEP.fullmatch(head.split("\n", 1)[0].strip(" \r\ufeff"))
    return found.group(1) if found else None


def _proven(source: Source, is_header: Callable[[Sequence[str]], bool]) -> str:
    """The delimiter under which a header is found and most rows below it are as wide as it is."""
    lines = _head_lines(source)
    proofs = []
    for place, delimiter in enumerate(DELIMITERS):
        rows = [row.cells for row in _lenient_rows(source.name, lines, delimiter)]
        at = next((index for index, cells in enumerate(rows[:HEADER_ROWS]) if is_header(cells)), None)
        if at is None:
            continue
        width, below = len(rows[at]), rows[at + 1 :]
        fit_ppm = sum(len(cells) == width for cells in below) * 1_000_000 // len(below) if below else 1_000_000
        proofs.append((fit_ppm, width, -place, delimiter))
    if not proofs:
        raise InputRefused(
            f"{source.name}: none of its first {HEADER_ROWS} rows is the header that is looked for, whether split at "
            "comma, semicolon, tab or |: check the column names, or say --delimiter"
        )
    return max(proofs)[3]


def _head_lines(source: Source) -> list[str]:
    """Whole lines of the head: the last is left out where the head may have cut it."""
    lines = source.head.split("\n")
    cut = len(lines) > 1 and len(source.head) >= HEAD_BYTES // 4 - 4
    return lines[:-1] if cut else lines


def _lenient_rows(name: str, lines: list[str], delimiter: str) -> Iterator[Row]:
    """Rows up to the first trouble: a trial of a delimiter, never a verdict."""
    try:
        yield from delimited_rows(name, lines, delimiter)
    except InputRefused:
        return
