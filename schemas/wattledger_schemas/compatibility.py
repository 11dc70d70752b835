"""Compatibility, checked offline in both directions over kept examples: no registry is asked."""

from io import BytesIO
from typing import Any

import fastavro


class Incompatible(ValueError):
    """One version's records cannot be read by the other."""


def check_compatible(
    old: dict[str, Any], new: dict[str, Any], old_examples: list[Any], new_examples: list[Any]
) -> None:
    """Old records must read with the new schema and new ones with the old; raises Incompatible saying which way."""
    _check(old, new, old_examples, "backward: records of the old version with the new schema")
    _check(new, old, new_examples, "forward: records of the new version with the old schema")


def _check(writer: dict[str, Any], reader: dict[str, Any], examples: list[Any], direction: str) -> None:
    written, read = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    for place, example in enumerate(examples):
        out = BytesIO()
        try:
            fastavro.schemaless_writer(out, written, example)
            out.seek(0)
            fastavro.schemaless_reader(out, written, read)
        except (fastavro.read.SchemaResolutionError, ValueError, TypeError, KeyError) as error:
            raise Incompatible(f"{direction}, example {place}: {error}") from error
