"""Tables as files: CSV for people and spreadsheets, Parquet for engines. The same tables give the same bytes."""

import csv
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow
import pyarrow.parquet

from wattledger_audit.intake.safe_cell import safe_cell
from wattledger_audit.report.tables import INT, TEXT, Cell, Column, NamedTable

_DIGITS = 38
_INT64 = range(-(1 << 63), 1 << 63)


def write_tables(tables: Sequence[NamedTable], out: Path) -> list[Path]:
    """Write `tables/<name>.csv` and `tables/<name>.parquet` under `out`; returns the files.

    Unknown is an empty cell in CSV and NULL in Parquet. CSV texts are safe cells; Parquet keeps the text itself.
    """
    folder = out / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for table in tables:
        for path, write in (
            (folder / f"{table.name}.csv", _write_csv),
            (folder / f"{table.name}.parquet", _write_parquet),
        ):
            write(table, path)
            written.append(path)
    return written


def _write_csv(table: NamedTable, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.name for column in table.columns])
        writer.writerows([_csv_cell(cell) for cell in row] for row in table.rows)


def _csv_cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return safe_cell(cell)
    return plain_digits(cell)


def plain_digits(number: Decimal | int) -> str:
    """The number in full, without an exponent."""
    return format(number, "f") if isinstance(number, Decimal) else str(number)


def _write_parquet(table: NamedTable, path: Path) -> None:
    arrays = [_array(column, [row[place] for row in table.rows]) for place, column in enumerate(table.columns)]
    names = [column.name for column in table.columns]
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(arrays, names=names), path)


def _array(column: Column, cells: Sequence[Cell]) -> pyarrow.Array:
    """One column: numbers that do not fit their type make it a text column, so that no digit is lost."""
    if column.kind == TEXT:
        return pyarrow.array(cells, pyarrow.string())
    numbers = [cell for cell in cells if isinstance(cell, Decimal | int)]
    if column.kind == INT and all(number in _INT64 for number in numbers):
        return pyarrow.array(cells, pyarrow.int64())
    exact = [None if cell is None else Decimal(cell) for cell in cells]
    scale, whole = _widths([number for number in exact if number is not None])
    if scale + whole <= _DIGITS:
        return pyarrow.array(exact, pyarrow.decimal128(_DIGITS, scale))
    return pyarrow.array([None if number is None else plain_digits(number) for number in exact], pyarrow.string())


def _widths(numbers: Sequence[Decimal]) -> tuple[int, int]:
    """The most digits behind the point, and the most before it."""
    scale = whole = 0
    for number in numbers:
        _, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int), "infinities and NaN are no cells"
        scale = max(scale, -exponent)
        whole = max(whole, len(digits) + exponent)
    return scale, whole
