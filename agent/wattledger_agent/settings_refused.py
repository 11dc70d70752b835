"""What is wrong with settings, in words: where it was written, which value, and what to write. Never shows a secret."""

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from wattledger_agent.settings import AgentSettings
from wattledger_agent.settings_variables import variable_names

_SECRET = re.compile(r"password|secret|token")
_MOST_SHOWN = 60
_WANTED = {
    "int_parsing": "must be a whole number", "int_type": "must be a whole number",
    "int_from_float": "must be a whole number", "int_parsing_size": "is too large",
    "float_parsing": "must be a number", "float_type": "must be a number", "finite_number": "must be a number",
    "bool_parsing": "must be true or false", "bool_type": "must be true or false",
    "string_type": "must be text in quotes", "path_type": "must be a path in quotes",
    "tuple_type": 'must be a list: ["…", "…"] in the file, a,b in a variable',
    "model_type": "is a table of settings, not a value", "dict_type": "is a table of settings, not a value",
}  # fmt: skip
_BOUNDS = {
    "greater_than": ("gt", "must be more than"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be less than"),
    "less_than_equal": ("le", "must be at most"),
}


def refusals(error: ValidationError, file: Path | None, variables: Mapping[str, str | None]) -> list[str]:
    """A sentence for each thing that is wrong. `file` is the one that was read, `variables` the environment."""
    set_here = {name.upper() for name in variables}
    said = []
    for one in error.errors():
        path = tuple(str(part) for part in one["loc"] if not isinstance(part, int))
        said.append(f"{_where(path, file, set_here)}{_what(path, one)}")
    return said


def _where(path: tuple[str, ...], file: Path | None, set_here: set[str]) -> str:
    for name, setting in variable_names(AgentSettings).items():
        if name in set_here and setting == path[: len(setting)]:
            return f"{name}: "
    if file is None or not file.is_file():
        return ""
    number = _line_of(path, file.read_text(errors="replace").splitlines())
    return f"{file}, line {number}: " if number else ""


def _line_of(path: tuple[str, ...], lines: Sequence[str]) -> int:
    """The line that sets it, or the one of its table; 0: not found. Good for files as people write them."""
    table: tuple[str, ...] = ()
    of_table = 0
    for number, line in enumerate(lines, 1):
        head = re.match(r"\s*\[\s*([\w.\"' -]+?)\s*\]", line)
        key = re.match(r"\s*([\w.\"'-]+)\s*=", line)
        if head:
            table = tuple(part.strip(" \"'") for part in head[1].split("."))
            of_table = number if table == path[: len(table)] else of_table
        elif key and (*table, *(part.strip(" \"'") for part in key[1].split("."))) == path:
            return number
    return of_table


def _what(path: tuple[str, ...], one: Any) -> str:
    name, kind = ".".join(path), one["type"]
    if kind == "extra_forbidden":
        return f"{name} is no setting{_instead(path)}"
    if kind == "value_error":
        words = str(one["ctx"]["error"])
        return f"{name}: {words}" if isinstance(one["input"], Mapping) else f"{name} is {_shown(path, one)}: {words}"
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return f"{name} is {_shown(path, one)}: {words} {one['ctx'][key]}"
    if kind == "literal_error":
        return f"{name} is {_shown(path, one)}: must be {one['ctx']['expected']}"
    return f"{name} is {_shown(path, one)}: {_WANTED.get(kind) or one['msg']}"


def _shown(path: tuple[str, ...], one: Any) -> str:
    value = one["input"]
    if _SECRET.search(path[-1]) or isinstance(value, BaseModel | Mapping):
        return "not shown here"
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _instead(path: tuple[str, ...]) -> str:
    """The nearest name, the table that it belongs in, or all that could be meant."""
    group, name = path[:-1], path[-1]
    every = list(variable_names(AgentSettings).values())
    here = [setting[-1] for setting in every if setting[:-1] == group]
    near = difflib.get_close_matches(name, here, 1, 0.7)
    if near:
        return f" (is {'.'.join((*group, near[0]))} meant?)"
    elsewhere = [setting for setting in every if setting[-1] == name]
    if elsewhere:
        return f" here: it is {'.'.join(elsewhere[0])}, " + (
            f"in the table [{elsewhere[0][0]}]" if len(elsewhere[0]) > 1 else "above all tables"
        )
    return f": {'[' + '.'.join(group) + '] has' if group else 'there are'} {', '.join(here)}"


def choices(annotation: Any) -> tuple[str, ...]:
    """The words that a setting may have; none: it is not of that kind."""
    found = [arg for arg in get_args(annotation) if isinstance(arg, str)]
    return tuple(found) or next((inner for arg in get_args(annotation) if (inner := choices(arg))), ())
