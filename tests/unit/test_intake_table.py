"""Tables in delimited text: delimiter and header by proof, no row lost, no cell changed."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import open_source
from wattledger_audit.intake.table import Row, Table, head_rows, normal_header, open_table
from wattledger_audit.intake.text_table import CELL_CHARACTERS

WANTED = {"tenant", "cost"}


def is_header(cells: Sequence[str]) -> bool:
    return {normal_header(cell) for cell in cells} >= WANTED


def table_of(folder: Path, data: str | bytes, delimiter: str | None = None) -> Table:
    path = folder / "in.csv"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return open_table(open_source(path), ReadOptions(delimiter=delimiter), is_header)


def rows_of(folder: Path, data: str | bytes, delimiter: str | None = None) -> list[tuple[int, list[str]]]:
    return [(line, cells) for line, cells in table_of(folder, data, delimiter).rows]


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("tenant,cost\nacme,5\n", ","),
        ("tenant;cost\nacme;1,5\nb;c,d\n", ";"),
        ("tenant\tcost\na,b\t1,5\n", "\t"),
        ("tenant|cost\na;b|1,5\n", "|"),
        ("sep=;\ntenant;cost\nacme;1,5\n", ";"),
        ('"sep=;"\ntenant;cost\nacme;1,5\n', ";"),
        ("\ufeffsep=|\r\ntenant|cost\r\nacme|1\r\n", "|"),
        ("Export, made on 1 October, 2026\n\ntenant;cost\nacme;1,5\n", ";"),
        ('tenant;cost\n"a;b";"1,5"\n"c,d,e";2\n', ";"),
        ('"tenant";"cost";"a,b,c"\n1;2;3\n', ";"),
    ],
)
def test_the_delimiter_is_proven_by_the_rows(tmp_path: Path, text: str, delimiter: str) -> None:
    table = table_of(tmp_path, text)
    names = {",": "comma", ";": "semicolon", "\t": "tab", "|": "|"}
    assert table.how == f"delimiter {names[delimiter]}"
    assert table.headers[:2] == ["tenant", "cost"]
    assert all(len(row.cells) == len(table.headers) for row in table.rows)


def test_a_said_delimiter_overrides(tmp_path: Path) -> None:
    assert rows_of(tmp_path, "tenant^cost\na,b^5\n", "^") == [(2, ["a,b", "5"])]
    assert rows_of(tmp_path, "tenant\tcost\na\t5\n", "tab") == [(2, ["a", "5"])]
    assert rows_of(tmp_path, "sep=,\ntenant;cost\na;5\n", ";") == [(3, ["a", "5"])]
    with pytest.raises(InputRefused, match=r"--delimiter 'ab' is no delimiter"):
        table_of(tmp_path, "tenant,cost\n", "ab")


def test_title_rows_and_empty_rows_are_skipped_and_lines_stay_true(tmp_path: Path) -> None:
    table = table_of(tmp_path, "Cost report\nMade by,Finance\n\n,,\nTenant , COST\n\nacme,1\n,\n b ,2\n")
    assert (table.headers, table.header_line) == (["Tenant", "COST"], 5)
    assert list(table.rows) == [Row(7, ["acme", "1"]), Row(9, ["b", "2"])]


def test_a_header_below_sixty_rows_is_not_looked_for(tmp_path: Path) -> None:
    assert rows_of(tmp_path, "note\n" * 59 + "tenant,cost\na,1\n") == [(61, ["a", "1"])]
    with pytest.raises(InputRefused, match=r"in.csv: none of its first 60 rows is the header"):
        table_of(tmp_path, "note\n" * 60 + "tenant,cost\na,1\n")
    with pytest.raises(InputRefused, match=r"check the column names"):
        table_of(tmp_path, "who,what\na,1\n")


def test_ragged_rows_come_as_they_are(tmp_path: Path) -> None:
    text = "tenant,cost,note\na,1\nb,2,x,y,z\nc,3,\n"
    assert rows_of(tmp_path, text) == [(2, ["a", "1"]), (3, ["b", "2", "x", "y", "z"]), (4, ["c", "3", ""])]


def test_line_ends_inside_cells_do_not_break_rows_and_the_line_is_the_first(tmp_path: Path) -> None:
    text = 'tenant,cost\r\n"a\r\nb ""x""",1\r\n"c,\n\nd",2\r\ne,3'
    assert rows_of(tmp_path, text) == [(2, ['a\nb "x"', "1"]), (4, ["c,\n\nd", "2"]), (7, ["e", "3"])]


