"""Every setting as a commented TOML file: what it is for, its bounds, its default, and what it is now. No secret."""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from wattledger_agent.settings import AgentSettings
from wattledger_agent.settings_refused import choices

_WIDTH = 76
_HEAD = """\
Every setting of wattledger-agent, with its default. Units are in the names:
_s, _ms, _bytes. A variable wins over the file: WATTLEDGER_AGENT_ and the name
in capitals, two underscores between a table and its key, a list with commas
(WATTLEDGER_AGENT_KAFKA__BOOTSTRAP). A name that is not here is refused.
What is commented out is at its default.
"""


def settings_text(settings: AgentSettings) -> str:
    """A file that sets what these settings set, with all others as comments."""
    lines = [_comment(line) for line in _HEAD.splitlines()]
    groups: list[str] = []
    for name, field in AgentSettings.model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            groups += ["", *_comments(field.description or ""), f"[{name}]", *_table(value)]
        elif field.validation_alias is None:
            lines += ["", *_setting(name, field, value)]
    return "\n".join([*lines, *groups]) + "\n"


def _table(group: BaseModel) -> Iterator[str]:
    for name, field in type(group).model_fields.items():
        yield from _setting(name, field, getattr(group, name))


def _setting(name: str, field: FieldInfo, value: Any) -> Iterator[str]:
    words = field.description or ""
    if allowed := choices(field.annotation):
        words += f" ({', '.join(allowed)})"
    bounds = [
        f"{word} {getattr(rule, key)}"
        for rule in field.metadata
        for key, word in (("ge", "at least"), ("gt", "more than"), ("le", "at most"))
        if getattr(rule, key, 0)
    ]
    yield from _comments(f"{words}; {', '.join(bounds)}" if bounds else words)
    if isinstance(value, SecretStr):
        yield f'# {name} = "…"' + (" # set, not shown" if value.get_secret_value() else "")
    elif value == field.default:
        yield f"# {name} = {_toml(value)}"
    else:
        yield f"{name} = {_toml(value)}"


def _toml(value: Any) -> str:
    if value is None:
        return '""'
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(one) for one in value)}]"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


def _comments(text: str) -> list[str]:
    return [_comment(line) for line in textwrap.wrap(text, _WIDTH)]


def _comment(line: str) -> str:
    return f"# {line}".rstrip()
