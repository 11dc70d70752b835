"""Workbooks (xlsx): the sheet that has the header, rows with typed cells as exact text."""

import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from xml.etree.ElementTree import ParseError
from zipfile import BadZipFile

from openpyxl import load_workbook
from openpyxl.cell.cell import Cell, MergedCell
from openpyxl.cell.read_only import EmptyCell, ReadOnlyCell
from openpyxl.utils.exceptions import InvalidFileException
from openpyxl.workbook.workbook import Workbook
from openpyxl.worksheet._read_only import ReadOnlyWorksheet

from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.row import Exact, Row, Table
from wattledger_audit.intake.source import Source

HEADER_ROWS = 60
_DAMAGED = (
    BadZipFile,
    zlib.error,
    InvalidFileException,
    ParseError,
    LookupError,
    ValueError,
    TypeError,
    EOFError,
    OSError,
)


def open_sheet(source: Source, is_header: Callable[[Sequence[str]], bool]) -> Table:
    """The table in a workbook: visible sheets are looked at first. Raises `InputRefused`."""
    book = _open_book(source)
    found: list[tuple[ReadOnlyWorksheet, Row]] = []
    try:
        for sheet in _sheets(book):
            if found and sheet.sheet_state != "visible":
                break
            header = next((row for row in islice(_rows(sheet), HEADER_ROWS) if is_header(row.cells)), None)
            if header:
                found.append((sheet, header))
    except _DAMAGED as error:
        book.close()
        raise InputRefused(f"{source.name} is a damaged workbook ({error}): save it again") from error
    if len(found) != 1:
        book.close()
        raise InputRefused(_no_one_sheet(source.name, [str(sheet.title) for sheet, _ in found]))
    sheet, header = found[0]
    return Table(header.cells, header.line, _body(source, book, sheet, header), f"sheet {sheet.title!r}")


def sheet_head(source: Source, limit: int) -> list[list[str]]:
    """The first rows of every sheet, visible ones first; nothing where the workbook can't be read."""
    try:
        with closing(_open_book(source)) as book:
            return [row.cells for sheet in _sheets(book) for row in islice(_rows(sheet), limit)]
    except (InputRefused, *_DAMAGED):
        return []


def _open_book(source: Source) -> Workbook:
    try:
        with warnings.catch_warnings():
            # openpyxl warns of styles and extensions that it leaves out: they hold no data.
            warnings.simplefilter("ignore", UserWarning)
            return load_workbook(source.path, read_only=True, data_only=True, keep_links=False)
    except _DAMAGED as error:
        raise InputRefused(f"{source.name} is a damaged workbook ({error}): save it again, or as CSV") from error


def _sheets(book: Workbook) -> list[ReadOnlyWorksheet]:
    sheets = [sheet for sheet in book.worksheets if isinstance(sheet, ReadOnlyWorksheet)]
    return sorted(sheets, key=lambda sheet: sheet.sheet_state != "visible")


def _no_one_sheet(name: str, titles: list[str]) -> str:
    if not titles:
        return f"{name}: no sheet has the header that is looked for in its first {HEADER_ROWS} rows: check its names"
    return (
        f"{name}: sheets {', '.join(map(repr, titles))} all have the header: save each that is meant as a file of its "
        "own, or hide the others"
    )


def _body(source: Source, book: Workbook, sheet: ReadOnlyWorksheet, header: Row) -> Iterator[Row]:
    width = len(header.cells)
    with closing(book):
        try:
            for row in _rows(sheet):
                if row.line > header.line:
                    cells = row.cells
                    if len(cells) < width:
                        cells.extend([""] * (width - len(cells)))
                    yield row
        except _DAMAGED as error:
            raise InputRefused(f"{source.name} is a damaged workbook ({error}): save it again, or as CSV") from error


def _rows(sheet: ReadOnlyWorksheet) -> Iterator[Row]:
    """Rows that aren't wholly empty, empty cells at their end left out."""
    sheet.reset_dimensions()
    for line, row in enumerate(sheet.rows, start=1):
        cells = [cell_text(cell) for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            yield Row(line, cells)


def cell_text(cell: Cell | MergedCell | ReadOnlyCell | EmptyCell) -> str:
    """A cell as text: `Exact` for numbers and dates; what is written as text stays text, whatever it looks like."""
    value: object = cell.value
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return Exact(value)
    if isinstance(value, float):
        return exact_number(repr(value))
    if isinstance(value, datetime):
        return _exact_moment(value, str(cell.number_format))
    if isinstance(value, date | time):
        return Exact(value.isoformat())
    if isinstance(value, timedelta):
        return str(value)
    return str(value).strip()


def exact_number(text: str) -> str:
    """A float's shortest text as a plain decimal (`1e-07` is `0.0000001`, `5.0` is `5`); `nan`, `inf` stay text."""
    number = Decimal(text)
    if not number.is_finite():
        return text
    plain = format(number, "f")
    return Exact(plain.rstrip("0").rstrip(".") if "." in plain else plain)


def _exact_moment(value: datetime, number_format: str) -> Exact:
    """A date alone where the cell shows no time; a workbook's day fraction is true to the second."""
    nearest = (value + timedelta(milliseconds=500)).replace(microsecond=0)
    moment = nearest if abs(nearest - value) < timedelta(milliseconds=2) else value
    midnight = moment.time() == time()
    if midnight and "h" not in number_format.lower():
        return Exact(moment.date().isoformat())
    return Exact(moment.isoformat())
