"""The workbook: what a spreadsheet finds in it."""

import os
import time
from pathlib import Path
from zipfile import ZipFile

import openpyxl
import pytest
from openpyxl.utils.escape import unescape
from openpyxl.worksheet.worksheet import Worksheet
from wattledger_audit.report.model import Report
from wattledger_audit.report.tables import build_tables
from wattledger_audit.report.workbook import write_workbook

from tests.unit.report_small import FORMULA, row, small_report


def written(report: Report, path: Path) -> openpyxl.Workbook:
    return openpyxl.load_workbook(write_workbook(report, build_tables(report), path))


def column(sheet: Worksheet, name: str) -> list[object]:
    headers = [cell.value for cell in sheet[1]]
    return [cells[headers.index(name)].value for cells in sheet.iter_rows(min_row=2)]


def test_the_verdict_is_first_and_every_table_has_a_sheet(tmp_path: Path) -> None:
    report = small_report()
    book = written(report, tmp_path / "audit.xlsx")
    assert book.sheetnames == ["Verdict", *(table.name for table in build_tables(report))]
    texts = {str(cell.value) for cells in book["Verdict"].iter_rows() for cell in cells}
    assert {report.headline, report.next_answer, "a line", "EUR", "3 rows"} <= texts


def test_numbers_are_numbers_with_formats_unknown_is_empty_and_nothing_else_is_a_number(tmp_path: Path) -> None:
    sheet = written(small_report(), tmp_path / "a.xlsx")["tenants"]
    assert column(sheet, "margin") == [None, 3, -2.005]
    assert column(sheet, "measured_ratio") == [0, 0, 0]
    assert column(sheet, "tenant") == ["b", FORMULA, "007"]
    formats = {str(cell.value): sheet.cell(2, place).number_format for place, cell in enumerate(sheet[1], 1)}
    assert formats["billed"] == "#,##0.00"
    assert formats["break_even_per_gpu_hour"] == "#,##0.0000"
    assert formats["measured_ratio"] == "0.0%"
    assert formats["unmeasured_rows"] == "#,##0"


@pytest.mark.parametrize(
    "name",
    [
        FORMULA, "+1", "-1", "@x", "007", "1e5", "2026-10-01", "https://example.org/", "mailto:a@b", "{=1}", "TRUE",
        " ", "a\tb\nc", "_x0041_", "é😀", "\x1b[31m", "<r><t>x</t></r>", "<b>&",
    ],
)  # fmt: skip
def test_a_text_stays_that_text_whatever_it_looks_like(name: str, tmp_path: Path) -> None:
    book = written(small_report(tenants=[row(name)], headline=name), tmp_path / "a.xlsx")
    for cell in (book["tenants"]["A2"], book["Verdict"]["B6"]):
        assert cell.data_type == "s"
        assert cell.hyperlink is None
        # A control character is written as `_x001B_`, as sheets do; openpyxl leaves that to its reader.
        assert name.strip() in (str(cell.value).strip(), unescape(str(cell.value)))


def test_a_text_too_long_for_a_cell_is_cut_where_that_shows(tmp_path: Path) -> None:
    value = written(small_report(tenants=[row("x" * 40_000)]), tmp_path / "a.xlsx")["tenants"]["A2"].value
    assert len(str(value)) == 32_767
    assert str(value).endswith("x…")


def test_the_header_stays_in_view_columns_can_be_filtered_and_are_wide_enough_to_read(tmp_path: Path) -> None:
    book = written(small_report(), tmp_path / "a.xlsx")
    for name in book.sheetnames[1:]:
        sheet = book[name]
        assert sheet.freeze_panes == "A2"
        assert sheet.auto_filter.ref == sheet.dimensions
        # Neighbours of the same width share one entry.
        shared = [(one.width, one.min or 0, one.max or 0) for one in sheet.column_dimensions.values()]
        widths = [width for width, first, last in shared for _ in range(first, last + 1)]
        headers = [len(str(cell.value)) for cell in sheet[1]]
        assert all(width > length for width, length in zip(widths, headers, strict=True)), name


def test_a_sheet_that_can_not_hold_all_rows_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wattledger_audit.report.workbook.MAX_ROWS", 2)
    book = written(small_report(), tmp_path / "a.xlsx")
    assert column(book["tenants"], "tenant") == ["b", FORMULA]
    texts = {str(cells[0].value): str(cells[1].value) for cells in book["Verdict"].iter_rows()}
    assert texts["Sheet tenants"] == "the first 2 of 3 rows: all are in tables/tenants.csv and .parquet"
    assert texts["Sheet files"] == "2 rows"


def test_the_bytes_hold_no_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report, paths = small_report(), (tmp_path / "one" / "a.xlsx", tmp_path / "two" / "b.xlsx")
    for path, zone in zip(paths, ("UTC", "Asia/Tokyo"), strict=True):
        monkeypatch.setitem(os.environ, "TZ", zone)
        time.tzset()
        write_workbook(report, build_tables(report), path)
        time.sleep(1.1)
    monkeypatch.undo()
    time.tzset()
    assert paths[0].read_bytes() == paths[1].read_bytes()
    with ZipFile(paths[0]) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
