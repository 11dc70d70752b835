"""Physical lines of a sacct dump put together to records: comments out, broken lines joined by their field count."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.sacct_fields import FIELDS, FREE_TEXT, PROOFS, misfit, starts_record
from wattledger_audit.intake.sacct_layout import QUOTABLE, Layout, layout_of_header

MOST_JOINED_LINES = 2_000
"""A record of more lines than this is taken for damage: the columns of one person's script are not that long."""


class SacctRecord(NamedTuple):
    """One record: its first physical line, its cells (exactly the layout's width) and its text."""

    line: int
    cells: list[str]
    text: str


class SacctRecords:
    """Iterates over records. `layout` is of the record given last: a second header in the file may change it."""

    def __init__(
        self, lines: Iterable[str], layout: Layout, header_line: int, source_name: str, rejections: Rejections
    ) -> None:
        self.layout = layout
        self._header_line = header_line
        self._lines = enumerate(lines, 1)
        self._name = source_name
        self._rejections = rejections
        self._pending: list[str] = []
        self._pending_line = 0
        self._after_record = False

    def __iter__(self) -> Iterator[SacctRecord]:
        layout = self.layout
        pieces, key, width, delimiter = layout.pieces, layout.id_column, layout.width, layout.delimiter
        quotable = delimiter in QUOTABLE
        for line, text in self._lines:
            parts = layout.split(text) if quotable else text.split(delimiter)
            if len(parts) == pieces and not self._pending and parts[key][:1].isdigit() and not text.startswith("#"):
                del parts[width:]
                self._after_record = True
                yield SacctRecord(line, parts, text)
                continue
            yield from self._unusual(line, text, parts)
            if layout is not self.layout:
                layout = self.layout
                pieces, key, width, delimiter = layout.pieces, layout.id_column, layout.width, layout.delimiter
                quotable = delimiter in QUOTABLE
        yield from self._give_up()

    def _unusual(self, line: int, text: str, parts: list[str]) -> Iterator[SacctRecord]:
        """A line that is no whole record by itself, or one that comes while a broken one is being put together."""
        if self._pending and not text.startswith("#") and (cells := self._proven(parts)) is not None:
            yield from self._give_up()
            self._after_record = True
            yield SacctRecord(line, cells, text)
            return
        if not self._pending and self._is_no_record(line, text):
            return
        if not self._pending and len(parts) < self.layout.pieces and self._continues_last(parts):
            return
        if not self._pending:
            self._pending_line = line
        self._pending.append(text)
        joined = "\n".join(self._pending)
        if len(self._pending) > MOST_JOINED_LINES:
            yield from self._give_up()
        elif len(self.layout.split(joined)) >= self.layout.pieces:
            yield from self._finish(joined)

    def _is_no_record(self, line: int, text: str) -> bool:
        """Blank lines, comments, messages of sacct and headers, each put into the rejections."""
        if line == self._header_line:
            return True
        if not text.strip():
            reason = "blank_line: nothing on it"
        elif (header := layout_of_header(text)) is not None:
            self.layout = header
            reason = "repeated_header: a second header; the columns after it are read as it says"
        elif text.startswith("#"):
            reason = "comment: starts with #"
        elif text.startswith(("sacct: ", "slurm_load", "slurmdbd: ")):
            reason = "sacct_message: sacct's own words, not a record; did the export end early?"
        else:
            return False
        self._rejections.add(self._name, line, "", text, reason)
        return True

    def _continues_last(self, parts: list[str]) -> bool:
        """A further line of the free text at the end of the record before, which is not used.

        Where another column is free text too, the line may begin a record: then it is pending, never swallowed."""
        layout = self.layout
        others = any(name in FREE_TEXT for name in layout.fields[:-1])
        if layout.trailing or not layout.last_is_free or others or not self._after_record:
            return False
        return not starts_record(layout.fields, parts)

    def _proven(self, parts: list[str]) -> list[str] | None:
        """The cells of a record of enough parts whose columns all fit; what is too many is one free text's."""
        layout = self.layout
        cells = parts[:-1] if layout.trailing and parts[-1] == "" else parts
        if len(parts) < layout.pieces or len(cells) < layout.width:
            return None
        surplus = len(cells) - layout.width
        fits = [made for made in (self._joined(cells, at, surplus) for at in self._takers(surplus)) if self._fit(made)]
        return fits[0] if len(fits) == 1 else None

    def _takers(self, surplus: int) -> list[int]:
        """The columns in which extra delimiters can stand; with a comma that is more than can be told apart."""
        layout = self.layout
        if not surplus:
            return [0]
        if layout.delimiter == ",":
            return [layout.width - 1] if layout.last_is_free and not self._surplus_is_elsewhere() else []
        return [at for at, name in enumerate(layout.fields) if name in FREE_TEXT or name not in FIELDS]

    def _joined(self, cells: list[str], at: int, surplus: int) -> list[str]:
        end = at + surplus + 1
        return [*cells[:at], self.layout.delimiter.join(cells[at:end]), *cells[end:]]

    def _fit(self, cells: list[str]) -> bool:
        layout = self.layout
        return cells[layout.id_column][:1].isdigit() and misfit(layout.fields, cells) is None

    def _finish(self, text: str) -> Iterator[SacctRecord]:
        """A record that has been put together, or why it is none."""
        line, layout = self._pending_line, self.layout
        self._pending = []
        parts = layout.split(text)
        whole = parts[: layout.width] if len(parts) == layout.pieces else None
        cells = self._proven(parts) or whole
        if cells is None:
            reason = (
                f"extra_delimiters: {len(parts)} cells where {layout.width} columns are; "
                "export again with JobName last, or with a --delimiter that no text has"
            )
            self._rejections.add(self._name, line, "", text, reason)
        elif cells[layout.id_column][:1].isdigit():
            self._after_record = True
            yield SacctRecord(line, cells, text)
        else:
            column = layout.fields[layout.id_column]
            reason = "not_a_job_id: the record has no job id where its layout says; export again with JobName last"
            self._rejections.add(self._name, line, column, cells[layout.id_column] or text, reason)

    def _surplus_is_elsewhere(self) -> bool:
        """Whether another free text could have the extra delimiters, with no column behind it to show the shift."""
        fields = self.layout.fields
        for at, name in enumerate(fields[:-1]):
            if name in FREE_TEXT and not any(later in PROOFS for later in fields[at + 1 : -1]):
                return True
        return False

    def _give_up(self) -> Iterator[SacctRecord]:
        """The record never got whole: a last one without its closing delimiter counts, others are rejected."""
        if not self._pending:
            return
        text, line = "\n".join(self._pending), self._pending_line
        parts = self.layout.split(text)
        self._pending = []
        if self.layout.trailing and (cells := self._proven([*parts, ""])) is not None:
            yield SacctRecord(line, cells, text)
            return
        reason = f"broken_record: {len(parts)} of {self.layout.width} cells; was the export cut?"
        self._rejections.add(self._name, line, "", text, reason)
