"""Invoices and cost exports that programs were seen to read wrong, and their amounts: the table of
test_cases_billing.py.

The comment names the public project that it was reported against; a name's first part is the case's number.
"""

from collections.abc import Sequence
from typing import NamedTuple

from wattledger_audit.intake.options import ReadOptions

from tests.case_files import PLAIN
from tests.cloud_exports import aws, azure, focus, gcp

CANONICAL = "invoice_id,tenant,period_start,period_end,sku,quantity,unit,amount,currency\n"
OCTOBER = "2026-10-01T00:00:00Z,2026-11-01T00:00:00Z"
GERMAN = "Rechnungsnummer;Kunde;Von;Bis;Leistung;Betrag\n"


def german(*amounts: str) -> str:
    """An export of a German spreadsheet: semicolons, dates with points."""
    rows = (f"R{n};acme;01.10.2026;31.10.2026;H100 GPU-Stunden;{text}\n" for n, text in enumerate(amounts, 1))
    return GERMAN + "".join(rows)


def english(*amounts: str, sku: str = "H100") -> str:
    rows = (f'I{n},acme,{OCTOBER},{sku},1,GPU-hours,"{text}",USD\n' for n, text in enumerate(amounts, 1))
    return CANONICAL + "".join(rows)


class Case(NamedTuple):
    name: str
    text: str | bytes
    amounts: list[str]
    codes: Sequence[str] = ()
    options: ReadOptions = PLAIN


