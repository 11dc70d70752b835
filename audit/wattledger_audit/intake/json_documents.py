"""JSON documents of a text file: one, several one after the other, or one a line (NDJSON). Knows no document's meaning.

Numbers with a point come as Decimal; NaN and Infinity, which JSON does not have, as None.
"""

import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from typing import NamedTuple

from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import Source, open_text, text_lines


class Document(NamedTuple):
    """One document and the line on which it starts, from 1."""

    line: int
    value: object


def _unreal(_: str) -> None:
    return None


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_unreal)


def documents(source: Source) -> Iterator[Document]:
    """The documents in file order. NDJSON streams; anything else is read whole.

    Raises InputRefused for what is no JSON, or ends in the middle, with the line."""
    whole = 0
    for number, text in enumerate(text_lines(source), 1):
        if not text.strip():
            continue
        try:
            document = Document(number, _DECODER.decode(text))
        except ValueError:
            break
        yield document
        whole += 1
    else:
        return
    yield from islice(_one_after_another(source), whole, None)


def _one_after_another(source: Source) -> Iterator[Document]:
    with open_text(source) as file:
        text = file.read().lstrip("\ufeff")
    at, line = 0, 1
    while (found := _next_start(text, at)) is not None:
        line += text.count("\n", at, found)
        try:
            value, at = _DECODER.raw_decode(text, found)
        except json.JSONDecodeError as error:
            raise _no_json(source, error.lineno, error.msg) from error
        yield Document(line, value)
        line += text.count("\n", found, at)


def _next_start(text: str, at: int) -> int | None:
    while at < len(text) and (text[at].isspace() or text[at] in ",\ufeff"):
        at += 1
    return at if at < len(text) else None


def _no_json(source: Source, line: int, why: str) -> InputRefused:
    return InputRefused(f"{source.name}, line {line}: not whole JSON ({why}): was the download cut? Get the file again")


def looks_like_json(source: Source) -> bool:
    """Whether the head starts as a JSON document does."""
    return source.head.lstrip("\ufeff \t\r\n")[:1] in ("{", "[")
