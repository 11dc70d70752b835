"""Values as JSON: dataclasses as objects, exact numbers as decimal text. Floats do not come by here."""

import dataclasses
import json
from decimal import Decimal
from fractions import Fraction

from wattledger_audit.report.amount_text import money_text


def plain(value: object) -> object:
    """What `json` can write; `Decimal` as text in full, `Fraction` as `22/3`. Raises `TypeError` for a float."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Decimal):
        return money_text(value)
    if isinstance(value, Fraction):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    raise TypeError(f"{type(value).__name__} has no exact form in JSON")


def json_text(value: object) -> str:
    """One JSON document, indented, with a line end."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False) + "\n"
