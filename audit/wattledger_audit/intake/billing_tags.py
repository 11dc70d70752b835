"""Tags of a billed line: the tenant that they name, whatever cloud wrote them."""

import re
from collections.abc import Iterator
from functools import lru_cache

from wattledger_audit.intake.column_names import bare_name
from wattledger_audit.intake.literal_text import read_literal

TENANT_TAGS = ("tenant", "tenant_id", "customer", "customer_id", "client")
_WANTED = tuple(bare_name(tag) for tag in TENANT_TAGS)
_HINT = re.compile("tenant|customer|client", re.IGNORECASE)
_OWNER = re.compile(r"^(?:user|aws|azure|label)?[:_/]+|^user", re.IGNORECASE)
_KEYS, _VALUES = ("key", "Key", "name", "Name"), ("value", "Value")


@lru_cache(maxsize=65_536)
def tenant_tag(text: str) -> str:
    """The tenant that a tags cell names: a JSON object, one without braces, one as Python or Athena (`{k=v}`) writes
    it, or a list of pairs or of keys and values. Empty where none does."""
    if not _HINT.search(text):
        return ""
    tags = {bare_name(_OWNER.sub("", key)): value for key, value in _pairs(text)}
    return next((tags[name] for name in _WANTED if tags.get(name)), "")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    try:
        found = read_literal(text if text[:1] in "{[" else "{" + text + "}")
    except ValueError:
        yield from (pair for part in text.strip("{} ").split(",") if (pair := _split(part)))
        return
    if isinstance(found, dict):
        found = list(found.items())
    for item in found if isinstance(found, list) else ():
        if isinstance(item, dict):
            item = (_first(item, _KEYS), _first(item, _VALUES))
        if isinstance(item, list | tuple) and len(item) == 2 and item[1] is not None:
            yield str(item[0]), str(item[1]).strip()


def _split(part: str) -> tuple[str, str] | None:
    key, equals, value = part.partition("=")
    return (key.strip(), value.strip()) if equals else None


def _first(item: dict[object, object], names: tuple[str, ...]) -> object:
    return next((item[name] for name in names if name in item), None)
