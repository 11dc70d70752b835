"""The tables as one .xlsx: a sheet a table, the verdict first. Texts stay text; same report, same bytes."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from xlsxwriter import Workbook
from xlsxwriter.format import Format
from xlsxwriter.worksheet import Worksheet

from wattledger_audit.report.model import Report
from wattledger_audit.report.tables import HOURS, INT, MONEY, PLAIN, RATE, RATIO, Cell, Column, NamedTable

VERDICT_SHEET = "Verdict"
MAX_ROWS = 1_048_575
"""Rows of a sheet under its header."""
_MAX_CELL = 32_767
_CREATED = datetime(2000, 1, 1)
_WIDTHS = range(8, 61)
_NUMBER_FORMS = {MONEY: "#,##0.00", RATE: "#,##0.0000", HOURS: "#,##0.00", RATIO: "0.0%", PLAIN: "#,##0.00####"}
_OPTIONS = {
    "in_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
}


def write_workbook(report: Report, tables: Sequence[NamedTable], path: Path) -> Path:
    """Write the workbook. Unknown is an empty cell; what a sheet can't hold is named on the first sheet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    book = Workbook(str(path), _OPTIONS)
    book.set_properties({"title": report.title, "author": report.product, "created": _CREATED})
    _verdict_sheet(book, report, tables)
    header = book.add_format({"bold": True, "bottom": 1})
    forms = {form: book.add_format({"num_format": code}) for form, code in _NUMBER_FORMS.items()}
    count = book.add_format({"num_format": "#,##0"})
    for table in tables:
        sheet = book.add_worksheet(table.name)
        formats = [count if column.kind == INT else forms[column.form] for column in table.columns]
        _table_sheet(sheet, table, header, formats)
    book.close()
    return path


def _verdict_sheet(book: Workbook, report: Report, tables: Sequence[NamedTable]) -> None:
    """The verdict in sentences, and what the other sheets hold."""
    sheet = book.add_worksheet(VERDICT_SHEET)
    bold = book.add_format({"bold": True})
    sheet.set_column(0, 0, 24)
    sheet.set_column(1, 1, 110, book.add_format({"text_wrap": True, "valign": "top"}))
    lines = [
        ("Report", report.title),
        ("Period", f"{report.period_start} to {report.period_end} ({report.timezone}, {report.hours} h)"),
        ("Currency", report.currency),
        ("Idle policy", report.idle_policy),
        ("Depth", ", ".join(report.depth)),
        ("Verdict", report.headline),
        *(("", line) for line in report.verdict_lines),
        ("Next answer", report.next_answer),
        *((f"Sheet {table.name}", _held(table)) for table in tables),
        ("Made by", f"{report.product} {report.version}"),
    ]
    for place, (name, text) in enumerate(lines):
        _write_text(sheet, place, 0, name, bold)
        _write_text(sheet, place, 1, text)


def _held(table: NamedTable) -> str:
    held = len(table.rows)
    if held > MAX_ROWS:
        return f"the first {MAX_ROWS} of {held} rows: all are in tables/{table.name}.csv and .parquet"
    return f"{held} rows"


def _table_sheet(sheet: Worksheet, table: NamedTable, header: Format, formats: Sequence[Format]) -> None:
    rows = table.rows[:MAX_ROWS]
    for place, column in enumerate(table.columns):
        _write_text(sheet, 0, place, column.name, header)
        sheet.set_column(place, place, _width(column, [row[place] for row in rows[:1000]]))
    for number, row in enumerate(rows, 1):
        for place, cell in enumerate(row):
            if isinstance(cell, str):
                _write_text(sheet, number, place, cell)
            elif cell is not None:
                # A Decimal goes into the XML as its own digits (the sixteen that a sheet keeps), not by way of a float.
                sheet.write_number(number, place, cell, formats[place])
    sheet.freeze_panes(1, 0)
    sheet.autofilter(0, 0, len(rows), len(table.columns) - 1)


def _write_text(sheet: Worksheet, row: int, column: int, text: str, form: Format | None = None) -> None:
    """Always a text cell, whatever it begins with. A text in `<r>` would be taken for the sheet's own markup."""
    shown = text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"
    sheet.write_string(row, column, f" {shown}" if shown.startswith("<r>") else shown, form)


def _width(column: Column, cells: Sequence[Cell]) -> int:
    widest = max((len(_shown(cell)) for cell in cells), default=0)
    return min(max(widest + 1, len(column.name) + 3, _WIDTHS.start), _WIDTHS.stop - 1)


def _shown(cell: Cell) -> str:
    """About what the sheet shows, to measure by."""
    return f"{cell:,.4f}" if isinstance(cell, Decimal) else "" if cell is None else str(cell)