EUR = ReadOptions(currency="EUR")
CHF = ReadOptions(currency="CHF")
CASES = [
    # BudgetMaster 731, firefly 4106, actual 5020, dollardollar 55, ynab-csv 2
    Case("E1-a-german-file", german("1.355,90€", "10,00 €", "-110,7 €", "173,900", "-2,40", "1.000,00"),
         ["1355.90", "10.00", "-110.7", "173.900", "-2.40", "1000.00"], options=EUR),
    # actual 2143, securo 665: a thousand where another row proves the comma, one where it proves the point
    Case("E1-thousands-by-another-rows-proof", german("25.000", "-3.000", "1.000", "12,5"),
         ["25000", "-3000", "1000", "12.5"], options=EUR),
    Case("E1-the-same-figures-in-an-english-file", english("25.000", "-3.000", "1.000", "1,355.90"),
         ["25.000", "-3.000", "1.000", "1355.90"]),
    Case("E1-what-a-person-says", german("1.000", "-3.000"), ["1000", "-3000"],
         options=ReadOptions(currency="EUR", decimal=",")),
    Case("E1-a-minus-behind-and-in-words", german("110,70-", "(2,40)", "EUR 1.234.567,89", "−5,00"),
         ["-110.70", "-2.40", "1234567.89", "-5.00"], options=EUR),
    Case("E1-a-swiss-file", german("1'000'000,00", "CHF 2’500,50", "-12,00"), ["1000000.00", "2500.50", "-12.00"],
         options=CHF),
    Case("E1-blanks-between-thousands", german("1 355,90", "12 000 000,5", "3,00"), ["1355.90", "12000000.5", "3.00"],
         options=EUR),
    Case("E1-an-indian-file", english("12,34,567.89", "1,00,000.00"), ["1234567.89", "100000.00"]),
    # Azure SDK 34129, dotCMS 36508, javarosa 687; koku's files
    Case("E2-a-mark-before-the-header", "\ufeff" + english("12.50"), ["12.50"]),
    Case("E2-a-second-one-before-the-first-row", "\ufeff" + english("12.50").replace("\nI1", "\n\ufeffI1"), ["12.50"]),
    Case("E2-in-an-azure-export", "\ufeff" + azure({"CostInBillingCurrency": "1.25"}), ["1.25"]),
    Case("E2-before-quotes-and-in-utf-16",
         ("\ufeff" + english("12.50").replace("invoice_id", '"invoice_id"')).encode("utf-16-le"), ["12.50"]),
    # llmgateway PR 3218; 681 of 1,281 rows of a public FOCUS sample
    Case("E7-exponents-in-focus", focus(
        {"BilledCost": "3.5e-7"}, {"BilledCost": "0.00012000000000000002"}, {"BilledCost": "-1.23E-7"},
        {"BilledCost": "1E+2"}),
        ["3.5E-7", "0.00012000000000000002", "-1.23E-7", "1E+2"]),
    Case("E7-exponents-in-aws", aws(
        {"lineItem/UnblendedCost": "1.23E-7"}, {"lineItem/UnblendedCost": "8.0000000000000007e-05"}),
         ["1.23E-7", "8.0000000000000007E-5"]),
    Case("E7-exponents-in-a-table-of-ones-own", english("3.5e-7", "1.5E3", "0.1"), ["3.5E-7", "1.5E+3", "0.1"]),
    # koku PR 5252, awslabs PR 480 and 496
    Case("E10-a-savings-plans-hour-and-its-negation", aws(
        {"lineItem/LineItemType": "SavingsPlanCoveredUsage", "lineItem/UnblendedCost": "2"},
        {"lineItem/LineItemType": "SavingsPlanNegation", "lineItem/UnblendedCost": "-2"},
        {"lineItem/LineItemType": "SavingsPlanRecurringFee", "lineItem/UnblendedCost": "1.3"},
    ), ["2", "-2", "1.3"]),
    # labs 991: what is paid and not what it is spread to
    Case("E10-a-reservations-fee", aws(
        {"lineItem/LineItemType": "RIFee", "lineItem/UnblendedCost": "137", "reservation/EffectiveCost": "14000"},
        {"lineItem/LineItemType": "DiscountedUsage", "lineItem/UnblendedCost": "0", "reservation/EffectiveCost": "4.5"},
    ), ["137", "0"]),
    # FOCUS_Spec PR 2022, 974
    Case("E11-a-purchase-and-what-it-pays-for", focus(
        {"ChargeCategory": "Purchase", "BilledCost": "4550", "EffectiveCost": "0", "ListCost": "4550"},
        {"ChargeCategory": "Usage", "BilledCost": "0", "EffectiveCost": "379", "ListCost": "500"},
    ), ["4550", "0"]),
    # koku PR 4017, 3246; opencost PR 672
    Case("E12-a-credit-takes-off-the-cost", gcp(
        {"cost": "100.0", "credits": '[{"name": "CUD", "amount": -64.516, "type": "COMMITTED_USAGE_DISCOUNT"}]'}),
        ["100.0", "-64.516"]),
    Case("E12-two-credits-of-one-row-each-once", gcp(
        {"cost": "1.5", "credits": '[{"name": "a", "amount": -0.5}, {"name": "a", "amount": -0.5}]'}, {"cost": "2"}),
        ["1.5", "-0.5", "-0.5", "2"]),
    # kubesphere 3747
    Case("E15-a-unit-price-of-minus-one-is-none",
         "invoice_id,tenant,month,sku,quantity,unit_price,amount,currency\n"
         "I1,acme,2026-10,H100,744,-1,-744.00,USD\nI1,acme,2026-10,H100,744,2.5,1860.00,USD\n",
         ["1860.00"], ["price_not_set"]),
    # threejs 72, OWASP: a value stays what it is, and -5.00 is a number
    Case("E17-names-that-look-like-formulas", CANONICAL + "".join(
        f'I1,"{name}",{OCTOBER},H100,1,GPU-hours,{amount},USD\n' for name, amount in [
            ('=HYPERLINK(""http://x"",""open"")', "1.00"), ("+1", "2.00"), ("-1", "3.00"), ("@SUM(A1)", "-5.00")]),
        ["1.00", "2.00", "3.00", "-5.00"]),
    # the public FOCUS sample
    Case("E23-null-where-a-number-belongs", focus(
        {"BilledCost": "12.5", "PricingQuantity": "NULL", "ConsumedQuantity": "NULL"},
        {"BilledCost": "2.5", "PricingQuantity": "", "ConsumedQuantity": "2", "ConsumedUnit": "Hours"},
        {"BilledCost": "NULL"}, {"BilledCost": ""}), ["12.5", "2.5"], ["no_amount", "no_amount"]),
    Case("E23-null-in-a-table-of-ones-own", english("12.5", "NULL", ""), ["12.5"], ["bad_amount", "no_amount"]),
    # a public export of GCP
    Case("E24-credits-as-python-writes-them", gcp(
        {"cost": "0.5", "credits": "[{'name': 'Free', 'amount': -5e-06, 'full_name': None, 'type': 'FREE_TIER'}]"},
        {"cost": "0.5", "credits": "[{'name': \"it's\", 'amount': Decimal('-0.1'), 'full_name': None}]"},
        {"cost": "0.5", "credits": "[]"}), ["0.5", "-0.000005", "0.5", "-0.1", "0.5"]),
    Case("E24-credits-that-nobody-can-read", gcp({"cost": "0.5", "credits": "[{'name': 'x', 'amount':"}), ["0.5"],
         ["bad_credits"]),
]  # fmt: skip
