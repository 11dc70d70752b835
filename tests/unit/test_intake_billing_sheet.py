"""The canonical billing file, header words, periods of every form, and whether an end is in or out."""

from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from wattledger_audit.intake import billing_canonical
from wattledger_audit.intake.billing_category import category_of
from wattledger_audit.intake.billing_columns import find_billing_columns
from wattledger_audit.intake.billing_gpu import gpu_of
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import open_source

from tests.unit.billing_reading import OCTOBER, Reading, at, read_text

D = Decimal
CANONICAL = "invoice_id,tenant,period_start,period_end,sku,quantity,unit,amount,currency"
DAY = 86_400_000_000


def canonical(folder: Path, *rows: str, more: str = "", options: ReadOptions | None = None) -> Reading:
    return read_text(folder, "\n".join([CANONICAL + more, *rows]) + "\n", billing_canonical.IMPORTERS, options)


def test_the_canonical_file_is_read_as_written(tmp_path: Path) -> None:
    found = canonical(
        tmp_path,
        "INV-1,acme,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,h100,744,gpu_hour,1860.00,USD,Node 7,reserved,usage",
        "INV-1,acme,2026-10-01T02:00:00+02:00,2026-11-01T00:00:00+00:00,support,,,50,usd,,,non_gpu",
        more=",description,plan,category",
    )
    first, second = found.lines
    assert (first.line, first.invoice_id, first.tenant, first.sku) == (2, "INV-1", "acme", "h100")
    assert (first.quantity, first.unit, first.amount, first.currency) == (D(744), "gpu_hour", D("1860.00"), "USD")
    assert (first.description, first.plan, first.category, first.gpu) == ("Node 7", "reserved", "usage", True)
    assert (first.delivery, first.delivery_rank) == ("INV-1", 0)
    assert {(line.start_us, line.end_us) for line in found.lines} == {OCTOBER}
    assert (second.quantity, second.unit, second.category, second.gpu) == (None, "", "non_gpu", False)


def test_the_canonical_file_is_detected_more_surely_than_any_table(tmp_path: Path) -> None:
    scores = []
    for name, header in (
        ("a.csv", CANONICAL),
        ("b.csv", "Kunde,Monat,Betrag,Rechnung"),
        ("c.csv", "job_id,tenant,start"),
    ):
        (tmp_path / name).write_text(header + "\n")
        found = billing_canonical.detect(open_source(tmp_path / name))
        scores.append(found.score if found else 0)
    assert scores[0] > scores[1] > scores[2] == 0


def period(folder: Path, *pairs: tuple[str, str], options: ReadOptions | None = None) -> list[tuple[int, int]]:
    rows = [f"INV-{n},t{n % 2},{start},{end},h100,1,h,5,USD" for n, (start, end) in enumerate(pairs)]
    found = canonical(folder, *rows, options=options)
    assert found.rejected == []
    return [(line.start_us, line.end_us) for line in found.lines]


@pytest.mark.parametrize(
    ("pairs", "first"),
    [
        ([("2026-10-01", "2026-10-31")], OCTOBER),
        ([("2026-10-01", "2026-11-01")], OCTOBER),
        ([("01.10.2026", "31.10.2026")], OCTOBER),
        ([("2026-09-01", "2026-09-30"), ("2026-10-05", "2026-10-12")], (at("2026-09-01"), at("2026-10-01"))),
        ([("2026-10-05", "2026-10-05"), ("2026-10-06", "2026-10-07")], (at("2026-10-05"), at("2026-10-06"))),
        ([("2026-10-05", "2026-10-11"), ("2026-10-01", "2026-10-02"), ("2026-10-12", "2026-10-18")],
         (at("2026-10-05"), at("2026-10-12"))),
        ([("2026-10-05", "2026-10-12"), ("2026-10-01", "2026-10-02"), ("2026-10-12", "2026-10-19")],
         (at("2026-10-05"), at("2026-10-12"))),
        ([("2026-10-16", "2026-10-31")], (at("2026-10-16"), at("2026-11-01"))),
        ([("2026-10-16", "2026-11-01")], (at("2026-10-16"), at("2026-11-01"))),
        ([("2026-10-01 00:00:00", "2026-10-31 23:59:59")], OCTOBER),
        ([("2026-10-01T00:00:00Z", "2026-10-31T23:59:59.999Z")], OCTOBER),
        ([("2026-10-01 00:00", "2026-10-31 23:59")], OCTOBER),
        ([("2026-10-01 00:00:00", "2026-11-01 00:00:00")], OCTOBER),
        ([("2026-10-01T08:00:00Z", "2026-10-01T09:00:00Z")], (at("2026-10-01T08:00"), at("2026-10-01T09:00"))),
        ([("10/1/2026", "10/31/2026")], OCTOBER),
        ([("46296", "46326")], OCTOBER),
    ],
)  # fmt: skip
def test_an_end_is_in_or_out_as_the_file_proves(
    tmp_path: Path, pairs: list[tuple[str, str]], first: tuple[int, int]
) -> None:
    assert period(tmp_path, *pairs)[0] == first