def test_byte_order_marks_before_the_header_and_the_first_row_are_gone(tmp_path: Path) -> None:
    table = table_of(tmp_path, '\ufeff"tenant",cost\n\ufeff"012",1\n')
    assert table.headers == ["tenant", "cost"]
    assert list(table.rows) == [Row(2, ["012", "1"])]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('tenant,cost\na,1\n"b,2\nc,3\nd,4\n', 3),
        ('tenant,cost\na,1\nb,"2\n"c",3\nd,4\n', 3),
        ('tenant,cost,x\na,"1,0\nb,"2,0",1\nd,4,1\n', 2),
        ('tenant,cost\na,1\nb,"2', 3),
        ('tenant,cost\n"a" b,"1\nc",2\n', 2),
        ("tenant,cost\na,1\n" + 'b,"2\n' + "c,3 and more text\n" * 1_100_000, 3),
    ],
)
def test_a_quote_that_swallows_rows_is_refused_with_the_line_where_it_opens(
    tmp_path: Path, text: str, line: int
) -> None:
    with pytest.raises(InputRefused, match=rf'^in.csv, line {line}: a quote \("\) opens a cell here'):
        rows_of(tmp_path, text)


def test_quotes_that_no_rule_covers_stay_on_their_line(tmp_path: Path) -> None:
    text = 'tenant,cost\n"Acme" GmbH,1\nØ 5" disk,2\n"x" ,3\n'
    assert rows_of(tmp_path, text) == [(2, ["Acme GmbH", "1"]), (3, ['Ø 5" disk', "2"]), (4, ["x", "3"])]


def test_a_cell_larger_than_the_module_csv_takes_by_itself_is_read(tmp_path: Path) -> None:
    tags = "x" * 300_000
    assert rows_of(tmp_path, f"tenant,cost\n{tags},1\n") == [(2, [tags, "1"])]


def test_a_cell_that_no_table_has_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "huge.csv"
    path.write_text("a,b\n1,2\n3," + "x" * (CELL_CHARACTERS + 1) + "\n")
    with pytest.raises(InputRefused, match=r"huge\.csv, line 3: a cell has more than 16,777,216 characters.*shorten"):
        list(open_table(open_source(path), ReadOptions(), lambda cells: cells[0] == "a").rows)


def test_rows_stream(tmp_path: Path) -> None:
    rows = table_of(tmp_path, "tenant,cost\n" + "a,1\n" * 200_000 + '"b,2\n').rows
    assert next(rows) == Row(2, ["a", "1"])
    with pytest.raises(InputRefused, match=r"line 200002: a quote"):
        list(rows)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a,b,c\n1,2,3\n", ["a", "b", "c"]),
        ("Report\n\na;b\n1;2,5\n3;4,5\n", ["Report"]),
        ("sep=;\na;b\n", ["a", "b"]),
        ('{"jobs": [1, 2]}', ['{"jobs": [1', "2]}"]),
        ("one\ntwo\n", ["one"]),
        ('"never closed\na,b\n', []),
    ],
)
def test_head_rows_never_raise(tmp_path: Path, text: str, first: list[str]) -> None:
    (tmp_path / "in.csv").write_text(text)
    rows = head_rows(open_source(tmp_path / "in.csv"))
    assert rows[:1] == ([first] if first else [])


def test_head_rows_are_as_many_as_asked(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,b\n" * 100_000)
    assert len(head_rows(open_source(tmp_path / "in.csv"))) == 40
    assert len(head_rows(open_source(tmp_path / "in.csv"), 3)) == 3


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("\ufeffInvoice ID", "invoice_id"), (" lineItem/UnblendedCost ", "lineitem_unblendedcost"),
        ("GPU - model", "gpu_model"),
        ("usage.amount", "usage_amount"), ("Cost (EUR)", "cost_(eur)"), ("__x__", "x"), ("", ""),
        ("a\u00a0\nb", "a_b"),
    ],
)  # fmt: skip
def test_headers_are_compared_in_one_form(text: str, normal: str) -> None:
    assert normal_header(text) == normal
