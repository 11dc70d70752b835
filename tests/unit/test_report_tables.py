"""The report's tables, and those tables as CSV and Parquet."""

import csv
from decimal import Decimal
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.report.model import Report
from wattledger_audit.report.report_json import read_report_json, write_report_json
from wattledger_audit.report.table_files import write_tables
from wattledger_audit.report.tables import DECIMAL, INT, TEXT, Column, NamedTable, build_tables, exact

from tests.report_sample import full_report, leakage_report, usage_only_report
from tests.unit.report_small import FORMULA, row, small_report, step

NAMES = {
    "files", "bridge", "tenants", "skus", "repricing", "waterfall", "idle", "waiting", "tokens", "tie_out", "coverage",
    "discrepancies", "rejected", "assumptions", "bridge_evidence", "idle_policies", "walk", "waterfall_reasons",
}  # fmt: skip
KINDS = {TEXT: str, DECIMAL: Decimal, INT: int}


def tables() -> dict[str, NamedTable]:
    return {table.name: table for table in build_tables(small_report())}


def records(name: str) -> list[dict[str, object]]:
    table = tables()[name]
    return [dict(zip([column.name for column in table.columns], cells, strict=True)) for cells in table.rows]


def one_column(kind: str, *cells: str | Decimal | int | None) -> NamedTable:
    return NamedTable("t", (Column("c", kind),), tuple((cell,) for cell in cells))


def parquet_column(tmp_path: Path, table: NamedTable) -> pyarrow.ChunkedArray:
    write_tables([table], tmp_path)
    return pyarrow.parquet.read_table(tmp_path / "tables" / "t.parquet").column("c")


def test_every_part_of_the_report_has_a_table_and_every_cell_is_of_its_columns_kind() -> None:
    found = tables()
    assert set(found) == NAMES
    for table in found.values():
        assert table.rows, table.name
        for cells in table.rows:
            assert len(cells) == len(table.columns)
            for column, cell in zip(table.columns, cells, strict=True):
                assert cell is None or type(cell) is KINDS[column.kind], (table.name, column, cell)


def test_a_report_without_anything_in_it_still_has_every_table() -> None:
    parts = ("files", "bridge", "tenants", "skus", "repricing", "walk", "waterfall", "idle", "tokens", "tie_out")
    empty = small_report(**{name: [] for name in (*parts, "rejected", "discrepancies", "method", "assumptions")})
    found = {table.name: len(table.rows) for table in build_tables(empty)}
    assert set(found) == NAMES
    assert {name for name, rows in found.items() if rows} == {"coverage"}


def test_rows_keep_the_reports_order_and_its_figures_to_the_last_digit() -> None:
    assert [one["tenant"] for one in records("tenants")] == ["b", FORMULA, "007"]
    assert records("files")[0]["gpu_hours"] == Decimal("41200.125")
    assert records("files")[1]["money"] == "36780.005 EUR"
    assert records("tenants")[0]["margin"] is None
    assert records("tenants")[0]["below_cost"] == "yes"


def test_parts_inside_parts_have_tables_of_their_own() -> None:
    assert [one["idle_policy"] for one in records("idle_policies")] == ["apart", "weighted", "even", "normal"] * 4
    assert [(one["level"], one["idle_share"]) for one in records("idle_policies")][-1] == ("sku", Decimal(3))
    first = records("bridge_evidence")[:3]
    assert [(one["kind"], one["name"], one["amount"]) for one in first] == [
        ("tenant", FORMULA, Decimal(-3100)),
        ("invoice", "billing.csv:7 INV-1", None),
        ("job", "job-1", None),
    ]
    assert [(one["place"], one["value"]) for one in records("walk")] == [(1, "10 kWh"), (2, "12 EUR")]
    assert records("waterfall_reasons") == [
        {"step": "free", "reason": "nobody", "gpu_hours": Decimal(20000), "cost": None}
    ]
    assert (records("waiting")[0]["node"], records("waiting")[0]["matched_gpu_hours"]) == ("n1", Decimal(16))


def test_coverage_has_a_row_a_measure_with_its_unit() -> None:
    found = {str(one["measure"]): (one["value"], one["unit"]) for one in records("coverage")}
    assert found["modelled_ratio"] == (Decimal("0.98"), "ratio")
    assert found["billed_matched_ratio"] == (None, "ratio")
    assert found["rejected_rows"] == (Decimal(6), "rows")
    assert found["runs_without_gpu_count"] == (Decimal(1), "runs")
    assert found["cpu_only_runs"] == (Decimal(0), "runs")


@pytest.mark.parametrize("text", ["", "12 %", "NaN", "Infinity", "1,000"])
def test_what_is_no_decimal_is_named_and_never_guessed(text: str) -> None:
    with pytest.raises(ValueError, match="stands where the report has a decimal"):
        exact(text)
    with pytest.raises(ValueError, match="stands where the report has a decimal"):
        build_tables(small_report(tenants=[row("t", margin=text)]))