def test_an_end_that_nothing_proves_is_refused_with_its_flag(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match=r"line 2: .*2026-10-05 to 2026-10-12 .*--period-end inclusive or exclusive"):
        period(tmp_path, ("2026-10-05", "2026-10-12"))


@pytest.mark.parametrize(("said", "end"), [("inclusive", "2026-10-13"), ("exclusive", "2026-10-12")])
def test_the_flag_says_whether_the_end_is_in(tmp_path: Path, said: str, end: str) -> None:
    options = ReadOptions(period_end=said)
    assert period(tmp_path, ("2026-10-05", "2026-10-12"), options=options) == [(at("2026-10-05"), at(end))]


def test_a_file_that_contradicts_itself_about_ends_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="--period-end"):
        period(tmp_path, ("2026-10-01", "2026-10-31"), ("2026-10-01", "2026-11-01"))


def test_stamps_without_a_zone_are_refused_and_the_flag_settles_them(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="--timezone"):
        period(tmp_path, ("2026-10-01 08:00:00", "2026-10-01 09:00:00"))
    berlin = ReadOptions(timezone=ZoneInfo("Europe/Berlin"))
    assert period(tmp_path, ("2026-10-01 08:00:00", "2026-10-01 09:00:00"), options=berlin) == [
        (at("2026-10-01T06:00"), at("2026-10-01T07:00"))
    ]
    month = period(tmp_path, ("2026-10-01", "2026-10-31"), options=berlin)[0]
    assert month == (at("2026-09-30T22:00"), at("2026-10-31T23:00"))


def test_days_and_months_that_can_be_swapped_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="--date-order"):
        period(tmp_path, ("01/02/2026", "01/03/2026"))


@pytest.mark.parametrize(
    ("header", "cell", "expected"),
    [
        *(
            ("month", text, OCTOBER)
            for text in ("2026-10", "October 2026", "Oct 2026", "10/2026", "202610", "Okt. 2026")
        ),
        ("Monat", "Oktober 2026", OCTOBER),
        ("Abrechnungszeitraum", "01.10.2026 - 31.10.2026", OCTOBER),
        ("period", "2026-10-01/2026-10-31", OCTOBER),
        ("billing period", "2026-10-01 to 2026-11-01", OCTOBER),
        ("period", "2026-10-01", OCTOBER),
        ("period", "Q4 2026", (OCTOBER[0], at("2027-01-01"))),
        ("usage date", "2026-10-05", (at("2026-10-05"), at("2026-10-06"))),
    ],
)
def test_one_column_can_say_the_period(tmp_path: Path, header: str, cell: str, expected: tuple[int, int]) -> None:
    text = f"invoice;customer;{header};amount;currency\nI1;acme;{cell};5;EUR\n"
    lines = read_text(tmp_path, text, billing_canonical.IMPORTERS).lines
    assert [(line.start_us, line.end_us) for line in lines] == [expected]


@pytest.mark.parametrize(
    ("start", "end", "code"),
    [
        ("2026-10-01T00:00:00Z", "", "no_period"), ("", "", "no_period"),
        ("soon", "2026-10-31T00:00:00Z", "not_a_date"), ("2026-10-02T00:00:00Z", "2026-10-01T00:00:00Z", "bad_period"),
    ],
)  # fmt: skip
def test_a_row_without_a_period_is_listed_with_its_money(tmp_path: Path, start: str, end: str, code: str) -> None:
    good = "INV-1,acme,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,h100,1,h,5,USD"
    found = canonical(tmp_path, good, f"INV-2,globex,{start},{end},h100,1,h,7,USD")
    assert (found.total, found.money) == (D(5), {code: D(7)})


def test_rows_without_an_invoice_are_delivered_by_tenant_and_period(tmp_path: Path) -> None:
    found = canonical(tmp_path, ",acme,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,h100,1,h,5,USD")
    assert found.lines[0].delivery == f"acme/{OCTOBER[0]}/{OCTOBER[1]}"


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ("INV-2,,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,h100,1,h,7,USD", "no_tenant"),
        ("INV-2,acme,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,h100,1,h,7,", "no_currency"),
        ("INV-2,acme,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,h100,1,h,7,ZZZ", "bad_currency"),
        ("INV-2,acme,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,h100,1x2,h,7,USD", "bad_quantity"),
    ],
)
def test_a_row_that_cannot_be_used_is_listed_with_its_money(tmp_path: Path, row: str, code: str) -> None:
    good = "INV-1,acme,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,h100,1,h,5,USD"
    found = canonical(tmp_path, good, good, row)
    assert (found.total, found.money) == (D(10), {code: D(7)})


