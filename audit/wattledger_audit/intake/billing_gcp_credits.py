"""The credits cell of Google Cloud billing exports: a list of objects as JSON or as Python writes it. Never a float."""

import ast
import json
from decimal import Decimal
from typing import NamedTuple

from wattledger_audit.intake.billing_fixed import fixed_number
from wattledger_audit.intake.row_refused import RowRefused

COLUMN = "credits"


class Credit(NamedTuple):
    """One credit: `amount` as delivered (negative takes off the cost), `kind` such as PROMOTION."""

    name: str
    kind: str
    amount: Decimal


def read_credits(text: str) -> list[Credit]:
    """The credits of one row, in order. Raises RowRefused (`bad_credits`) for a cell that can't be read."""
    if text in ("", "[]", "{}"):
        return []
    items = _list(text)
    return [_credit(item, text) for item in items if item]


def _credit(item: object, text: str) -> Credit:
    if not isinstance(item, dict):
        raise _bad(text)
    try:
        amount = fixed_number(str(item.get("amount", "")))
    except ValueError:
        raise _bad(text) from None
    if amount is None:
        raise _bad(text)
    words = (item.get("full_name"), item.get("name"), item.get("id"))
    return Credit(next((str(word) for word in words if word), ""), str(item.get("type") or ""), amount)


def _list(text: str) -> list[object]:
    found: object
    try:
        found = json.loads(text, parse_float=Decimal)
    except ValueError:
        try:
            found = _value(ast.parse(text.strip(), mode="eval").body, text.strip())
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise _bad(text) from None
    return found if isinstance(found, list) else [found]


def _value(node: ast.expr, text: str) -> object:
    """A literal without evaluation; numbers from their own text, so that none passes through a float."""
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item, text) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {
            str(_value(key, text)): _value(value, text)
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        }
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return f"-{_value(node.operand, text)}"
    if isinstance(node, ast.Constant):
        if isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return ast.get_source_segment(text, node)
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Decimal" and node.args:
        return _value(node.args[0], text)
    raise ValueError("no literal")


def _bad(text: str) -> RowRefused:
    return RowRefused(COLUMN, text, "bad_credits: no list of credits with an amount each; export the file again")
