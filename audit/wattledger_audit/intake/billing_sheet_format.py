"""The currency of a workbook's amounts where only their number format has it (`#,##0.00 "€"`, `[$CHF]`)."""

import re
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from zipfile import BadZipFile

from openpyxl import load_workbook
from openpyxl.utils.exceptions import InvalidFileException

from wattledger_audit.intake.billing_columns import find_billing_columns, is_billing_header
from wattledger_audit.intake.currency import currency_code
from wattledger_audit.intake.sheet_table import cell_text
from wattledger_audit.intake.source import XLSX, Source

LOOKED_AT_ROWS = 2_000
_NAMED = re.compile(r'\[\$([^\]\-]+)(?:-[0-9A-Fa-f]+)?\]|"([^"]+)"|([€£$¥])')


def format_currency(source: Source, preferred: str | None) -> str:
    """The one currency in the number formats of the amounts of the first rows; empty if there is none or several."""
    if source.kind != XLSX:
        return ""
    try:
        found = set(_currencies(source, preferred)) - {""}
    except (BadZipFile, InvalidFileException, KeyError, ValueError, OSError):
        return ""
    return found.pop() if len(found) == 1 else ""


def _currencies(source: Source, preferred: str | None) -> Iterator[str]:
    with closing(load_workbook(source.path, read_only=True, data_only=True)) as book:
        for sheet in book.worksheets:
            place = -1
            for row in islice(sheet.iter_rows(), LOOKED_AT_ROWS):
                if place < 0:
                    cells = [cell_text(cell) for cell in row]
                    if is_billing_header(cells):
                        at = find_billing_columns(cells).at
                        place = (at.get("amount") or at["gross"]).place
                elif place < len(row) and isinstance(row[place].value, int | float):
                    for named in _NAMED.findall(str(row[place].number_format)):
                        yield currency_code("".join(named), preferred)
