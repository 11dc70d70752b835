"""Cells that a spreadsheet would run as a formula, written so that it shows them instead (OWASP, CSV injection)."""

import re

_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def safe_cell(text: str) -> str:
    """The text as it may stand in a CSV or sheet: `'` before what starts like a formula; plain numbers stay."""
    if text.startswith(_STARTS) and not _NUMBER.fullmatch(text):
        return "'" + text
    return text
