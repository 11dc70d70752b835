"""Why no importer takes a file: JSON that breaks off, or a table that lacks one column of a bill or a usage log."""

import json
from collections.abc import Sequence

from wattledger_audit.intake.billing_columns import find_billing_columns
from wattledger_audit.intake.source import TEXT, Source, open_text
from wattledger_audit.intake.table import head_rows
from wattledger_audit.intake.usage_columns import usage_columns

MOST_BYTES = 64 << 20
_LEAST_MEANINGS = 3
_SHOWN = 6


def near_miss(source: Source) -> str:
    """What is wrong with the file and what to do, as words that follow its name; empty where nothing can be told."""
    return _broken_json(source) or _lacking_column(source)


def _broken_json(source: Source) -> str:
    if source.kind != TEXT or source.head.lstrip("\ufeff \r\n\t")[:1] not in ("{", "["):
        return ""
    if source.path.stat().st_size > MOST_BYTES:
        return ""
    with open_text(source) as text:
        whole = text.read().lstrip("\ufeff")
    try:
        json.loads(whole)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":  # one document a line
            return ""
        where = f"line {error.lineno}, column {error.colno}"
        ended = "it ends in the middle" if not whole[error.pos :].strip() or "Unterminated" in error.msg else error.msg
        return f"it starts like JSON and is none, {where}: {ended}: was the export cut? Export it again"
    return ""


def _lacking_column(source: Source) -> str:
    """The row that is most like a header of a bill or a usage log, and what it lacks."""
    best: tuple[int, str] = (0, "")
    for cells in head_rows(source):
        for known, words in (_bill(cells), _usage(cells)):
            if words and known >= _LEAST_MEANINGS and known > best[0]:
                named = ", ".join(cell for cell in cells if cell)
                shown = named if len(named) <= 120 else f"{named[:120]}…"
                best = known, f"its columns are {shown}: that {words}"
    return best[1]


def _bill(cells: Sequence[str]) -> tuple[int, str]:
    columns = find_billing_columns(cells)
    lacks = []
    if not columns.has("amount", "gross"):
        lacks.append("says what was billed: call it amount")
    if not columns.has("tenant", "invoice_id"):
        lacks.append("says who was billed: call it tenant")
    return len(columns.at), f"could be a bill, but no column {' and none '.join(lacks)}" if lacks else ""


def _usage(cells: Sequence[str]) -> tuple[int, str]:
    columns = usage_columns(cells)
    known = sum(place < columns.width for place in columns.at.values())
    lacks = [
        words
        for meanings, words in (
            (("job",), "names the run: call it job_id"),
            (("start",), "says when it started: call it start"),
            (("end", "duration"), "says when it ended: call it end"),
            (("tenant", "project", "user", "node"), "says whose it was: call it tenant"),
        )
        if not any(columns.has(meaning) for meaning in meanings)
    ]
    return known, f"could be a usage log, but no column {' and none '.join(lacks)}" if lacks else ""
