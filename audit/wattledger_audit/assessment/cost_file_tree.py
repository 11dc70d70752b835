"""A cost file as text with its lines, checked against its form; what is wrong is told with place, value and advice."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from re import findall
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from wattledger_streams.tariff_file import explained
from wattledger_streams.tariff_file_text import Place, PriceSheetError, Text, TextTree, read_text_tree

from wattledger_audit.assessment.cost_file_form import CostForm
from wattledger_audit.assessment.cost_file_word import nearest
from wattledger_audit.intake.refusal import InputRefused

SECTIONS = ("fleet", "compute", "energy", "pools", "fx", "power", "tenants", "skus", "meter")
"""Lists; one mapping in place of a list is a list of one."""

_QUOTED = r"'(\w+)'"


class CostFileRefused(InputRefused):
    """A cost file that can't be used: file, line, field, value, and what to do."""


@contextmanager
def refusing() -> Iterator[None]:
    """Turns what the shared reading parts raise into `CostFileRefused`."""
    try:
        yield
    except PriceSheetError as error:
        raise CostFileRefused(str(error)) from error


def read_cost_tree(path: Path) -> tuple[TextTree, CostForm]:
    """The file's text with lines, and its content. Raises `PriceSheetError`."""
    tree = read_text_tree(path)
    tree.content = _without_blanks(tree.content)
    if not isinstance(tree.content, dict):
        raise tree.error((), "it is no cost file: write keys such as currency: EUR, each on a line of its own")
    for section in SECTIONS:
        if isinstance(tree.content.get(section), dict):
            _wrap(tree, tree.content, section)
    try:
        return tree, CostForm.model_validate(tree.content)
    except ValidationError as error:
        found = error.errors()
        unknown = [one for one in found if one["type"] == "extra_forbidden"]
        raise _explained(tree, (unknown or found)[0]) from error


def _without_blanks(text: Text) -> Text:
    """A key whose value is blank, its lines commented out perhaps, is not there."""
    if isinstance(text, dict):
        return {key: _without_blanks(value) for key, value in text.items() if value is not None}
    return [_without_blanks(item) for item in text] if isinstance(text, list) else text


def _wrap(tree: TextTree, content: dict[str, Text], section: str) -> None:
    content[section] = [content[section]]
    inside = {place: line for place, line in tree.lines.items() if place[:1] == (section,)}
    tree.lines.update({(section, 0, *place[1:]): line for place, line in inside.items()})


def _explained(tree: TextTree, error: ErrorDetails) -> PriceSheetError:
    place: Place = tuple(error["loc"])
    if error["type"] == "extra_forbidden":
        known = known_keys(place)
        advice = nearest(str(place[-1]), known) or f": use one of {', '.join(known)}"
        return tree.error(place, f"{place[-1]!r} is no key here{advice}")
    told = explained(tree, error)
    if error["type"] == "literal_error":
        return PriceSheetError(f"{told}{nearest(str(error['input']), findall(_QUOTED, error['msg']))}")
    return told


def known_keys(place: Place) -> list[str]:
    """The keys that may stand where `place` ends."""
    model: type[BaseModel] | None = CostForm
    for part in place[:-1]:
        if isinstance(part, str) and model is not None:
            annotations = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
            model = _model_in(annotations.get(part))
    return [] if model is None else [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for found in map(_model_in, get_args(annotation)) if found), None)