def test_csv_has_safe_texts_plain_numbers_and_empty_cells_for_unknown(tmp_path: Path) -> None:
    table = NamedTable(
        "t",
        (Column("name", TEXT), Column("amount", DECIMAL), Column("rows", INT)),
        (
            (FORMULA, Decimal("-1E+3"), -5),
            ("@a", None, None),
            ("a,b\n", Decimal("0.000000000001"), 10**20),
            ("007", Decimal("1.50"), 0),
        ),
    )
    write_tables([table], tmp_path)
    raw = (tmp_path / "tables" / "t.csv").read_bytes()
    assert b"\r" not in raw
    assert list(csv.reader(raw.decode().splitlines(keepends=True))) == [
        ["name", "amount", "rows"],
        ["'" + FORMULA, "-1000", "-5"],
        ["'@a", "", ""],
        ["a,b\n", "0.000000000001", "100000000000000000000"],
        ["007", "1.50", "0"],
    ]


def test_parquet_has_decimals_at_the_widest_scale_nulls_and_the_text_itself(tmp_path: Path) -> None:
    found = parquet_column(tmp_path, one_column(DECIMAL, Decimal("1.5"), None, Decimal("-20.000000000001")))
    assert found.type == pyarrow.decimal128(38, 12)
    assert found.to_pylist() == [Decimal("1.5"), None, Decimal("-20.000000000001")]
    assert parquet_column(tmp_path, one_column(TEXT, FORMULA, None)).to_pylist() == [FORMULA, None]
    counts = parquet_column(tmp_path, one_column(INT, 7, None))
    assert (counts.type, counts.to_pylist()) == (pyarrow.int64(), [7, None])


@pytest.mark.parametrize(
    ("kind", "cells", "type_", "read"),
    [
        (DECIMAL, (Decimal("1" + "0" * 30), Decimal("1E-7")), pyarrow.decimal128(38, 7), None),
        (DECIMAL, (Decimal("1" + "0" * 30), Decimal("1E-8")), pyarrow.string(), ["1" + "0" * 30, "0.00000001"]),
        (DECIMAL, (None, None), pyarrow.decimal128(38, 0), None),
        (DECIMAL, (Decimal("1E+5"),), pyarrow.decimal128(38, 0), [Decimal(100000)]),
        (INT, (2**63 - 1, -(2**63)), pyarrow.int64(), None),
        (INT, (2**63, None), pyarrow.decimal128(38, 0), [Decimal(2**63), None]),
        (INT, (10**40,), pyarrow.string(), ["1" + "0" * 40]),
    ],
)
def test_a_parquet_column_takes_the_narrowest_type_that_loses_no_digit(
    kind: str,
    cells: tuple[Decimal | int | None, ...],
    type_: pyarrow.DataType,
    read: list[object] | None,
    tmp_path: Path,
) -> None:
    found = parquet_column(tmp_path, one_column(kind, *cells))
    assert (found.type, found.to_pylist()) == (type_, list(cells) if read is None else read)


@pytest.mark.parametrize("report", [small_report(), full_report(), leakage_report(), usage_only_report()])
def test_every_table_is_written_as_both_and_reads_back_the_same(report: Report, tmp_path: Path) -> None:
    built = build_tables(report)
    written = write_tables(built, tmp_path)
    assert {path.name for path in written} == {f"{name}{end}" for name in NAMES for end in (".csv", ".parquet")}
    for table in built:
        back = pyarrow.parquet.read_table(tmp_path / "tables" / f"{table.name}.parquet")
        assert back.column_names == [column.name for column in table.columns]
        assert [tuple(one.values()) for one in back.to_pylist()] == list(table.rows), table.name


def test_report_json_reads_back_as_the_same_report(tmp_path: Path) -> None:
    report = small_report(headline="é — \u2028 <script>", bridge=[step("expected", None, "total")])
    path = write_report_json(report, tmp_path / "out" / "report.json")
    assert read_report_json(path) == report
    assert path.read_bytes().endswith(b"}\n")
    assert b"\r" not in path.read_bytes()


@pytest.mark.parametrize(
    ("text", "where"),
    [("{}", "product: Field required"), ("[1]", "the file"), ("{", "the file: Invalid JSON")],
)
def test_a_file_that_is_no_report_is_refused_by_name_and_place(text: str, where: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(InputRefused, match=rf"report\.json: is no report of this version: {where}"):
        read_report_json(path)


def test_a_report_that_is_not_there_is_refused_too(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match=r"gone\.json: can't be read: No such file"):
        read_report_json(tmp_path / "gone.json")
