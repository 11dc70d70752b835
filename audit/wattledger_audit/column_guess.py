"""Which canonical column a header looks like: by a known name, by the words of one inside it, or by spelling."""

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from typing import NamedTuple

from wattledger_audit.intake import billing_columns, usage_columns
from wattledger_audit.intake.column_names import bare_name
from wattledger_audit.intake.record import BILLING, USAGE

SAME = 100
_LEAST = 72
_SHORTEST = 4
_LONGEST = 80
_WORD_EDGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
Names = Mapping[str, tuple[str, ...]]
_ALSO: Mapping[str, tuple[str, ...]] = {
    "gpus": ("gpu_cards", "cards", "accelerators", "gpu_units"), "job": ("workload_identifier", "allocation_id"),
}  # fmt: skip
"""Names that are only guessed by: they can mean something else."""
_TIMES = frozenset(("start", "end", "submit", "eligible", "period", "day"))
_FIGURES = frozenset(("amount", "gross", "tax", "quantity", "unit_price", "gpus", "tokens", "cpus"))
_DIGITS_OF_A_TIME = 4


class Guess(NamedTuple):
    """A header, the meaning that it looks like, that meaning's canonical name, and how alike they are in percent."""

    header: str
    meaning: str
    canonical: str
    percent: int


class _Known(NamedTuple):
    """A known name of a meaning: without marks, and its words."""

    meaning: str
    bare: str
    words: frozenset[str]


def guess_columns(role: str, headers: Sequence[str], below: Sequence[Sequence[str]]) -> list[Guess | None]:
    """For each header its best meaning in a table of that role, or None. A meaning is given once, and not where the
    cells `below` speak against it (a time without digits)."""
    likely = [
        (-percent, place, meaning)
        for place, header in enumerate(headers)
        for meaning, percent in _percents(role, header).items()
        if percent >= _LEAST and _fits(meaning, [row[place] for row in below if place < len(row) and row[place]])
    ]
    found: list[Guess | None] = [None] * len(headers)
    given: set[str] = set()
    for minus_percent, place, meaning in sorted(likely):
        if found[place] is None and meaning not in given:
            given.add(meaning)
            found[place] = Guess(headers[place], meaning, canonical_name(role, meaning), -minus_percent)
    return found


def known_cells(cells: Sequence[str]) -> int:
    """How many cells of a row are headers by name: quick, so that every row can be asked."""
    return max(
        sum(bool(cell) and len(cell) <= _LONGEST and max(_by_words(role, cell).values(), default=0) >= _LEAST
            for cell in cells)
        for role in (USAGE, BILLING)
    )  # fmt: skip


def canonical_name(role: str, meaning: str) -> str:
    """The name that a meaning has in WattLedger's own table."""
    return "amount" if (role, meaning) == (BILLING, "amount") else _names(role)[meaning][0]


def _fits(meaning: str, cells: Sequence[str]) -> bool:
    least = _DIGITS_OF_A_TIME if meaning in _TIMES else 1 if meaning in _FIGURES else 0
    return not cells or any(sum(letter.isdigit() for letter in cell) >= least for cell in cells)


@cache
def _names(role: str) -> Names:
    if role == USAGE:
        return {meaning: (*names, *_ALSO.get(meaning, ())) for meaning, names in usage_columns.NAMES.items()}
    return {meaning: tuple(names.split()) for meaning, names in billing_columns._NAMES.items()}


@cache
def _known(role: str) -> tuple[_Known, ...]:
    return tuple(
        _Known(meaning, bare_name(name), frozenset(name.split("_")))
        for meaning, names in _names(role).items()
        for name in names
    )


def _percents(role: str, header: str) -> dict[str, int]:
    if not header or len(header) > _LONGEST:
        return {}
    found = _by_words(role, header)
    bare = bare_name(header)
    if SAME in found.values() or len(bare) < _SHORTEST:
        return found
    matcher = SequenceMatcher(None, "", bare, autojunk=False)
    for known in _known(role):
        matcher.set_seq1(known.bare)
        if len(known.bare) < _SHORTEST or matcher.real_quick_ratio() * SAME < _LEAST:
            continue
        percent = int(matcher.ratio() * SAME) - 1
        found[known.meaning] = max(found.get(known.meaning, 0), percent)
    return found


@cache
def _by_words(role: str, header: str) -> dict[str, int]:
    """Percent by meaning: the same name, or all words of a name among the header's; the more of it, the likelier."""
    bare = bare_name(header)
    words = frozenset(word.lower() for word in _WORD_EDGE.split(header) if word)
    found: dict[str, int] = {}
    for known in _known(role):
        percent = 0
        if known.bare == bare:
            percent = SAME
        elif known.words <= words:
            percent = 70 + 29 * len(known.bare) // max(len(bare), 1)
        if percent > found.get(known.meaning, 0):
            found[known.meaning] = percent
    return found
