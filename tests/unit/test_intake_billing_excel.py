"""What people export from a spreadsheet: every trap at once, as text and as a workbook; then each kind by itself."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
import xlsxwriter
from openpyxl import Workbook
from openpyxl.worksheet.worksheet import Worksheet
from wattledger_audit.intake import billing_canonical
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BillingLine
from wattledger_audit.intake.refusal import InputRefused

from tests.unit.billing_reading import OCTOBER, Reading, at, read_file, read_text

D = Decimal
HALF = (at("2026-10-16"), at("2026-11-01"))
HEADER = (
    "Rechnung", "Kunde", "Leistungszeitraum von", "Leistungszeitraum bis", "Produkt", "Beschreibung", "Menge",
    "Einheit", "Einzelpreis", "Betrag",
)  # fmt: skip
ROWS: list[tuple[str, ...]] = [
    ("RE-001", "Müller GmbH", "01.10.2026", "31.10.2026", "H100 SXM", "", "1.000,5", "GPU-Std", "2,50 €", "2.501,25 €"),
    ("", "", "", "", "Speicher", "NVMe", "100", "GB", "0,10 €", "10,00 €"),
    ("", "", "", "", "Gutschrift SLA", "Ausfall am 12.10.", "", "", "", "(100,00 €)"),
    ("RE-002", "acme", "46296", "46326", "H100 SXM", "", "12", "GPU-Std", "1.000 €", "12.000 €"),
    ("", "", "", "", "A100", "", "2", "GPU-Std", "-1", "-2,00 €"),
    ("", "", "", "", "", "", "", "", "Zwischensumme", "14.409,25 €"),
    (),
    ("RE-003", "", "01.10.2026", "15.10.2026", "A100", "", "5", "GPU-Std", "2 €", "10 €"),
    ("RE-004", "globex", "16.10.2026", "31.10.2026", "A100", "", "5", "GPU-Std", "2 €", "10 €"),
    ("RE-004", "globex", "16.10.2026", "31.10.2026", "MwSt 19%", "", "", "", "", "1,90 €"),
    ("", "", "", "", "", "", "", "", "", "14.431,15 €"),
    ("Summe", "", "", "", "", "", "", "", "", "14.431,15 €"),
    ("Gesamtsumme", "", "", "", "", "", "", "", "", "99,00 €"),
    ("Vielen Dank", "", "", "", "", "", "", "", "", ""),
]
TITLES: list[tuple[str, ...]] = [("Rechnungsexport Oktober 2026",), ()]
EXPECTED = [
    # invoice, tenant, period, sku, quantity, amount, category, gpu
    ("RE-001", "Müller GmbH", OCTOBER, "H100 SXM", D("1000.5"), D("2501.25"), "usage", True),
    ("RE-001", "Müller GmbH", OCTOBER, "Speicher", D(100), D(10), "usage", False),
    ("RE-001", "Müller GmbH", OCTOBER, "Gutschrift SLA", None, D(-100), "credit_sla", None),
    ("RE-002", "acme", OCTOBER, "H100 SXM", D(12), D(12000), "usage", True),
    ("RE-004", "globex", HALF, "A100", D(5), D(10), "usage", True),
    ("RE-004", "globex", HALF, "MwSt 19%", None, D("1.90"), "tax", None),
]
REFUSED = ["price_not_set", "total_row", "no_tenant", "total_row", "total_row", "total_row", "no_amount"]


def seen(line: BillingLine) -> tuple[object, ...]:
    period = (line.start_us, line.end_us)
    return (line.invoice_id, line.tenant, period, line.sku, line.quantity, line.amount, line.category, line.gpu)


def check_all(found: Reading) -> None:
    assert [seen(line) for line in found.lines] == EXPECTED
    assert {line.currency for line in found.lines} == {"EUR"}
    assert [code for _, code in found.rejected] == REFUSED
    assert found.money == {"price_not_set": D(-2), "no_tenant": D(10), "total_row": D("43370.55")}
    assert found.total + found.money["price_not_set"] + found.money["no_tenant"] == D("14431.15")
    assert any("own total is 99.00, its rows sum to 14431.15" in reason for reason in found.reasons)


def test_a_spreadsheet_export_with_every_trap_is_read_right(tmp_path: Path) -> None:
    lines = ["sep=;", *(";".join(row) for row in TITLES), ";".join(HEADER), *(";".join(row) for row in ROWS)]
    path = tmp_path / "rechnungen.csv"
    path.write_bytes("\r\n".join([*lines, ""]).encode("cp1252"))
    check_all(read_file(path, billing_canonical.IMPORTERS))


def test_a_workbook_with_every_trap_is_read_right(tmp_path: Path) -> None:
    path = tmp_path / "rechnungen.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet, dates = book.add_worksheet("Export"), book.add_format({"num_format": "dd.mm.yyyy"})
        for place, row in enumerate([*TITLES, HEADER, *ROWS]):
            for column, cell in enumerate(row):
                if cell == "01.10.2026":
                    sheet.write_datetime(place, column, date(2026, 10, 1), dates)
                elif cell == "12":
                    sheet.write_number(place, column, 12)
                elif cell:
                    sheet.write_string(place, column, cell)
    check_all(read_file(path, billing_canonical.IMPORTERS))


@pytest.mark.parametrize(
    ("number_format", "currency"),
    [
        ('#,##0.00 "€"', "EUR"),
        ("[$€-407] #,##0.00", "EUR"),
        ('"$"#,##0.00_);\\("$"#,##0.00\\)', "USD"),
        ("[$CHF] 0.00", "CHF"),
    ],
)
def test_a_workbooks_number_format_can_name_the_currency(tmp_path: Path, number_format: str, currency: str) -> None:
    path = tmp_path / "export.xlsx"
    with xlsxwriter.Workbook(path) as book:
        sheet, money = book.add_worksheet(), book.add_format({"num_format": number_format})
        sheet.write_row(0, 0, ["Invoice", "Customer", "Month", "Amount"])
        sheet.write_row(1, 0, ["I1", "acme", "2026-10"])
        sheet.write_number(1, 3, 1234.5, money)
    lines = read_file(path, billing_canonical.IMPORTERS).lines
    assert [(line.amount, line.currency) for line in lines] == [(D("1234.5"), currency)]


def table(folder: Path, header: str, rows: Sequence[str], options: ReadOptions | None = None) -> Reading:
    return read_text(folder, "\n".join([header, *rows]) + "\n", billing_canonical.IMPORTERS, options)


PLAIN = "invoice,customer,start,end,item,qty,amount,currency"


def amounts(folder: Path, cells: Sequence[str], options: ReadOptions | None = None) -> list[Decimal]:
    rows = [f"INV;acme;2026-10-01;2026-10-31;H100;1;{cell};EUR" for cell in cells]
    found = table(folder, PLAIN.replace(",", ";"), rows, options)
    assert found.rejected == []
    return [line.amount for line in found.lines]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1.355,90€"], ["1355.90"]),
        (["10,00 €"], ["10"]),
        (["-110.7 €"], ["-110.7"]),
        (["-2,40"], ["-2.40"]),
        (["1'000'000,00"], ["1000000"]),
        (["1'000.50", "CHF 5".replace("CHF", "EUR")], ["1000.50", "5"]),
        (["25,000", "1,234.50"], ["25000", "1234.50"]),
        (["-3.000", "1,5"], ["-3000", "1.5"]),
        (["(12.50)", "12.50-", "€ -3.25"], ["-12.50", "-12.50", "-3.25"]),
        (["3.5e-7", "0.00012000000000000002"], ["0.00000035", "0.00012000000000000002"]),
        (["173,900", "2,5"], ["173.900", "2.5"]),
    ],
)
def test_amounts_are_read_as_the_whole_file_proves(tmp_path: Path, cells: list[str], expected: list[str]) -> None:
    assert amounts(tmp_path, cells) == [D(text) for text in expected]


@pytest.mark.parametrize("cells", [["1.000"], ["-3.000"], ["25,000"], ["1.000", "12"]])
def test_an_amount_that_can_be_one_or_a_thousand_is_refused(tmp_path: Path, cells: list[str]) -> None:
    with pytest.raises(InputRefused, match=r"billing.csv, line 2: amount .* --decimal"):
        amounts(tmp_path, cells)


@pytest.mark.parametrize(("decimal", "expected"), [(".", "1.000"), (",", "1000")])
def test_the_flag_settles_what_the_file_does_not(tmp_path: Path, decimal: str, expected: str) -> None:
    assert amounts(tmp_path, ["1.000"], ReadOptions(decimal=decimal)) == [D(expected)]


@pytest.mark.parametrize(
    ("header", "cell", "options", "currency"),
    [
        ("amount (USD)", "5", None, "USD"), ("Betrag in EUR", "5", None, "EUR"), ("Amount €", "5", None, "EUR"),
        ("amount_usd", "5", None, "USD"), ("CHF amount", "5", None, "CHF"), ("amount", "$5", None, "USD"),
        ("amount", "$5", "CAD", "CAD"), ("amount", "US$ 5", "CAD", "USD"), ("amount", "5 CHF", None, "CHF"),
        ("amount", "5", "GBP", "GBP"), ("amount", "£5", "EUR", "GBP"),
    ],
)  # fmt: skip
def test_the_currency_is_that_of_the_cell_then_the_header_then_the_flag(
    tmp_path: Path, header: str, cell: str, options: str | None, currency: str
) -> None:
    said = ReadOptions(currency=options) if options else None
    found = table(tmp_path, f"invoice,customer,month,{header}", [f"INV,acme,2026-10,{cell}"], said)
    assert [(line.currency, line.amount) for line in found.lines] == [(currency, D(5))]


def test_amounts_without_any_currency_are_refused_with_the_flag(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="--currency"):
        table(tmp_path, "invoice,customer,month,amount", ["INV,acme,2026-10,5"])


def test_a_currency_in_a_title_row_is_that_of_all_amounts(tmp_path: Path) -> None:
    found = table(tmp_path, "Export,,,\nAll amounts in EUR,,,", ["invoice,customer,month,amount", "INV,acme,2026-10,5"])
    assert [line.currency for line in found.lines] == ["EUR"]


def test_a_sign_that_contradicts_the_currency_column_is_listed(tmp_path: Path) -> None:
    found = table(
        tmp_path, "invoice,customer,month,amount,currency", ["I,acme,2026-10,5 €,USD", "I,acme,2026-10,$5,CAD"]
    )
    assert found.rejected == [(2, "currency_conflict")]
    assert [line.currency for line in found.lines] == ["CAD"]


TENANTS = "invoice,customer,month,item,amount,currency"


@pytest.mark.parametrize(
    ("header", "rows", "tenants", "rejected"),
    [
        # continuation rows leave all names and the period blank
        (TENANTS, ["I1,acme,2026-10,a,1,EUR", ",,,b,2,EUR", "I2,globex,2026-10,c,3,EUR"],
         ["acme", "acme", "globex"], []),
        # names written out: a row with an invoice and a period of its own and no tenant is nobody's
        (TENANTS, ["I1,acme,2026-10,a,1,EUR", "I2,acme,2026-10,b,2,EUR", "I3,,2026-10,c,4,EUR"], ["acme", "acme"], [4]),
        # the same invoice goes on
        (TENANTS, ["I1,acme,2026-10,a,1,EUR", "I1,,,b,2,EUR"], ["acme", "acme"], []),
        # never across a blank row
        (TENANTS, ["I1,acme,2026-10,a,1,EUR", ",,,,,", ",,,b,2,EUR"], ["acme"], [4]),
        # never across a total row
        (TENANTS, ["I1,acme,2026-10,a,1,EUR", "Total,,,,1,EUR", ",,,b,2,EUR"], ["acme"], [3, 4]),
        # a first row without a tenant: there is nothing to carry
        (TENANTS, [",,2026-10,a,1,EUR", "I1,acme,2026-10,b,2,EUR"], ["acme"], [2]),
        # one blank among names that all stand for themselves
        ("customer,month,item,amount,currency",
         ["acme,2026-10,a,1,EUR", ",2026-10,b,2,EUR", "globex,2026-10,c,3,EUR"], ["acme", "globex"], [3]),
        # names of groups: several blanks, none repeated
        ("customer,month,item,amount,currency",
         ["acme,2026-10,a,1,EUR", ",2026-10,b,2,EUR", "globex,2026-10,c,3,EUR", ",2026-10,d,4,EUR"],
         ["acme", "acme", "globex", "globex"], []),
        # a tenant left of its invoices
        ("customer,invoice,month,item,amount,currency",
         ["acme,I1,2026-10,a,1,EUR", ",I2,2026-10,b,2,EUR", "globex,I3,2026-10,c,3,EUR", ",I4,2026-10,d,4,EUR"],
         ["acme", "acme", "globex", "globex"], []),
        # a heading row with the name alone
        (TENANTS, ["I1,acme,2026-10,,,", ",,,a,1,EUR", ",,,b,2,EUR"], ["acme", "acme"], [2]),
    ],
)  # fmt: skip
def test_blank_names_are_carried_down_only_where_the_file_means_it(
    tmp_path: Path, header: str, rows: list[str], tenants: list[str], rejected: list[int]
) -> None:
    found = table(tmp_path, header, rows)
    assert [line.tenant for line in found.lines] == tenants
    assert [line for line, _ in found.rejected] == rejected


def test_a_month_in_a_merged_cell_left_of_the_invoices_is_carried_over_them(tmp_path: Path) -> None:
    rows = ["October 2026,I1,acme,1,EUR", ",I2,globex,2,EUR", ",I3,initech,3,EUR"]
    found = table(tmp_path, "month,invoice,customer,amount,currency", rows)
    assert [(line.start_us, line.end_us) for line in found.lines] == [OCTOBER] * 3


@pytest.mark.parametrize(
    ("label", "amount", "said"),
    [
        ("Total", "6", "repeats"), ("Grand total:", "6", "repeats"), ("acme Total", "6", "repeats"),
        ("Gesamtergebnis", "6", "repeats"), ("Total I1", "6", "repeats"), ("Sub total for acme:", "6", "repeats"),
        ("acme Total", "7", "own total is 7, its rows sum to 6"), ("Summe", "6.00", "repeats"), ("", "6", "repeats"),
        ("Total", "7", "own total is 7, its rows sum to 6"), ("Total", "", "without an amount"),
    ],
)  # fmt: skip
def test_total_rows_never_count_and_are_checked(tmp_path: Path, label: str, amount: str, said: str) -> None:
    rows = ["I1,acme,2026-10,a,1,EUR", "I1,acme,2026-10,b,5,EUR", f"{label},,,,{amount},"]
    found = table(tmp_path, TENANTS, rows)
    assert (found.total, found.rejected) == (D(6), [(4, "total_row")])
    assert said in found.reasons[0]


def test_subtotals_are_checked_against_their_group_and_a_total_above_against_all(tmp_path: Path) -> None:
    rows = [
        "Total,,,,10,EUR", "I1,acme,2026-10,a,1,EUR", "I1,acme,2026-10,b,2,EUR", "acme Total,,,,3,EUR",
        "I2,globex,2026-10,c,7,EUR", "Subtotal,,,,8,EUR", "Net total,,,,10,EUR", "VAT 19%,,,,1.90,EUR",
        "Gross total,,,,11.90,EUR",
    ]  # fmt: skip
    found = table(tmp_path, TENANTS, rows)
    assert found.total == 10
    assert sorted(found.rejected) == [
        (2, "total_row"), (5, "total_row"), (7, "total_row"), (8, "total_row"), (9, "tax_row"), (10, "total_row"),
    ]  # fmt: skip
    wrong = [reason for reason in found.reasons if "own total" in reason]
    assert wrong == ["total_row: the file's own total is 8, its rows sum to 7"]


@pytest.mark.parametrize(
    ("label", "amount", "said"),
    [("Total I1", "3", "repeats"), ("I1 total", "3", "repeats"), ("Total acme", "4", "its rows sum to 3"),
     ("Total", "10", "repeats")],
)  # fmt: skip
def test_a_total_of_one_invoice_is_checked_against_its_rows_alone(
    tmp_path: Path, label: str, amount: str, said: str
) -> None:
    rows = ["I2,globex,2026-10,c,7,EUR", "I1,acme,2026-10,a,1,EUR", "I1,acme,2026-10,b,2,EUR", f",,,{label},{amount},"]
    found = table(tmp_path, TENANTS, rows)
    assert (found.total, found.rejected) == (D(10), [(5, "total_row")])
    assert said in found.reasons[0]


def test_a_row_that_ends_before_its_amount_is_called_cut(tmp_path: Path) -> None:
    found = table(tmp_path, TENANTS, ["I1,acme,2026-10,a,1,EUR", "I2,globex,2026-1"])
    assert (found.total, found.rejected) == (D(1), [(3, "cut_row")])
    assert "3 cells where the header has 6" in found.reasons[0]


def test_tax_below_a_total_is_called_tax(tmp_path: Path) -> None:
    rows = ["I1,acme,2026-10,a,100,EUR", ",,,Net total,100,EUR", ",,,VAT 19 %,19,EUR", ",,,Gross total,119,EUR"]
    found = table(tmp_path, TENANTS, rows)
    assert (found.total, found.rejected) == (D(100), [(3, "total_row"), (4, "tax_row"), (5, "total_row")])
    assert [reason for reason in found.reasons if "own total" in reason] == []


def test_a_formula_that_was_never_computed_says_how_to_compute_it(tmp_path: Path) -> None:
    book = Workbook()
    sheet = book.active
    assert isinstance(sheet, Worksheet)
    sheet.append(["invoice", "customer", "month", "sku", "amount", "currency"])
    sheet.append(["I1", "acme", "2026-10", "a", "=2*3", "EUR"])
    book.save(tmp_path / "made.xlsx")
    found = read_file(tmp_path / "made.xlsx", billing_canonical.IMPORTERS)
    assert (found.lines, found.rejected) == ([], [(2, "no_amount")])
    assert "open the workbook in a spreadsheet and save it" in found.reasons[0]


def test_a_product_or_customer_named_like_a_total_still_counts(tmp_path: Path) -> None:
    rows = ["I1,Total Energies,2026-10,Totalpaket,1,EUR", "I2,Summit AI,2026-10,Sum of hours,2,EUR"]
    assert table(tmp_path, TENANTS, rows).total == 3


def test_a_total_written_out_like_a_line_of_its_invoice_does_not_count(tmp_path: Path) -> None:
    rows = ["I1,acme,2026-10,a,1,EUR", "I1,acme,2026-10,b,2,EUR", "I1,acme,2026-10,Total,3,EUR"]
    rows += ["I2,globex,2026-10,a,5,EUR", "I2,globex,2026-10,Total for I2,5,EUR"]
    found = table(tmp_path, TENANTS, rows)
    assert (found.total, found.rejected) == (D(8), [(4, "total_row"), (6, "total_row")])
    assert all("repeats" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("header", "cells", "amount"),
    [
        ("gross,tax", "119,19", "100"), ("total,tax", "119,19", "100"), ("net,tax,gross", "100,19,119", "100"),
        ("amount,tax", "100,19", "100"), ("subtotal,tax,total", "100,19,119", "100"),
        ("Netto,MwSt,Brutto", "100,19,119", "100"),
        ("amount (net),VAT %,amount (gross)", "100,19,119", "100"),
    ],
)  # fmt: skip
def test_amounts_are_net_of_tax(tmp_path: Path, header: str, cells: str, amount: str) -> None:
    found = table(tmp_path, f"invoice,customer,month,currency,{header}", [f"I1,acme,2026-10,EUR,{cells}"])
    assert [line.amount for line in found.lines] == [D(amount)]


def test_gross_amounts_alone_are_refused_and_one_without_its_tax_is_listed(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="with tax"):
        table(tmp_path, "invoice,customer,month,currency,gross", ["I1,acme,2026-10,EUR,119"])
    found = table(tmp_path, "invoice,customer,month,currency,gross,tax", ["I1,acme,2026-10,EUR,119,"])
    assert found.rejected == [(2, "no_tax")]


@pytest.mark.parametrize(("cell", "code"), [("draft", "not_final"), ("Void", "not_final"), ("storniert", "not_final")])
def test_a_status_that_is_no_revenue_is_listed_with_its_money(tmp_path: Path, cell: str, code: str) -> None:
    found = table(tmp_path, TENANTS + ",status", [f"I1,acme,2026-10,a,5,EUR,{cell}", "I2,acme,2026-10,a,7,EUR,paid"])
    assert (found.total, found.money) == (D(7), {code: D(5)})
    assert found.lines[0].delivery_rank == 1


def test_a_line_is_a_duplicate_only_where_its_own_id_says_so(tmp_path: Path) -> None:
    rows = ["I1,acme,2026-10,a,5,EUR,l1", "I1,acme,2026-10,a,5,EUR,l1", "I1,acme,2026-10,a,5,EUR,l2"]
    found = table(tmp_path, TENANTS + ",line_id", rows)
    assert (found.total, found.money) == (D(10), {"duplicate_line": D(5)})
    assert table(tmp_path, TENANTS, ["I1,acme,2026-10,a,5,EUR"] * 2).total == 10


@pytest.mark.parametrize(
    ("row", "column"),
    [("1.67683E+15,acme", "invoice"), ("I1,1.67683E+15", "customer"), ('I1,"1,67683E+15"', "customer")],
)
def test_ids_that_a_spreadsheet_shortened_are_refused(tmp_path: Path, row: str, column: str) -> None:
    with pytest.raises(InputRefused, match=rf"line 2: {column} '1.67683E\+15'"):
        table(tmp_path, TENANTS, [f"{row},2026-10,a,5,EUR"])


def test_text_ids_and_formula_like_names_stay_as_written(tmp_path: Path) -> None:
    rows = ['012345678910,"=HYPERLINK(""http://x"",""open"")",2026-10,@SUM,-5.00,EUR', "+1,-1,2026-10,a,5,EUR"]
    lines = table(tmp_path, TENANTS, rows).lines
    assert [(line.invoice_id, line.tenant, line.sku, line.amount) for line in lines] == [
        ("012345678910", '=HYPERLINK("http://x","open")', "@SUM", D("-5.00")),
        ("+1", "-1", "a", D(5)),
    ]


def test_a_second_header_and_a_row_with_too_many_cells_are_listed(tmp_path: Path) -> None:
    found = table(tmp_path, TENANTS, ["I1,acme,2026-10,a,5,EUR", TENANTS, "I1,acme,2026-10,a,1,50,EUR"])
    assert found.rejected == [(3, "repeated_header"), (4, "too_many_cells")]


@pytest.mark.parametrize(
    ("price", "item", "kept"), [("-1", "H100", False), ("-1.00", "H100", False), ("-1", "credit", True)]
)
def test_a_unit_price_of_minus_one_was_never_set(tmp_path: Path, price: str, item: str, kept: bool) -> None:
    found = table(tmp_path, TENANTS + ",unit price", [f"I1,acme,2026-10,{item},-50,EUR,{price}"])
    assert bool(found.lines) == kept
    assert found.money == ({} if kept else {"price_not_set": D(-50)})


@pytest.mark.parametrize("header", ["invoice,customer,item,amount,currency", "invoice,customer,date,amount,currency"])
def test_a_table_that_does_not_say_when_the_service_was_is_refused(tmp_path: Path, header: str) -> None:
    with pytest.raises(InputRefused, match="when the service was"):
        table(tmp_path, header, ["I1,acme,2026-10-05,5,EUR"])


@pytest.mark.parametrize(
    ("cell", "quantity", "unit"),
    [
        ("744 GPU-h", D(744), "GPU-h"), ("1.000,5 Std", D("1000.5"), "Std"), ("2h", D(2), "h"), ("12", D(12), ""),
        ("pauschal", None, ""), ("-", None, ""), ("", None, ""), ("3,5e2", D(350), ""),
    ],
)  # fmt: skip
def test_a_quantity_may_have_its_unit_beside_it_or_none(
    tmp_path: Path, cell: str, quantity: Decimal | None, unit: str
) -> None:
    found = table(tmp_path, TENANTS.replace(",", ";") + ";qty", [f"I1;acme;2026-10;a;5;EUR;{cell}"])
    assert [(line.quantity, line.unit) for line in found.lines] == [(quantity, unit)]


def test_a_table_in_utf_16_with_tabs_is_read(tmp_path: Path) -> None:
    path = tmp_path / "export.txt"
    rows = ["Invoice No.\tCustomer\tService from\tService to\tHours\tAmount (EUR)"]
    rows += ["I1\tMüller\t1 Oct 2026\t31 Oct 2026\t10\t1,234.50"]
    path.write_text("\n".join(rows), encoding="utf-16")
    line = read_file(path, billing_canonical.IMPORTERS).lines[0]
    assert (line.tenant, line.amount, line.unit, line.start_us, line.end_us) == (
        "Müller",
        D("1234.50"),
        "hours",
        *OCTOBER,
    )
