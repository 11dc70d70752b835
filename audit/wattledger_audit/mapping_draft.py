"""A header line for a table that nothing takes, with which it would be read as usage or as billing."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wattledger_audit.column_guess import SAME, Guess, guess_columns, known_cells
from wattledger_audit.intake.billing_columns import CANONICAL, find_billing_columns, is_billing_header
from wattledger_audit.intake.record import BILLING, USAGE
from wattledger_audit.intake.usage_columns import belongs_to_others, is_usage_header

_HEADER_ROWS = 20
_DELIMITERS = (",", ";", "\t", "|")
Needed = tuple[str, tuple[tuple[str, ...], ...]]
_NEEDED: dict[str, tuple[Needed, ...]] = {
    USAGE: (
        ("job_id", (("job",),)),
        ("start", (("start",),)),
        ("end (or duration_s)", (("end",), ("duration",))),
        ("tenant (or project, user, node)", (("tenant",), ("project",), ("user",), ("node",))),
    ),
    BILLING: (
        ("tenant", (("tenant",), ("tenant_id",), ("project",))),
        ("period_start and period_end (or month)", (("start", "end"), ("period",), ("day",))),
        ("amount", (("amount",), ("gross",))),
    ),
}
CANONICAL_USAGE = (
    "job_id", "attempt", "tenant", "project", "node", "device", "gpu_model", "gpus", "share_num", "share_den", "start",
    "end", "state", "tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MappingDraft:
    """What the table would be read as under `header_line`; `missing` are columns that it needs and nothing looks like.

    `guesses` are the columns that were recognised, as (header, canonical name, percent alike)."""

    role: str
    guesses: tuple[tuple[str, str, int], ...]
    missing: tuple[str, ...]
    header_line: str
    would_be_read: bool


@dataclass(frozen=True, slots=True)
class HeaderGuess:
    """The row of a file that is likely its header (`line` from 1 among rows that aren't empty), what separates it, and
    some of the rows below it."""

    line: int
    cells: tuple[str, ...]
    delimiter: str
    below: tuple[tuple[str, ...], ...] = ()


def guess_header(rows: Sequence[Sequence[str]], head: str) -> HeaderGuess | None:
    """The likely header among a file's first rows: most known names, else most words. None where there is no table."""
    ranked = [
        (known_cells(cells), _words(cells), -place)
        for place, cells in enumerate(rows[:_HEADER_ROWS])
        if sum(map(bool, cells)) > 1
    ]
    if not ranked:
        return None
    place = -max(ranked)[2]
    cells = tuple(rows[place])
    below = tuple(tuple(row) for row in rows[place + 1 : place + 1 + _HEADER_ROWS])
    return HeaderGuess(place + 1, cells, _delimiter(cells, head), below)


def draft_mappings(header: HeaderGuess) -> list[MappingDraft]:
    """Drafts for usage and billing, the likelier first; one that has nothing but a column or two is left out."""
    drafts = [_draft(role, header) for role in (USAGE, BILLING)]
    drafts.sort(key=lambda draft: (len(draft.missing) - len(_NEEDED[draft.role]), -len(draft.guesses)))
    return [draft for draft in drafts if len(draft.missing) < len(_NEEDED[draft.role]) and len(draft.guesses) > 1]


def canonical_header(role: str) -> str:
    """The header line of WattLedger's own table of a role."""
    return ",".join(CANONICAL_USAGE if role == USAGE else CANONICAL)


def _draft(role: str, header: HeaderGuess) -> MappingDraft:
    guesses = guess_columns(role, header.cells, header.below)
    known = {guess.meaning for guess in guesses if guess is not None}
    missing = tuple(
        words
        for words, choices in _NEEDED[role]
        if not any(all(meaning in known for meaning in choice) for choice in choices)
    )
    cells = [_renamed(role, cell, guess) for cell, guess in zip(header.cells, guesses, strict=True)]
    reads = not missing and _is_read(role)(cells)
    told = tuple((guess.header, guess.canonical, guess.percent) for guess in guesses if guess is not None)
    return MappingDraft(role, told, missing, _line(cells, header.delimiter), reads)


def _renamed(role: str, cell: str, guess: Guess | None) -> str:
    """The canonical name; a header that is known as it stands is kept, one that would mislead gets a mark."""
    if guess is not None:
        return cell if guess.percent == SAME and role == BILLING else guess.canonical
    return f"x {cell}" if cell and role == USAGE and belongs_to_others([cell]) else cell


def _is_read(role: str) -> Callable[[Sequence[str]], bool]:
    if role == USAGE:
        return lambda cells: is_usage_header(cells) and not belongs_to_others(cells)
    return lambda cells: is_billing_header(cells) and find_billing_columns(cells).has("tenant")


def _words(cells: Sequence[str]) -> int:
    """Cells that are words rather than figures."""
    return sum(any(letter.isalpha() for letter in cell[:2]) for cell in cells)


def _delimiter(cells: Sequence[str], head: str) -> str:
    for line in head.splitlines()[: _HEADER_ROWS * 3]:
        for delimiter in _DELIMITERS:
            if [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])] == list(cells):
                return delimiter
    return ","


def _line(cells: Sequence[str], delimiter: str) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="").writerow(cells)
    return text.getvalue()
