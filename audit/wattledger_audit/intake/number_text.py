"""A number as text taken apart: sign, currency, body; and what its marks alone prove. Knows no file."""

import re
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from wattledger_audit.intake.currency_sign import split_first, split_last

POINT, COMMA, EITHER, NEUTRAL = ".", ",", "either", "neutral"
"""What a number proves: its decimal mark, nothing though it matters (`1.000`), or nothing that matters (`12`)."""

MAX_DIGITS = 60
_MINUS = str.maketrans({"−": "-", "–": "-", "—": "-", "﹣": "-", "－": "-", "’": "'", "‘": "'", "´": "'", "`": "'"})
_BLANKS = re.compile(r"[\s\u00a0\u2007\u2008\u2009\u200a\u202f]")
_WHOLE_MONEY = re.compile(r"(.*\d)([.,])-{1,2}")
_SPACED = re.compile(r"(\d{1,3})((?:(['_])\d{3})(?:\3\d{3})*)(?!\d)")
_BODY = re.compile(r"([\d.,]*\d[\d.,]*)(?:[eE]([+-]?\d{1,3}))?", re.ASCII)
_SIMPLE = re.compile(r"-?\d[\d.,]{0,50}", re.ASCII)
_WESTERN = re.compile(r"[1-9]\d{0,2}(\D\d{3})+", re.ASCII)
_INDIAN = re.compile(r"[1-9]\d?(\D\d{2})*\D\d{3}", re.ASCII)


class NotANumber(ValueError):
    """No number, or one that the file's form does not allow. The text is a rejection's reason: `code: words`."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(f"{code}: {words}")
        self.code = code
        self.words = words


class NumberText(NamedTuple):
    """`body` holds digits and the marks `.` `,` only, decimal exponent apart; `proves` is one of the four above."""

    negative: bool
    body: str
    exponent: int
    proves: str


@lru_cache(maxsize=16_384)
def take_apart(text: str) -> NumberText:
    """The parts of a number. Raises `NotANumber`, also for marks that group wrongly whatever the file's form."""
    if _SIMPLE.fullmatch(text):
        digits = text.lstrip("-")
        return NumberText(text[0] == "-", digits, 0, _proof(text, digits, False))
    bare = text.translate(_MINUS).strip()
    negative, bare = _sign(text, bare)
    whole = _WHOLE_MONEY.fullmatch(bare)
    if whole:
        bare = whole.group(1) + whole.group(2)
    elif bare.endswith("-"):
        if negative is not None:
            raise _wrong(text)
        negative, bare = True, split_last(bare[:-1].strip())[1]
    grouped = False
    bare = _BLANKS.sub("_", bare)
    spaced = _SPACED.match(bare)
    if spaced:
        grouped = True
        bare = spaced.group(1) + spaced.group(2).replace(spaced.group(3), "") + bare[spaced.end() :]
    body = _BODY.fullmatch(bare)
    if body is None:
        raise _wrong(text)
    digits, power = body.group(1), body.group(2)
    if len(digits) > MAX_DIGITS or abs(int(power or 0)) > MAX_DIGITS:
        raise NotANumber("not_a_number", f"{_shown(text)} is too large or too long for an amount: mend the file")
    return NumberText(bool(negative), digits, int(power or 0), _proof(text, digits, grouped or bool(power)))


def value_of(parts: NumberText, decimal: str) -> Decimal:
    """The number, its decimal mark given. Raises `NotANumber` where its marks do not fit that."""
    group = COMMA if decimal == POINT else POINT
    if parts.proves not in (decimal, EITHER, NEUTRAL):
        raise NotANumber("wrong_decimal_mark", f"{parts.body!r} has {group!r} as decimal mark, the file {decimal!r}")
    plain = parts.body.replace(group, "").replace(decimal, ".")
    return Decimal(f"{'-' if parts.negative else ''}{plain}E{parts.exponent}")


def _sign(text: str, bare: str) -> tuple[bool | None, str]:
    """The sign if one is in front or around (None: none said), and what is left; currencies are taken off."""
    negative: bool | None = None
    first = last = ""
    for _ in range(3):
        if negative is None and bare[:1] in ("+", "-"):
            negative, bare = bare[0] == "-", bare[1:].strip()
        if bare.startswith("(") and bare.endswith(")"):
            if negative is not None:
                raise _wrong(text)
            negative, bare = True, bare[1:-1].strip()
        if not first:
            first, bare = split_first(bare)
        if not last:
            last, bare = split_last(bare)
    return negative, bare


def _proof(text: str, digits: str, grouped: bool) -> str:
    """What the marks prove. `grouped`: grouping by other means is seen, or ruled out, so a mark is the decimal one."""
    points, commas = digits.count(POINT), digits.count(COMMA)
    if not points and not commas:
        return NEUTRAL
    if points and commas:
        mark = max(POINT, COMMA, key=digits.rfind)
        before, _, after = digits.rpartition(mark)
        if grouped or mark in before or not _well_grouped(before):
            raise _badly_grouped(text)
        return mark
    mark = POINT if points else COMMA
    if points + commas > 1:
        if grouped or not _well_grouped(digits):
            raise _badly_grouped(text)
        return COMMA if mark == POINT else POINT
    before, _, after = digits.partition(mark)
    if grouped or len(after) != 3 or not 1 <= len(before) <= 3 or before[0] == "0":
        return mark
    return EITHER


def _well_grouped(digits: str) -> bool:
    return bool(_WESTERN.fullmatch(digits) or (COMMA in digits and _INDIAN.fullmatch(digits)))


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _wrong(text: str) -> NotANumber:
    if text.strip().endswith("%"):
        return NotANumber("not_a_number", f"{_shown(text)} is a percentage, and an amount is needed: mend the file")
    return NotANumber("not_a_number", f"{_shown(text)} is no number: mend the file or leave the row out")


def _badly_grouped(text: str) -> NotANumber:
    return NotANumber("not_a_number", f"{_shown(text)} is grouped as no number is: mend the file")
