"""How a file writes numbers: the decimal mark by proof over all its numbers, or refused. Money never through float."""

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from wattledger_audit.intake.number_text import COMMA, EITHER, NEUTRAL, POINT, NotANumber, take_apart, value_of
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.row import Exact

__all__ = ["NotANumber", "NumberForm", "NumberProof", "is_below_zero", "is_exponent_id"]

_PLAIN = re.compile(r"-?\d{1,30}(\.\d{1,30})?", re.ASCII)
_WHOLE = re.compile(r"-?\d{1,30}", re.ASCII)
_EXPONENT_ID = re.compile(r"\d([.,]\d+)?[eE]\+\d+", re.ASCII)
_SHEET_DIGITS = 15


class _Seen(NamedTuple):
    line: int
    column: str
    text: str


@dataclass(frozen=True, slots=True)
class NumberForm:
    """`decimal` is the file's decimal mark; None: nothing in the file needed it."""

    decimal: str | None

    def parse(self, text: str) -> Decimal:
        """The number, exactly. Currency signs, parentheses or a trailing minus for negatives, groups by `'` or blanks
        are understood. Raises `NotANumber`, whose text is a rejection's reason."""
        if self.decimal == POINT and _PLAIN.fullmatch(text):
            return Decimal(text)
        if isinstance(text, Exact):
            return _exact(text)
        parts = take_apart(text)
        if self.decimal is None and parts.proves == EITHER:
            raise NotANumber(
                "unclear_decimal_mark", f"{text!r} can be one or a thousand: say --decimal . or --decimal ,"
            )
        return value_of(parts, self.decimal or (COMMA if parts.proves == COMMA else POINT))


@dataclass(slots=True)
class NumberProof:
    """Collects what every number of a file proves. What is no number proves nothing: its row is rejected later."""

    _first: dict[str, _Seen] = field(default_factory=dict)

    def add(self, line: int, column: str, text: str) -> None:
        """One cell that is meant to hold a number."""
        if isinstance(text, Exact) or _WHOLE.fullmatch(text):
            return
        if POINT in self._first and text[-4:-3] != POINT and _PLAIN.fullmatch(text):
            return
        try:
            proves = take_apart(text).proves
        except NotANumber:
            return
        if proves != NEUTRAL and proves not in self._first:
            self._first[proves] = _Seen(line, column, text)

    def decide(self, source_name: str, options: ReadOptions) -> NumberForm:
        """The file's form. Raises `InputRefused` where the file proves two, or none though it matters and
        `--decimal` does not say; also where `--decimal` would turn against what the file proves."""
        point, comma, either = (self._first.get(what) for what in (POINT, COMMA, EITHER))
        asked = options.decimal
        if point and comma:
            if asked:
                return NumberForm(asked)
            raise InputRefused(
                f"{source_name}, {_cell(point)} has a decimal point and {_cell(comma)} a decimal comma: make them "
                "alike, or say --decimal . or --decimal , and the rows written otherwise are left out"
            )
        proof = point or comma
        if not proof:
            if either and not asked:
                raise InputRefused(
                    f"{source_name}, {_cell(either)} can be one or a thousand: say --decimal . or --decimal ,"
                )
            return NumberForm(asked)
        mark = POINT if point else COMMA
        if asked and asked != mark and either:
            raise InputRefused(
                f"{source_name}, {_cell(proof)} shows {mark!r} as decimal mark, --decimal {asked} says otherwise, so "
                f"{_cell(either)} is unclear: leave --decimal out for this file, or mend that line"
            )
        return NumberForm(mark)


def is_below_zero(text: str) -> bool:
    """Whether a cell is a negative number, whatever its decimal mark."""
    try:
        return take_apart(text).negative
    except NotANumber:
        return False


def is_exponent_id(text: str) -> bool:
    """Whether an id was spoilt by a spreadsheet: `1.67683E+15`, or a typed number of more digits than a sheet keeps."""
    if isinstance(text, Exact):
        return len(text.strip("-").replace(".", "")) > _SHEET_DIGITS and text.strip("-").isdigit()
    return bool(_EXPONENT_ID.fullmatch(text))


def _cell(seen: _Seen) -> str:
    return f"line {seen.line}: {seen.column} {seen.text!r}"


def _exact(text: Exact) -> Decimal:
    if not _PLAIN.fullmatch(text):
        raise NotANumber("not_a_number", f"{str(text)!r} is a date or a word, and an amount is needed: mend the file")
    return Decimal(text)
