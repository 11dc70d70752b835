"""`wattledger inspect`: what a file is taken for, what was decided about it, and a header that would be read."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook
from wattledger_audit.column_guess import guess_columns
from wattledger_audit.command_inspect import inspect_command
from wattledger_audit.intake.record import BILLING as BILLING_ROLE
from wattledger_audit.intake.record import USAGE as USAGE_ROLE

from tests.unit.audit_files import BILLING, COSTS, USAGE, run, write


def inspected(*args: str, code: int = 0) -> Any:
    done = run(inspect_command, *args, "--json")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)["files"]


def one(folder: Path, text: str, *args: str, code: int = 0, name: str = "file.csv") -> Any:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    (found,) = inspected(str(path), *args, code=code)
    return found


def test_each_file_is_named_with_its_format_and_reason(tmp_path: Path) -> None:
    found = inspected(*write(tmp_path, usage=USAGE, billing=BILLING, costs=COSTS))
    assert [(each["taken"]["role"], each["taken"]["format"], each["status"]) for each in found] == [
        ("usage", "canonical usage table", "read"), ("billing", "billing table", "read"),
        ("costs", "cost file", "cost file"),
    ]  # fmt: skip
    assert [(each["rows"], each["records"]) for each in found] == [(7, 7), (7, 7), (None, 0)]
    assert "canonical names" in found[0]["taken"]["why"]
    assert found[2]["sections"]["pools"] == "6 entries"


def test_the_first_rows_are_shown_as_understood_in_utc_and_local_time(tmp_path: Path) -> None:
    text = "job_id;tenant;node;gpus;start;end\nj;a;n1;2;2026-10-25 02:30+02:00;26.10.2026 01:00\n"
    found = one(tmp_path, text, "--timezone", "Europe/Berlin")
    record = found["first"][0]
    assert record["start"] == "2026-10-25T00:30:00Z = 2026-10-25T02:30:00+02:00 Europe/Berlin"
    assert record["end"] == "2026-10-26T00:00:00Z = 2026-10-26T01:00:00+01:00 Europe/Berlin"
    assert (record["gpus"], record["tenant"], record["line"]) == ("2", "a", "2")
    assert found["table"]["how"] == "delimiter semicolon"
    assert found["table"]["columns"] == {
        "job_id": "job", "tenant": "tenant", "node": "node", "gpus": "gpus", "start": "start", "end": "end",
    }  # fmt: skip
    assert "day first where '.' separates" in found["table"]["decided"]["dates"]


def test_what_a_spreadsheet_export_was_decided_to_write_is_said(tmp_path: Path) -> None:
    text = (
        "sep=;\nRechnungen Oktober\n\nKunde;Rechnung;Von;Bis;SKU;Menge;Betrag (EUR)\n"
        "acme;1;01.10.2026;31.10.2026;H100;1.900,5;3.800,25\n;;;;H100 Spot;10;(12,50)\nSumme;;;;;;3.787,75\n"
    )
    found = one(tmp_path, text)
    assert found["table"]["header_line"] == 4
    decided = found["table"]["decided"]
    assert decided["numbers"] == "decimal comma"
    assert "day first" in decided["dates"]
    assert decided["period ends"] == "its last day is in it"
    assert decided["currency"] == "EUR"
    assert [record["amount"] for record in found["first"]] == ["3800.25 EUR", "-12.50 EUR"]
    assert [(each["code"], each["count"], each["line"]) for each in found["rejected"]] == [("total_row", 1, 7)]


@pytest.mark.parametrize(("rows", "shown"), [("0", 0), ("2", 2), ("100", 7)])
def test_as_many_rows_are_shown_as_asked_and_all_are_counted(tmp_path: Path, rows: str, shown: int) -> None:
    found = one(tmp_path, USAGE, "--rows", rows)
    assert (len(found["first"]), found["records"]) == (shown, 7)


def test_refused_lines_are_counted_by_reason_with_one_example(tmp_path: Path) -> None:
    row = "{},acme,n1,1,2026-10-03T00:00Z,2026-10-02T00:00Z\n"
    found = one(
        tmp_path, "job_id,tenant,node,gpus,start,end\n" + "".join(row.format(n) for n in "abc") + row.format("")
    )
    assert [(each["code"], each["count"], each["line"], each["column"]) for each in found["rejected"]] == [
        ("end_before_start", 3, 2, "end"), ("no_job", 1, 5, "job_id"),
    ]  # fmt: skip
    assert (found["rows"], found["records"]) == (4, 0)


def test_a_file_that_a_flag_would_settle_is_shown_with_the_flag(tmp_path: Path) -> None:
    text = "job_id,tenant,node,gpus,start,end\nj,a,n1,1,2026-10-01 00:00,2026-10-02 00:00\n"
    found = one(tmp_path, text, code=3)
    assert found["status"] == "refused"
    assert "--timezone" in found["message"]
    assert found["cells"][1] == ["j", "a", "n1", "1", "2026-10-01 00:00", "2026-10-02 00:00"]
    assert one(tmp_path, text, "--timezone", "UTC")["status"] == "read"


ODD_USAGE = (
    "Workload Ident;Client Org;Machine Name;GPU cards;Card type;Began;Finished;Result;amount\n"
    "1;acme;n1;8;H100;2026-10-01T00:00:00Z;2026-10-02T00:00:00Z;ok;12\n"
)
ODD_BILLING = (
    "Report\n\nCustmer name,Invoce number,Servce month,Produkt code,Gesamt netto Betrag,Menge Std,Curency\n"
    "acme,7,2026-10,H100,1234.50,700,EUR\n"
)


@pytest.mark.parametrize(
    ("text", "role", "skip", "first"),
    [
        (ODD_USAGE, "usage", 0, {"job": "1", "tenant": "acme", "nodes": "n1", "gpus": "8", "gpu_model": "H100"}),
        (ODD_BILLING, "billing", 1, {"tenant": "acme", "invoice_id": "7", "sku": "H100", "amount": "1234.50 EUR"}),
    ],
)
def test_a_table_that_nothing_takes_is_read_under_the_header_drafted_for_it(
    tmp_path: Path, text: str, role: str, skip: int, first: dict[str, str]
) -> None:
    found = one(tmp_path, text, code=3)
    assert found["status"] == "nothing takes it"
    assert found["cells"][0] == next(csv.reader(io.StringIO(text), delimiter=";" if ";" in text else ","))
    draft = found["drafts"][0]
    assert (draft["role"], draft["missing"], draft["would_be_read"]) == (role, [], True)
    lines = [line for line in text.splitlines() if line][skip:]
    again = one(tmp_path, "\n".join([draft["header_line"], *lines[1:]]) + "\n", name="again.csv")
    assert again["taken"]["role"] == role
    assert {name: again["first"][0][name] for name in first} == first


def test_what_no_column_looks_like_is_named(tmp_path: Path) -> None:
    text = "workload,customer name,launch time\n1,acme,2026-10-01\n"
    draft = one(tmp_path, text, code=3)["drafts"][0]
    assert draft["role"] == "usage"
    assert draft["missing"] == ["end (or duration_s)"]
    assert not draft["would_be_read"]


def test_a_role_narrows_what_a_file_may_be(tmp_path: Path) -> None:
    (path,) = write(tmp_path, usage=USAGE)
    (found,) = inspected("--billing", path, code=3)
    assert (found["status"], found["taken"]) == ("nothing takes it", None)
    (taken,) = inspected("--usage", path)
    assert taken["taken"]["role"] == "usage"


def test_a_text_without_a_table_is_shown_as_lines_with_what_would_be_read(tmp_path: Path) -> None:
    found = one(tmp_path, "hello\nworld\n", code=3)
    assert (found["cells"], found["drafts"]) == ([["hello"], ["world"]], [])
    text = run(inspect_command, str(tmp_path / "file.csv")).stdout
    assert "job_id,attempt,tenant" in text
    assert "invoice_id,tenant,period_start" in text


def test_a_cost_file_with_a_mistake_is_a_configuration_error(tmp_path: Path) -> None:
    found = one(tmp_path, COSTS.replace("per_gpu_hour: 1.51", "per_gpu_hour: cheap"), code=4, name="costs.yaml")
    assert found["status"] == "bad cost file"
    assert "costs.yaml:7: " in found["message"]


@pytest.mark.parametrize("content", [b"", b"\x00\x01\x02\x03" * 100, b"PK\x03\x04broken"])
def test_what_can_not_be_read_at_all_is_refused_with_words(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    (found,) = inspected(str(path), code=3)
    assert found["status"] == "refused"
    assert "x.csv" in found["message"]


def test_a_workbook_and_wide_text_are_looked_into_like_plain_text(tmp_path: Path) -> None:
    rows = list(csv.reader(io.StringIO(USAGE)))
    book = Workbook()
    for cells in rows:
        book.active.append(cells)  # type: ignore[union-attr]
    book.save(tmp_path / "usage.xlsx")
    (tmp_path / "wide.csv").write_text(USAGE, encoding="utf-16")
    sheet, wide = inspected(str(tmp_path / "usage.xlsx"), str(tmp_path / "wide.csv"))
    assert (sheet["kind"], sheet["table"]["how"], sheet["records"]) == ("xlsx", "sheet 'Sheet'", 7)
    assert (wide["kind"], wide["encoding"], wide["records"]) == ("text", "utf-16", 7)
    assert sheet["first"] == wide["first"]


def test_one_bad_file_does_not_hide_the_others(tmp_path: Path) -> None:
    (good,) = write(tmp_path, usage=USAGE)
    (bad,) = write(tmp_path, odd="a,b\n1,2\n")
    found = inspected(bad, good, code=3)
    assert [each["status"] for each in found] == ["nothing takes it", "read"]


def test_names_can_not_steer_the_terminal(tmp_path: Path) -> None:
    (path,) = write(tmp_path, usage=USAGE.replace("acme", "[bold]\x1b[2Jacme"))
    text = run(inspect_command, path).stdout
    assert "\x1b" not in text
    assert "[bold]" in text


@pytest.mark.parametrize(
    ("role", "header", "canonical"),
    [
        (USAGE_ROLE, "Job Started On", "start"),
        (USAGE_ROLE, "JobEndTime", "end"),
        (USAGE_ROLE, "custmer name", "tenant"),
        (USAGE_ROLE, "No. of GPUs used", "gpus"),
        (BILLING_ROLE, "invoce no", "invoice_id"),
        (BILLING_ROLE, "Gesamt netto Betrag", "amount"),
        (BILLING_ROLE, "service month", "period"),
    ],
)
def test_a_header_looks_like_the_column_that_people_mean(role: str, header: str, canonical: str) -> None:
    (guess,) = guess_columns(role, [header], [])
    assert guess is not None
    assert guess.canonical == canonical


@pytest.mark.parametrize("header", ["", "x", "temperature", "zzzzzz", "a" * 500])
def test_a_header_that_is_like_nothing_is_no_guess(header: str) -> None:
    assert guess_columns(USAGE_ROLE, [header], []) == [None]


def test_a_time_without_digits_is_no_time() -> None:
    assert guess_columns(USAGE_ROLE, ["finished"], [["yes"], ["no"]]) == [None]
