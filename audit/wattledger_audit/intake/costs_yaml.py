"""Recognises a cost file. What it says is read by `assessment.cost_file`, not as records."""

import re
from collections.abc import Iterator

from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import COSTS, Record
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.source import TEXT, Source

KEYS = frozenset((
    "currency", "timezone", "fleet", "fleet_file", "compute", "energy", "pools", "idle", "target_margin", "price_step",
    "fx", "power", "tenants", "skus", "meter",
))  # fmt: skip
"""The keys at the left margin of a cost file."""
_PRICE_SHEET_KEYS = frozenset(("sites", "rates"))
_KEY = re.compile(r"([A-Za-z_][\w-]*):(?:\s|$)")
_SURE, _LIKELY, _MAYBE = 95, 70, 40


def detect(source: Source) -> Detection | None:
    """By the keys at the left margin of a YAML; one that names its currency, and what something costs, is sure."""
    if source.kind != TEXT:
        return None
    lines = source.head.splitlines()
    found = [key[1] for key in map(_KEY.match, lines) if key]
    known = [key for key in found if key in KEYS]
    if not known or len(known) * 2 < len(found):
        return None
    named = f"YAML with the keys {', '.join(dict.fromkeys(known))}"
    if _PRICE_SHEET_KEYS & set(found):
        return Detection(_MAYBE, f"{named}, and keys of a price sheet, which `wattledger prices apply` reads")
    if "currency" in known and len(known) > 1:
        return Detection(_SURE, f"a cost file: {named}")
    yaml_name = source.path.suffix.lower() in (".yaml", ".yml")
    return Detection(_LIKELY if yaml_name else _MAYBE, f"perhaps a cost file: {named}")


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """Never yields: a cost file holds no records."""
    raise InputRefused(f"{source.name} is a cost file: name it with --costs, it is not read as usage or billing")


IMPORTERS = (Importer("cost file", COSTS, detect, read),)
