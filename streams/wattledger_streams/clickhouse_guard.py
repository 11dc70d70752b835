"""Decides whether a statement may be read through the endpoint. Pure: it judges the engine's own tokens of the text.

The engine adds two more walls (see clickhouse_engine): its parser's class of the statement, and `readonly=1`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

SYNTAX_ERROR = 62
READONLY = 164

READS = frozenset({"SELECT", "WITH", "FROM", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS"})
_EXPLAINED = frozenset({"SELECT", "WITH", "FROM", "("})
_EXPLAIN_OPTIONS = frozenset({"AST", "SYNTAX", "QUERY", "TREE", "PLAN", "PIPELINE", "ESTIMATE", "=", ","})
_INSTEAD = {
    "SET": "pass settings as parameters of the request",
    "USE": "name the database in the request's database parameter",
}

INSIDE_TABLE_FUNCTIONS = frozenset(
    {
        "format",
        "generate_series",
        "generaterandom",
        "generateseries",
        "merge",
        "null",
        "numbers",
        "numbers_mt",
        "values",
    }
    | {"sqlstandardvalues", "view", "zeros", "zeros_mt"}
)
"""Table functions that read nothing but the database or their own arguments; every other one is refused."""

OUTSIDE_FUNCTIONS = frozenset({"file", "catboostevaluate", "reversednsquery", "showcertificate"})
"""Ordinary functions that read files, the network or the process; `readonly=1` lets them through."""

_BLANK = frozenset({"Whitespace", "Comment"})
_TRAILING = frozenset({"Semicolon", *_BLANK})
_NAMES = frozenset({"BareWord", "QuotedIdentifier"})


class Token(NamedTuple):
    """A token as the engine's lexer cuts it; `kind` is the engine's name of its type."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class ReadStatement:
    """What the server must know of an allowed statement; `output_format` is its own FORMAT clause, or empty."""

    keyword: str
    output_format: str
    streamable: bool


class Refused(Exception):
    """A statement that is not run; `code` is ClickHouse's number and `name` its name of the error."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(message)
        self.code, self.name, self.message = code, name, message


def refused_write(what: str) -> Refused:
    """The refusal of anything that is not a read."""
    return Refused(READONLY, "READONLY", f"{what}: this endpoint only reads, nothing was changed")


def judge(tokens: Sequence[Token], outside: Collection[str]) -> ReadStatement:
    """The statement's shape when it is one plain read. Raises `Refused`.

    `outside`: names, in lower case, of functions and table functions that reach out of the database.
    """
    solid = [token for token in tokens if token.kind not in _BLANK]
    keyword = opening_keyword(solid)
    while solid and solid[-1].kind in _TRAILING:
        solid.pop()
    words = [token.text.upper() if token.kind == "BareWord" else token.text for token in solid]
    for position, token in enumerate(solid):
        if token.kind == "Semicolon":
            raise Refused(
                SYNTAX_ERROR, "SYNTAX_ERROR", "Multi-statements are not allowed: send one statement a request"
            )
        if token.kind.startswith("Error"):
            raise Refused(SYNTAX_ERROR, "SYNTAX_ERROR", f"Syntax error: {token.kind} at {token.text[:40]!r}")
        _refuse_call_outside(solid, position, outside)
        if words[position : position + 2] in (["INTO", "OUTFILE"], ["INSERT", "INTO"]):
            raise refused_write(f"{words[position]} {words[position + 1]}")
    if keyword == "EXPLAIN":
        _check_explained(words)
    if keyword == "EXISTS":
        _check_exists(solid)
    return ReadStatement(
        keyword,
        _format_clause(words, solid),
        streamable=keyword in {"SELECT", "WITH", "FROM"} and "TOTALS" not in words,
    )


def opening_keyword(tokens: Sequence[Token]) -> str:
    """The first word in upper case, brackets and blanks aside. Raises `Refused` unless it opens a read."""
    first = next((token for token in tokens if token.kind not in _BLANK and token.text != "("), None)
    if first is None:
        raise Refused(SYNTAX_ERROR, "SYNTAX_ERROR", "Empty query: send it in the body or as ?query=")
    keyword = first.text.upper()
    if first.kind != "BareWord" or keyword not in READS:
        advice = _INSTEAD.get(keyword)
        raise refused_write(f"{first.text[:40]} is not a read" + (f" ({advice})" if advice else ""))
    return keyword


def _refuse_call_outside(solid: Sequence[Token], position: int, outside: Collection[str]) -> None:
    token = solid[position]
    if token.kind not in _NAMES or position + 1 == len(solid) or solid[position + 1].text != "(":
        return
    name = token.text if token.kind == "BareWord" else token.text[1:-1]
    if name.lower() in outside or "\\" in name:
        raise refused_write(f"{name}(...) reaches outside the database")


def _check_explained(words: Sequence[str]) -> None:
    """EXPLAIN runs nothing, yet only of a read is it of use; options are `kind name = value, ...`."""
    position = 1
    while position < len(words) and words[position] not in _EXPLAINED:
        is_option = words[position] in _EXPLAIN_OPTIONS or "=" in words[position - 1 : position + 2]
        if not is_option:
            raise refused_write(f"EXPLAIN {words[position][:40]}")
        position += 1


def _check_exists(solid: Sequence[Token]) -> None:
    """chDB's `default` database answers for any path of the file system: only plain names may be asked for."""
    for token in solid:
        quoted = token.kind == "QuotedIdentifier" and not token.text[1:-1].replace("_", "").isalnum()
        if quoted or token.text == "{":
            raise refused_write(f"EXISTS {token.text[:40]}")


def _format_clause(words: Sequence[str], solid: Sequence[Token]) -> str:
    for position in range(len(words) - 2, -1, -1):
        if words[position] == "FORMAT" and solid[position + 1].kind == "BareWord":
            return solid[position + 1].text
    return ""
