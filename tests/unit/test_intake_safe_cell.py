"""Cells that a spreadsheet would run are shown instead; numbers stay numbers."""

import csv
from io import StringIO

import pytest
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.safe_cell import safe_cell


@pytest.mark.parametrize(
    "text",
    [
        '=HYPERLINK("http://x","open")', "=1+1", "+1+cmd", "+SUM(A1)", "-1+2", "-A1", "-", "@SUM(A1:A9)", "\tacme",
        "\rcmd", "\n=1", "+49 30 1234", "=-5",
    ],
)  # fmt: skip
def test_what_starts_like_a_formula_gets_a_quote_in_front(text: str) -> None:
    assert safe_cell(text) == "'" + text


@pytest.mark.parametrize("text", ["-5.00", "-5", "+1", "+1.5", "-2.5e-7", "1", "acme", "", "a=b", "a@b.example", "'=1"])
def test_numbers_and_plain_names_stay_as_they_are(text: str) -> None:
    assert safe_cell(text) == text


def test_a_rejected_tenant_cannot_run_in_the_list_of_rejects() -> None:
    out = StringIO()
    Rejections(out).add("f.csv", 3, "tenant", '=HYPERLINK("http://x","open")', "unknown_tenant: say who that is")
    assert next(csv.reader([out.getvalue()]))[3] == '\'=HYPERLINK("http://x","open")'
