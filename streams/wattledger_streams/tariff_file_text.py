"""YAML as text: every scalar stays the text that was written, with its line, so that no number passes through float."""

from dataclasses import dataclass, field
from pathlib import Path

import yaml

Text = str | None | list["Text"] | dict[str, "Text"]
Place = tuple[str | int, ...]
_NULLS = ("", "~", "null", "Null", "NULL")


class PriceSheetError(ValueError):
    """A price sheet that can't be used: file, line, field, value, and what to do."""


@dataclass(slots=True)
class TextTree:
    """The content of a YAML file, and the line (from 1) where each field stands."""

    path: Path
    content: Text = None
    lines: dict[Place, int] = field(default_factory=dict)

    def line(self, place: Place) -> int:
        """Line of a field, or of the nearest thing around it that is there."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def error(self, place: Place, message: str) -> PriceSheetError:
        """An error about a field, to be raised by the caller."""
        name = ".".join(str(part) for part in place)
        return PriceSheetError(f"{self.path}:{self.line(place)}: {name + ': ' if name else ''}{message}")


def read_text_tree(path: Path) -> TextTree:
    """Read a YAML file with its scalars as text. Raises `PriceSheetError` when it isn't there or isn't YAML."""
    tree = TextTree(path)
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise PriceSheetError(f"{path}: it can't be read: {error.strerror}: check the path") from error
    except UnicodeDecodeError as error:
        raise PriceSheetError(f"{path}: byte {error.start} is not UTF-8: save the file as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise PriceSheetError(f"{path}:{line}: not YAML: {error.problem}: correct it there") from error
    except yaml.YAMLError as error:
        raise PriceSheetError(f"{path}: not YAML: {' '.join(str(error).split())}: save it as plain text") from error
    if root is None:
        raise PriceSheetError(f"{path}:1: the file is empty: write its first line, such as currency: EUR")
    tree.content = _text(tree, root, ())
    return tree


def _text(tree: TextTree, node: yaml.Node, place: Place) -> Text:
    tree.lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.ScalarNode):
        return None if node.style is None and node.value in _NULLS else str(node.value)
    if len(place) > 8:
        raise tree.error(place, "nested too deeply (an alias of itself?): write it out")
    if isinstance(node, yaml.SequenceNode):
        return [_text(tree, item, (*place, number)) for number, item in enumerate(node.value)]
    content: dict[str, Text] = {}
    for key, value in node.value:
        name = str(key.value)
        if name in content:
            raise tree.error((*place, name), f"given again on line {key.start_mark.line + 1}: keep one")
        tree.lines[(*place, name)] = key.start_mark.line + 1
        content[name] = _text(tree, value, (*place, name))
    return content