@pytest.mark.parametrize(
    ("headers", "meanings"),
    [
        ("Rechnungsnummer;Kunde;von;bis;Artikel;Menge;Einheit;Preis;Betrag;Währung",
         "invoice_id tenant start end sku quantity unit unit_price amount currency"),
        ("Invoice #;Client Name;Service Start;Service End;Product;GPU Hours;Rate;Line Total;Currency",
         "invoice_id tenant start end sku quantity unit_price amount currency"),
        ("invoiceNumber;accountName;periodStart;periodEnd;description;qty;uom;netAmount;ccy",
         "invoice_id tenant start end description quantity unit amount currency"),
        ("Bill No;Org;From;Through;Plan;Units;Unit Price;Charge",
         "invoice_id tenant start end plan quantity unit_price amount"),
        ("RE-Nr.;Firma;Leistungszeitraum;Bezeichnung;Gesamtpreis (EUR)", "invoice_id tenant period description amount"),
    ],
)  # fmt: skip
def test_header_words_are_understood(headers: str, meanings: str) -> None:
    columns = find_billing_columns(headers.split(";"))
    places = sorted((column.place, name) for name, column in columns.at.items())
    assert [name for _, name in places] == meanings.split()


@pytest.mark.parametrize(
    ("header", "inclusive"),
    [("end (inclusive)", True), ("bis einschl.", True), ("Period end (exclusive)", False), ("end", None)],
)
def test_an_ends_header_can_say_whether_it_is_in(header: str, inclusive: bool | None) -> None:
    assert find_billing_columns(["tenant", "start", header, "amount"]).end_is_inclusive is inclusive


@pytest.mark.parametrize(
    ("header", "unit"), [("GPU hours", "gpu_hours"), ("Stunden", "hours"), ("Menge (GPU-h)", "GPU-h")]
)
def test_a_quantitys_header_can_imply_its_unit(header: str, unit: str) -> None:
    assert find_billing_columns(["tenant", "month", header, "amount"]).unit == unit


@pytest.mark.parametrize(
    ("amount", "words", "category"),
    [
        (5, "H100 on demand", "usage"), (5, "VAT 19%", "tax"), (5, "MwSt", "tax"), (5, "Sales tax", "tax"),
        (5, "H100 hours (excl. VAT)", "usage"), (5, "H100 zzgl. MwSt", "usage"), (-5, "Credit", "credit_promo"),
        (-5, "Gutschrift", "credit_promo"), (-5, "SLA credit", "credit_sla"), (-5, "Outage 12 Oct", "credit_sla"),
        (-5, "Refund INV-1", "refund"), (-5, "Credit note 7", "refund"), (-5, "Stornorechnung", "refund"),
        (5, "Shortfall against minimum commitment", "shortfall"), (5, "Monthly minimum", "shortfall"),
        (5, "Mindestabnahme", "shortfall"), (5, "Correction of September", "adjustment"), (-5, "H100", "adjustment"),
        (5, "10,000 prepaid credits", "commitment"), (5, "Reserved commitment", "commitment"),
    ],
)  # fmt: skip
def test_words_say_the_category(amount: int, words: str, category: str) -> None:
    assert category_of(D(amount), words) == category


@pytest.mark.parametrize(
    ("named", "category"),
    [
        ("usage", "usage"), ("Credit Promo", "credit_promo"), ("credit_sla", "credit_sla"), ("Purchase", "commitment"),
        ("on-demand", "usage"), ("non-GPU", "non_gpu"), ("VAT", "tax"), ("what?", "usage"),
    ],
)  # fmt: skip
def test_a_category_column_says_it_best(named: str, category: str) -> None:
    assert category_of(D(5), "H100", named=named) == category


@pytest.mark.parametrize(
    ("words", "unit", "gpu"),
    [
        ("H100 SXM5", "", True), ("gpu.8x", "", True), ("8xH100 node", "", True), ("OpenStack GPUA100SXM4", "", True),
        ("NVIDIA L4", "", True), ("t4", "", True), ("MI300X", "", True), ("RTX 6000 Ada", "", True),
        ("GB200 NVL72", "", True), ("p5.48xlarge", "", True), ("NC24ads A100 v4", "", True),
        ("Compute", "GPU-hours", True), ("a2-highgpu-8g", "", True), ("Object storage", "", False),
        ("Egress traffic", "", False), ("Premium support", "", False), ("vCPU hours", "", False),
        ("Lizenz", "", False), ("m5.large", "", False), ("t4g.micro", "", False), ("L4s Spot", "", None),
        ("Support for H100 nodes", "", None), ("Compute", "hours", None), ("F9GPUA3E29X6", "", None),
    ],
)  # fmt: skip
def test_words_say_whether_a_line_is_for_gpus(words: str, unit: str, gpu: bool | None) -> None:
    assert gpu_of(words, unit=unit) is gpu
