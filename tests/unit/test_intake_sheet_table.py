"""Workbooks and Parquet: the sheet that has the header, typed cells exact, damaged files refused."""

import zipfile
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from openpyxl import Workbook
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import open_source
from wattledger_audit.intake.table import Exact, Row, Table, head_rows, normal_header, open_table


def is_header(cells: Sequence[str]) -> bool:
    return {normal_header(cell) for cell in cells} >= {"tenant", "cost"}


def sheet_of(folder: Path, *sheets: tuple[str, list[list[object]]], hidden: Sequence[str] = ()) -> Path:
    book = Workbook()
    book.remove(book.worksheets[0])
    for title, rows in sheets:
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
        sheet.sheet_state = "hidden" if title in hidden else "visible"
    path = folder / "in.xlsx"
    book.save(path)
    return path


def open_book(path: Path) -> Table:
    return open_table(open_source(path), ReadOptions(), is_header)


def test_typed_cells_are_exact_and_text_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    path = sheet_of(
        tmp_path,
        (
            "Data",
            [
                ["Cost report"],
                [],
                ["Tenant", "Cost", "When", "Day", "Note", "End"],
                ["007", 1355.9, datetime(2026, 9, 1, 10, 30), date(2026, 9, 30), "1.000", True],
                ["acme", 12345678901234, datetime(2026, 9, 1), None, "#REF!", None],
                [],
                [None, 1e-07, 5.0, 0.1, 1.5e15],
                ["b", -0.3000000001, 45231.5, "=1+1"],
            ],
        ),
    )
    table = open_book(path)
    rows = list(table.rows)
    assert (table.headers, table.header_line, table.how) == (
        ["Tenant", "Cost", "When", "Day", "Note", "End"], 3, "sheet 'Data'",
    )  # fmt: skip
    assert rows == [
        Row(4, ["007", "1355.9", "2026-09-01T10:30:00", "2026-09-30", "1.000", "TRUE"]),
        Row(5, ["acme", "12345678901234", "2026-09-01T00:00:00", "", "#REF!", ""]),
        Row(7, ["", "0.0000001", "5", "0.1", "1500000000000000", ""]),
        Row(8, ["b", "-0.3000000001", "45231.5", "", "", ""]),
    ]
    exact = [[isinstance(cell, Exact) for cell in row.cells] for row in rows]
    assert exact[0] == [False, True, True, True, False, False]
    assert exact[1] == [False, True, True, False, False, False]


def test_a_date_cell_with_a_fraction_is_true_to_the_second(tmp_path: Path) -> None:
    book = Workbook()
    sheet = book.worksheets[0]
    sheet.append(["tenant", "cost"])
    sheet.append([45231 + 1 / 3, 45231.999999999])
    for cell in sheet[2]:
        cell.number_format = "yyyy-mm-dd hh:mm"
    book.save(tmp_path / "in.xlsx")
    assert [row.cells for row in open_book(tmp_path / "in.xlsx").rows] == [
        ["2023-11-01T08:00:00", "2023-11-02T00:00:00"]
    ]


HEAD: list[object] = ["tenant", "cost"]


def test_the_sheet_that_has_the_header_is_read_and_hidden_ones_last(tmp_path: Path) -> None:
    path = sheet_of(
        tmp_path, ("Old", [HEAD, ["z", 9]]), ("Cover", [["Cost report"]]), ("Now", [HEAD, ["a", 1]]), hidden=["Old"]
    )
    assert [row.cells for row in open_book(path).rows] == [["a", "1"]]
    path = sheet_of(tmp_path, ("Cover", [["Cost report"]]), ("Only", [HEAD, ["z", 9]]), hidden=["Only"])
    assert [row.cells for row in open_book(path).rows] == [["z", "9"]]


def test_two_sheets_with_the_header_or_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match=r"sheets 'Sep', 'Oct' all have the header"):
        open_book(sheet_of(tmp_path, ("Sep", [HEAD, ["a", 1]]), ("Oct", [HEAD, ["a", 1]])))
    with pytest.raises(InputRefused, match=r"no sheet has the header"):
        open_book(sheet_of(tmp_path, ("Sep", [["who", "what"]])))


def test_merged_cells_give_their_value_once(tmp_path: Path) -> None:
    book = Workbook()
    sheet = book.worksheets[0]
    for row in (["tenant", "cost"], ["acme", 1], [None, 2], ["b", 3]):
        sheet.append(row)
    sheet.merge_cells("A2:A3")
    book.save(tmp_path / "in.xlsx")
    assert [row.cells for row in open_book(tmp_path / "in.xlsx").rows] == [["acme", "1"], ["", "2"], ["b", "3"]]


