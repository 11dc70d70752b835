"""Billing sheets whose header has two rows, whose credits have no minus, or that say debit or credit apart."""

from decimal import Decimal
from pathlib import Path

import pytest
from wattledger_audit.intake import billing_canonical
from wattledger_audit.intake.billing_category import says_credit
from wattledger_audit.intake.billing_header import with_second_row
from wattledger_audit.intake.refusal import InputRefused

from tests.unit.billing_reading import OCTOBER, Reading, at, read_text

D = Decimal
LINES = "Invoice,Type,Customer,From,To,Item,Amount,Currency"
USED = "I1,Invoice,acme,2026-10-01,2026-10-31,H100 hours,250.00,EUR"


def table(folder: Path, header: str, *rows: str) -> Reading:
    return read_text(folder, "\n".join([header, *rows, ""]), billing_canonical.IMPORTERS)


@pytest.mark.parametrize(
    ("first", "second", "row"),
    [
        ("Kunde;Leistungszeitraum;;Artikel;Betrag netto EUR", ";von;bis;;", "acme;16.10.2026;31.10.2026;H100;5,50"),
        ("Kunde;Zeitraum;;Artikel;Betrag;;Währung", ";von;bis;;netto;MwSt;",
         "acme;16.10.2026;31.10.2026;H100;5,50;1,05;EUR"),
        ("Customer;Service period;;Item;Amount EUR", ";Start date;End date;;", "acme;2026-10-16;2026-10-31;H100;5.50"),
    ],
)  # fmt: skip
def test_a_second_row_names_what_a_cell_of_the_first_spans(tmp_path: Path, first: str, second: str, row: str) -> None:
    found = table(tmp_path, first, second, row)
    assert [(line.start_us, line.end_us, line.amount, line.currency) for line in found.lines] == [
        (at("2026-10-16"), at("2026-11-01"), D("5.50"), "EUR")
    ]
    assert found.rejected == []


@pytest.mark.parametrize(
    ("headers", "cells"),
    [
        ("customer,month,sku,amount", "acme,October 2026,h100,5"), ("customer,month,sku,amount", "acme,,von,"),
        ("customer,from,to,amount", "customer,from,to,amount"), ("customer,from,to,amount", ",,,"),
        ("customer,month,sku,amount", "note: start,,,"),
    ],
)  # fmt: skip
def test_a_row_that_names_no_new_column_is_no_part_of_the_header(headers: str, cells: str) -> None:
    assert with_second_row(headers.split(","), cells.split(",")) is None


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        ("Credit note", "H100 hours"), ("Refund", "H100 hours"), ("Credit", "H100 hours"), ("", "Gutschrift SLA"),
        ("Invoice", "Gutschrift zu I1"), ("", "Rückerstattung Oktober"), ("credit_promo", "welcome"),
    ],
)  # fmt: skip
def test_a_credit_without_a_minus_adds_to_nothing_and_is_listed_with_its_money(
    tmp_path: Path, kind: str, item: str
) -> None:
    found = table(tmp_path, LINES, USED, f"C1,{kind},acme,2026-10-01,2026-10-31,{item},25.00,EUR")
    assert (found.total, found.rejected, found.money) == (D(250), [(3, "credit_sign")], {"credit_sign": D(25)})
    assert "write -25.00" in found.reasons[0]


def test_where_credits_are_below_zero_one_above_is_meant(tmp_path: Path) -> None:
    credit = "C{},Credit note,acme,2026-10-01,2026-10-31,H100 hours,{},EUR"
    found = table(tmp_path, LINES, USED, credit.format(1, "-25.00"), credit.format(2, "10.00"))
    assert (found.total, found.rejected) == (D(235), [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("10,000 prepaid credits", False), ("Storno der Gutschrift GS-7", False), ("refund reversed", False),
        ("Discount programme fee", False), ("Gutschriften Oktober", True), ("credit-note 7", True),
    ],
)  # fmt: skip
def test_only_words_that_mean_nothing_else_say_a_credit(words: str, said: bool) -> None:
    assert says_credit(words) is said


@pytest.mark.parametrize("header", ["Soll/Haben-Kennzeichen", "S/H", "Debit/Credit", "dr_cr", "Soll/Haben-Kz"])
def test_a_column_that_says_debit_or_credit_is_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(InputRefused, match="says debit or credit apart from the amount: export signed amounts"):
        table(tmp_path, f"{LINES},{header}", f"{USED},S")


def test_a_period_that_is_none_is_told_what_one_looks_like(tmp_path: Path) -> None:
    found = table(
        tmp_path, "invoice,customer,month,sku,amount,currency", "I1,a,2026-10,x,1,EUR", "I2,a,week 40,x,1,EUR"
    )
    assert [(line.start_us, line.end_us) for line in found.lines] == [OCTOBER]
    assert (found.rejected, found.money) == ([(3, "not_a_period")], {"not_a_period": D(1)})
    assert "write 2026-10, or two dates" in found.reasons[0]


def test_a_row_of_too_many_cells_is_listed_whole(tmp_path: Path) -> None:
    found = table(tmp_path, LINES, USED, f"{USED},oops")
    assert (found.total, found.rejected) == (D(250), [(3, "too_many_cells")])
    assert "9 cells where the header has 8" in found.reasons[0]
