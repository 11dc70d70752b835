"""Lists and objects in a cell, as JSON or as Python writes them (single quotes, None). Nothing is evaluated, and no
number passes through a float."""

import ast
import json
from decimal import Decimal


def read_literal(text: str) -> object:
    """The value; a JSON number is an int or a Decimal, a Python one its own text. Raises ValueError."""
    bare = text.strip()
    try:
        return json.loads(bare, parse_float=Decimal)
    except ValueError:
        try:
            return _value(ast.parse(bare, mode="eval").body, bare)
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError("neither JSON nor a Python literal") from error


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
