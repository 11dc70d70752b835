"""Opens a table in any kind of file: delimited text, xlsx, Parquet. Owns no column's meaning."""

import re
from collections.abc import Callable, Sequence

from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.parquet_table import open_parquet, parquet_head
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.row import Exact, Row, Table
from wattledger_audit.intake.sheet_table import open_sheet, sheet_head
from wattledger_audit.intake.source import PARQUET, TEXT, XLSX, Source
from wattledger_audit.intake.text_table import open_delimited, text_head

__all__ = ["Exact", "Row", "Table", "head_rows", "normal_header", "open_table"]

_GAPS = re.compile(r"[\s_\-./\\\ufeff\u200b]+")


def open_table(source: Source, options: ReadOptions, is_header: Callable[[Sequence[str]], bool]) -> Table:
    """The table whose header row, one of the first 60 rows, `is_header` knows. Rows stream; cells are stripped of
    outer blanks; wholly empty rows are skipped; rows of text that are too short or too long come as they are.

    Raises `InputRefused`, also while rows are read (a quote that never ends).
    """
    if source.kind == TEXT:
        return open_delimited(source, options.delimiter, is_header)
    if source.kind == XLSX:
        return open_sheet(source, is_header)
    if source.kind == PARQUET:
        return open_parquet(source, is_header)
    raise InputRefused(f"{source.name} holds no table: give CSV, xlsx or Parquet")


def head_rows(source: Source, limit: int = 40) -> list[list[str]]:
    """The first rows that aren't empty, to detect a format by; of a workbook, of every sheet. Never raises."""
    if source.kind == TEXT:
        return text_head(source, limit)
    if source.kind == XLSX:
        return sheet_head(source, limit)
    if source.kind == PARQUET:
        return parquet_head(source, limit)
    return []


def normal_header(text: str) -> str:
    """A header to compare by: lower case, runs of blanks, `_`, `-`, `.`, `/` made one `_`, none at the ends."""
    return _GAPS.sub("_", text.strip().lower()).strip("_")
