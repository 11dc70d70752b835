"""Lines of `sacctmgr -P show event` put together to rows: Reason is free text, with delimiters and newlines in it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.sacct_layout import Layout

MOST_JOINED_LINES = 200


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event: its first physical line and its cells under their column names."""

    line: int
    fields: tuple[str, ...]
    cells: tuple[str, ...]

    def get(self, *names: str) -> str:
        """The cell of the first of the names that the dump has; blank for none."""
        for name in names:
            if name in self.fields:
                return self.cells[self.fields.index(name)].strip()
        return ""


def event_rows(
    lines: Iterable[str], layout: Layout, header_line: int, source_name: str, rejections: Rejections
) -> Iterator[EventRow]:
    """The rows in file order. What is no row, or has too few or too many cells, goes to the rejections."""
    header = ""
    pending: list[str] = []
    first = 0
    for line, text in enumerate(lines, 1):
        if line == header_line:
            header = text
            continue
        whole = len(layout.split(text)) == layout.pieces
        if pending and whole:
            _reject_broken(source_name, first, pending, rejections)
            pending = []
        if not pending:
            first = line
            reason = _no_row(text, header)
            if reason:
                rejections.add(source_name, line, "", text, reason)
                continue
        pending.append(text)
        if len(layout.split("\n".join(pending))) >= layout.pieces:
            yield from _row(source_name, first, "\n".join(pending), layout, rejections)
            pending = []
        elif len(pending) > MOST_JOINED_LINES:
            _reject_broken(source_name, first, pending, rejections)
            pending = []
    if pending:
        _reject_broken(source_name, first, pending, rejections)


def _no_row(text: str, header: str) -> str:
    if not text.strip():
        return "blank_line: nothing on it"
    if text.startswith("#"):
        return "comment: starts with #"
    if header and text == header:
        return "repeated_header: the header once more"
    if text.startswith("sacctmgr: "):
        return "sacctmgr_message: sacctmgr's own words, not an event; did the export end early?"
    return ""


def _row(name: str, line: int, text: str, layout: Layout, rejections: Rejections) -> Iterator[EventRow]:
    parts = layout.split(text)
    if layout.trailing and parts[-1] == "":
        parts.pop()
    surplus = len(parts) - layout.width
    if surplus > 0 and "reason" in layout.fields:
        at = layout.fields.index("reason")
        parts[at : at + surplus + 1] = [layout.delimiter.join(parts[at : at + surplus + 1])]
    if len(parts) == layout.width:
        yield EventRow(line, layout.fields, tuple(parts))
        return
    reason = f"extra_delimiters: {len(parts)} cells where {layout.width} columns are; export with another --delimiter"
    rejections.add(name, line, "", text, reason)


def _reject_broken(name: str, line: int, pending: list[str], rejections: Rejections) -> None:
    rejections.add(name, line, "", "\n".join(pending), "broken_record: too few cells; was the export cut?")
