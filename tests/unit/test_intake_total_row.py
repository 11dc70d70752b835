"""Rows that sum up other rows are told by their label; a customer's name is none."""

import pytest
from wattledger_audit.intake.total_row import is_total_word


@pytest.mark.parametrize(
    "text",
    [
        "Total", "TOTAL", "Totals", "Grand total:", "Subtotal", "Sub-total", "Sub Total", "Invoice total",
        "Total due", "Total amount",
        "Total (EUR)", "Total USD", "Total: EUR", "Total for October 2026", "Summe", "Gesamt", "Gesamtsumme",
        "Gesamtbetrag",
        "Zwischensumme", "Insgesamt", "Sum", "sum:", "∑", "Σ", "Total général", "Sous-total", "Totale", "Totaal",
        "** Total **",
        "Total excl. VAT", "Total net", "Endsumme", "All tenants",
    ],
)  # fmt: skip
def test_labels_of_total_rows_are_known(text: str) -> None:
    assert is_total_word(text)


@pytest.mark.parametrize(
    "text",
    ["", " ", "acme", "Total Energies", "TotalEnergies", "Totally", "Summit", "sumo", "Gesamtschule Nord",
    "subtotal-lab",
     "USD", "GPU total recall", "-", "total2", "Sum Labs", "Summer"],
)  # fmt: skip
def test_names_are_no_totals(text: str) -> None:
    assert not is_total_word(text)
