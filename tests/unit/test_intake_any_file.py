"""Any bytes are a text that reads to its end or are refused; any table that a writer of CSV makes comes back."""

import csv
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import TEXT, open_source, text_lines
from wattledger_audit.intake.table import head_rows, open_table

MAGIC = (b"", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\x1f\x8b", b"PK\x03\x04", b"PAR1", b"\xd0\xcf\x11\xe0")
CELLS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), include_characters='\n;|\t",'), max_size=6
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any") / "in.csv"


@given(st.sampled_from(MAGIC), st.one_of(st.binary(max_size=200), st.text(max_size=60).map(str.encode)))
def test_any_bytes_read_to_their_end_or_are_refused_by_name(file: Path, magic: bytes, data: bytes) -> None:
    file.write_bytes(magic + data)
    try:
        source = open_source(file)
    except InputRefused as refused:
        assert str(refused).startswith("in.csv")
        return
    head_rows(source)
    if source.kind != TEXT:
        return
    assert "\n".join(text_lines(source)).strip("\n\ufeff") == source.head.replace("\n\ufeff", "\n").strip("\n\ufeff")


@given(
    st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=8),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_a_table_comes_back_as_it_was_written(
    file: Path, rows: list[list[str]], delimiter: str, end: str, encoding: str
) -> None:
    headers = ["tenant", "cost", "note"]
    out = StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL).writerows([headers, *rows])
    file.write_bytes(out.getvalue().encode(encoding))
    table = open_table(open_source(file), ReadOptions(), lambda cells: list(cells) == headers)
    wanted = [[cell.strip() for cell in row] for row in rows]
    assert [row.cells for row in table.rows] == [row for row in wanted if any(row)]
