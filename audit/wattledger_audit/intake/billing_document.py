"""Billing documents in JSON: one document, a list, or one a line (ndjson); numbers never become floats."""

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import NamedTuple

from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import TEXT, Source, open_text

Object = Mapping[str, object]
_NOTHING: Object = {}


class Document(NamedTuple):
    """`line` is where it starts in an ndjson file, else 1."""

    line: int
    value: object


def read_documents(source: Source) -> Iterator[Document]:
    """The file's documents in order. Raises InputRefused with the line that is no JSON."""
    with open_text(source) as text:
        whole = text.read()
    try:
        yield Document(1, _load(whole))
        return
    except ValueError as error:
        lines = [(number, line) for number, line in enumerate(whole.split("\n"), start=1) if line.strip()]
        if len(lines) < 2 or not lines[0][1].rstrip().endswith("}"):
            raise InputRefused(f"{source.name} is no JSON ({error}): export it again") from None
    for number, line in lines:
        try:
            yield Document(number, _load(line))
        except ValueError as error:
            raise InputRefused(f"{source.name}, line {number}: no JSON ({error}): export it again") from None


def looks_like_json(source: Source) -> bool:
    """Whether the head can be a JSON object or list."""
    return source.kind == TEXT and source.head.lstrip()[:1] in ("{", "[")


def as_object(value: object) -> Object:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else _NOTHING


def as_list(value: object) -> list[object]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text_of(item: Object, *names: str) -> str:
    """The first of these members that is a text or a number, as text; empty if there is none."""
    for name in names:
        value = item.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            return str(value)
    return ""


def _load(text: str) -> object:
    return json.loads(text, parse_float=Decimal)