def replaced(path: Path, member: str, change: Callable[[bytes], bytes]) -> None:
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in parts.items():
            new.writestr(name, change(data) if name == member else data)


def test_a_workbook_cut_inside_its_rows_is_refused_when_the_cut_is_reached(tmp_path: Path) -> None:
    path = sheet_of(tmp_path, ("Sep", [HEAD, *[["a", 1]] * 5_000]))
    replaced(path, "xl/worksheets/sheet1.xml", lambda data: data[:-300])
    rows = open_book(path).rows
    assert next(rows) == Row(2, ["a", "1"])
    with pytest.raises(InputRefused, match=r"in.xlsx is a damaged workbook"):
        list(rows)


@pytest.mark.parametrize("member", ["xl/workbook.xml", "xl/worksheets/sheet1.xml"])
def test_a_damaged_workbook_is_refused(tmp_path: Path, member: str) -> None:
    path = sheet_of(tmp_path, ("Sep", [HEAD, ["a", 1]]))
    replaced(path, member, lambda data: data[:60])
    with pytest.raises(InputRefused, match=r"in.xlsx is a damaged workbook"):
        open_book(path)
    assert head_rows(open_source(path)) == []


def test_a_workbook_with_broken_bytes_is_refused(tmp_path: Path) -> None:
    path = sheet_of(tmp_path, ("Sep", [HEAD, *[["a", number] for number in range(9_999)]]))
    data = bytearray(path.read_bytes())
    at = data.index(b"xl/worksheets/sheet1.xml") + 2_000
    data[at : at + 40] = b"\xff" * 40
    path.write_bytes(data)
    with pytest.raises(InputRefused, match=r"in.xlsx is a damaged workbook"):
        list(open_book(path).rows)


def test_parquet_columns_become_exact_text(tmp_path: Path) -> None:
    zoned, bare = pa.timestamp("ns", tz="Europe/Berlin"), pa.timestamp("ms")
    path = tmp_path / "in.parquet"
    moment = datetime(2026, 10, 25, 0, 30)
    pq.write_table(
        pa.table(
            {
                "tenant": pa.array(["007", None, " acme "]).dictionary_encode(),
                "cost": pa.array([Decimal("1.2300"), None, Decimal("-5.0000")], pa.decimal128(12, 4)),
                "float": pa.array([1e-07, 0.1, None], pa.float64()),
                "single": pa.array([0.1, 2.0, None], pa.float32()),
                "whole": pa.array([1, 2, None], pa.int64()),
                "zoned": pa.array([moment, None, None], zoned),
                "bare": pa.array([moment, None, None], bare),
                "day": pa.array([date(2026, 9, 1), None, None]),
                "flag": pa.array([True, False, None]),
                "tags": pa.array([[{"k": "ü"}], None, None]),
            }
        ),
        path,
    )
    table = open_table(open_source(path), ReadOptions(), is_header)
    rows = list(table.rows)
    assert table.header_line == 0
    assert rows[0] == Row(
        1,
        ["007", "1.23", "0.0000001", "0.1", "1", "2026-10-25T00:30:00Z", "2026-10-25T00:30:00", "2026-09-01", "true",
         '[{"k": "ü"}]'],
    )  # fmt: skip
    assert [isinstance(cell, Exact) for cell in rows[0].cells] == [False, *[True] * 7, False, False]
    assert rows[1].cells == ["", "", "0.1", "2", "2", "", "", "", "false", ""]
    assert rows[2].cells == ["acme", "-5", *[""] * 8]
    assert head_rows(open_source(path), 2) == [table.headers, rows[0].cells]


def test_a_cut_parquet_file_and_foreign_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"who": ["a"]}), path)
    with pytest.raises(InputRefused, match=r"its columns who are not those"):
        open_table(open_source(path), ReadOptions(), is_header)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputRefused, match=r"is a damaged Parquet file"):
        open_table(open_source(path), ReadOptions(), is_header)
    assert head_rows(open_source(path)) == []


def test_head_rows_of_a_workbook_hold_every_sheet(tmp_path: Path) -> None:
    path = sheet_of(tmp_path, ("Cover", [["Cost report"]]), ("Data", [HEAD, ["a", 1]]))
    assert head_rows(open_source(path)) == [["Cost report"], ["tenant", "cost"], ["a", "1"]]
