"""Cloud exports: one cost basis, credits and corrections as lines, text ids, exponents, `NULL`, deliveries."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from wattledger_audit.intake import (
    billing_aws_cur,
    billing_azure,
    billing_focus,
    billing_gcp,
    billing_nerc,
    billing_oci,
)
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused

from tests.unit.billing_reading import OCTOBER, Reading, at, read_file, read_text

D = Decimal
FOCUS = (
    "BilledCost,EffectiveCost,BillingCurrency,BillingAccountId,SubAccountId,SubAccountName,ChargeCategory,ChargeClass,"
)
FOCUS += "ChargeDescription,ChargePeriodStart,ChargePeriodEnd,BillingPeriodStart,SkuId,PricingQuantity,PricingUnit,"
FOCUS += "InvoiceId,Tags"


def focus(folder: Path, *rows: str) -> Reading:
    return read_text(folder, "\n".join([FOCUS, *rows]) + "\n", billing_focus.IMPORTERS)


def focus_row(cost: str, category: str = "Usage", **changed: str) -> str:
    cells = {
        "cost": cost, "effective": "0", "currency": "USD", "account": "012345678910", "sub": "s1", "name": "acme",
        "category": category, "class": "NULL", "description": "GPU hours", "start": "2026-10-01 00:00:00",
        "end": "2026-10-02T00:00:00Z", "month": "2026-10-01 00:00:00", "sku": "h100", "quantity": "24", "unit": "Hours",
        "invoice": "", "tags": "",
    }  # fmt: skip
    return ",".join((cells | changed).values())


def test_focus_counts_what_is_billed_and_not_what_is_amortised(tmp_path: Path) -> None:
    found = focus(
        tmp_path,
        focus_row("4550", "Purchase", effective="0"),
        focus_row("0", "Usage", effective="379", quantity="NULL"),
    )
    assert [(line.amount, line.category) for line in found.lines] == [(D(4550), "commitment"), (D(0), "usage")]


@pytest.mark.parametrize(
    ("cost", "amount"),
    [
        ("3.5e-7", "0.00000035"),
        ("0.00012000000000000002", "0.00012000000000000002"),
        ("1.23E-7", "0.000000123"),
        ("-5", "-5"),
    ],
)
def test_focus_costs_with_exponents_are_exact(tmp_path: Path, cost: str, amount: str) -> None:
    assert focus(tmp_path, focus_row(cost)).total == D(amount)


@pytest.mark.parametrize(
    ("category", "changed", "expected"),
    [
        ("Usage", {}, "usage"),
        ("Purchase", {}, "commitment"),
        ("Tax", {}, "tax"),
        ("Refund", {}, "refund"),
        ("Adjustment", {}, "adjustment"),
        ("Credit", {"description": "promotional credit"}, "credit_promo"),
        ("Credit", {"description": "SLA credit for the outage"}, "credit_sla"),
        ("Usage", {"class": "Correction"}, "adjustment"),
    ],
)
def test_focus_charge_categories_become_revenue_categories(
    tmp_path: Path, category: str, changed: dict[str, str], expected: str
) -> None:
    assert focus(tmp_path, focus_row("-1", category, **changed)).categories() == [expected]


def test_focus_rows_that_cannot_be_used_are_listed_with_their_money(tmp_path: Path) -> None:
    found = focus(
        tmp_path,
        focus_row("NULL"),
        focus_row("1,5", tags="x"),
        focus_row("2", end="NULL"),
        focus_row("3", currency="NULL"),
        focus_row("5", start="2026-10-03 00:00:00"),
        focus_row("7", start="yesterday"),
        focus_row("11"),
        focus_row("13", quantity="many"),
    )
    assert found.rejected == [
        (2, "no_amount"), (3, "too_many_cells"), (4, "no_period"), (5, "bad_currency"), (6, "bad_period"),
        (7, "bad_time"), (9, "bad_number"),
    ]  # fmt: skip
    assert found.total == 11
    assert found.money == {
        "bad_currency": D(3),
        "no_period": D(2),
        "bad_period": D(5),
        "bad_time": D(7),
        "bad_number": D(13),
    }


def test_focus_ids_that_a_spreadsheet_shortened_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match=r"billing.csv, line 3: SubAccountId '1.67683E\+15'"):
        focus(tmp_path, focus_row("1"), focus_row("1", sub="1.67683E+15"))


def test_focus_tenants_with_one_name_stay_apart_and_a_tag_names_them_best(tmp_path: Path) -> None:
    tags = '"{""tenant"": ""umbrella""}"'
    rows = [
        focus_row("1", sub="a"),
        focus_row("1", sub="b"),
        focus_row("1", sub="NULL", name="NULL"),
        focus_row("1", tags=tags),
    ]
    assert [line.tenant for line in focus(tmp_path, *rows).lines] == [
        "acme (a)",
        "acme (b)",
        "012345678910",
        "umbrella",
    ]


@pytest.mark.parametrize(("second", "rank"), [("INV-1", 1), ("", 0)])
def test_a_focus_month_is_final_once_all_its_rows_have_an_invoice(tmp_path: Path, second: str, rank: int) -> None:
    found = focus(tmp_path, focus_row("1", invoice="INV-1"), focus_row("1", invoice=second))
    assert {(line.delivery, line.delivery_rank) for line in found.lines} == {("focus//012345678910/2026-10", rank)}


def test_focus_parquet_gives_what_its_csv_gives(tmp_path: Path) -> None:
    table = pa.table(
        {
            "BilledCost": pa.array([D("1.50"), D("-0.25")], pa.decimal128(30, 15)),
            "BillingCurrency": ["USD", "USD"],
            "ChargeCategory": ["Usage", "Credit"],
            "ChargePeriodStart": pa.array([OCTOBER[0], OCTOBER[0]], pa.timestamp("us", "UTC")),
            "ChargePeriodEnd": pa.array([OCTOBER[1], OCTOBER[1]], pa.timestamp("us")),
            "SubAccountId": ["acme", "acme"],
            "SkuId": ["gpu.h100", None],
            "InvoiceId": ["INV-1", "INV-1"],
            "ServiceProviderName": ["Cloud", "Cloud"],
        }
    )
    pq.write_table(table, tmp_path / "focus.parquet")
    found = read_file(tmp_path / "focus.parquet", billing_focus.IMPORTERS)
    assert [(line.amount, line.category, line.tenant) for line in found.lines] == [
        (D("1.50"), "usage", "acme"),
        (D("-0.25"), "credit_promo", "acme"),
    ]
    assert {(line.start_us, line.end_us, line.delivery_rank) for line in found.lines} == {(*OCTOBER, 1)}
    assert found.lines[0].gpu is True


CUR = "identity/LineItemId,bill/InvoiceId,bill/PayerAccountId,bill/BillingPeriodStartDate,lineItem/UsageAccountId,"
CUR += "lineItem/LineItemType,lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/UsageAmount,lineItem/CurrencyCode,"
CUR += "lineItem/UnblendedCost,lineItem/UsageType,lineItem/LineItemDescription,resourceTags/user:tenant"


def cur_row(kind: str, cost: str, hours: str = "1", words: str = "", tag: str = "", invoice: str = "77") -> str:
    start, end = "2026-10-05T01:00:00Z", "2026-10-05 02:00:00"
    names = f"id,{invoice},0012,2026-10-01T00:00:00Z,0034,{kind}"
    return f"{names},{start},{end},{hours},USD,{cost},BoxUsage:p5.48xlarge,{words},{tag}"


def test_a_savings_plan_costs_its_fee_once_and_its_hour_is_one_hour(tmp_path: Path) -> None:
    rows = [
        cur_row("SavingsPlanCoveredUsage", "2"),
        cur_row("SavingsPlanNegation", "-2"),
        cur_row("SavingsPlanRecurringFee", "1.20"),
    ]
    found = read_text(tmp_path, "\n".join([CUR, *rows]), billing_aws_cur.IMPORTERS)
    assert found.total == D("1.20")
    assert found.categories() == ["usage", "usage", "commitment"]
    assert [line.quantity for line in found.lines] == [D(1), None, D(1)]
    assert {line.gpu for line in found.lines} == {True}


@pytest.mark.parametrize(
    ("kind", "cost", "words", "category"),
    [
        ("Usage", "1.23E-7", "", "usage"), ("DiscountedUsage", "0", "", "usage"), ("RIFee", "137", "", "commitment"),
        ("Tax", "3", "", "tax"), ("Credit", "-5", "promo", "credit_promo"),
        ("Credit", "-5", "SLA breach", "credit_sla"), ("Refund", "-5", "", "refund"),
    ],
)  # fmt: skip
def test_aws_line_item_types_become_revenue_categories(
    tmp_path: Path, kind: str, cost: str, words: str, category: str
) -> None:
    found = read_text(tmp_path, CUR + "\n" + cur_row(kind, cost, words=words), billing_aws_cur.IMPORTERS)
    assert [(line.amount, line.category, line.tenant) for line in found.lines] == [(D(cost), category, "0034")]


def test_an_aws_month_is_replaced_as_a_whole_and_a_tenant_tag_names_the_tenant(tmp_path: Path) -> None:
    rows = [cur_row("Usage", "1", tag="acme"), cur_row("Usage", "1", invoice="")]
    found = read_text(tmp_path, "\n".join([CUR, *rows]), billing_aws_cur.IMPORTERS)
    assert [(line.tenant, line.delivery, line.delivery_rank) for line in found.lines] == [
        ("acme", "cur/0012/2026-10", 0),
        ("0034", "cur/0012/2026-10", 0),
    ]


def test_aws_columns_of_cur_2_are_the_same_columns(tmp_path: Path) -> None:
    header = CUR.replace("/", "_").replace("lineItem_", "line_item_")
    header = ",".join("".join("_" + c.lower() if c.isupper() else c for c in name) for name in header.split(","))
    header = header.replace("__", "_").replace("user:tenant", "user_tenant")
    found = read_text(tmp_path, header + "\n" + cur_row("Usage", "2.5"), billing_aws_cur.IMPORTERS)
    assert (found.total, found.lines[0].tenant) == (D("2.5"), "0034")


GCP = "billing_account_id,service.description,sku.id,sku.description,usage_start_time,usage_end_time,project.id,"
GCP += "cost,currency,usage.amount,usage.unit,credits,invoice.month,cost_type,labels"


def gcp_row(cost: str, credits: str, kind: str = "regular", labels: str = "[]") -> str:
    quoted = '"' + credits.replace('"', '""') + '"'
    return (
        f"01-AB,Compute Engine,SKU1,A2 GPU,2026-10-05 00:00:00+00:00,2026-10-05 01:00:00 UTC,proj,{cost},USD,1,hour,"
        f'{quoted},202610,{kind},"{labels}"'
    )


@pytest.mark.parametrize(
    ("credits", "expected"),
    [
        ("[]", []),
        (
            "[{'name': 'Promo', 'amount': -5e-06, 'full_name': None, 'id': '', 'type': 'PROMOTION'}]",
            [("-0.000005", "credit_promo")],
        ),
        ('[{"name": "x", "amount": -64.516}]', [("-64.516", "credit_promo")]),
        (
            "[{'name': 'SLA', 'amount': -1.10, 'type': ''}, {'amount': -2}]",
            [("-1.10", "credit_sla"), ("-2", "credit_promo")],
        ),
    ],
)
def test_gcp_credits_are_lines_of_their_own(tmp_path: Path, credits: str, expected: list[tuple[str, str]]) -> None:
    found = read_text(tmp_path, GCP + "\n" + gcp_row("2e-06", credits), billing_gcp.IMPORTERS)
    assert [(line.amount, line.category, line.line) for line in found.lines] == [
        (D("0.000002"), "usage", 2),
        *((D(amount), category, 2) for amount, category in expected),
    ]
    assert all(line.quantity is None for line in found.lines[1:])


def test_gcp_credits_that_cannot_be_read_are_listed_and_their_charge_still_counts(tmp_path: Path) -> None:
    found = read_text(tmp_path, GCP + "\n" + gcp_row("7", "[{'amount': __import__('os')}]"), billing_gcp.IMPORTERS)
    assert (found.total, found.rejected) == (D(7), [(2, "bad_credits")])


def test_gcp_cost_types_and_tenant_labels_are_understood(tmp_path: Path) -> None:
    labels = '[{""key"": ""tenant"", ""value"": ""acme""}]'
    rows = [gcp_row("1", "[]", "tax"), gcp_row("1", "[]", "rounding_error", labels)]
    lines = read_text(tmp_path, "\n".join([GCP, *rows]), billing_gcp.IMPORTERS).lines
    assert [(line.category, line.tenant) for line in lines] == [("tax", "proj"), ("adjustment", "acme")]


def test_oci_corrections_are_adjustments_and_a_line_is_itself_by_its_reference(tmp_path: Path) -> None:
    header = "lineItem/referenceNo,lineItem/tenantId,lineItem/intervalUsageStart,lineItem/intervalUsageEnd,cost/myCost,"
    header += (
        "cost/currencyCode,lineItem/isCorrection,lineItem/backreferenceNo,product/compartmentName,usage/billedQuantity"
    )
    rows = [
        "r1,t,2023-11-13T10:00Z,2023-11-13T11:00:00Z,1.5,USD,false,,team,1",
        "r2,t,2023-11-13T10:00Z,2023-11-13T11:00:00Z,-0.5,USD,true,r1,team,0",
        "r3,t,2023-11-13T10:00Z,2023-11-13T11:00:00Z,,USD,false,,team,1",
    ]
    found = read_text(tmp_path, "\n".join([header, *rows]), billing_oci.IMPORTERS)
    assert [(line.amount, line.category, line.delivery) for line in found.lines] == [
        (D("1.5"), "usage", "oci/t/2023-11/r1"),
        (D("-0.5"), "adjustment", "oci/t/2023-11/r2"),
    ]
    assert (found.lines[0].start_us, found.lines[0].end_us) == (at("2023-11-13T10:00"), at("2023-11-13T11:00"))
    assert found.rejected == [(4, "no_amount")]


AZURE = (
    "SubscriptionId,SubscriptionName,Date,MeterCategory,MeterId,MeterName,Quantity,UnitOfMeasure,CostInBillingCurrency,"
)
AZURE += "BillingCurrencyCode,ChargeType,Tags,BillingPeriodStartDate,BillingPeriodEndDate"


def azure_row(
    date: str, start: str = "9/1/2023", end: str = "9/30/2023", kind: str = "Usage", cost: str = "1.5"
) -> str:
    tags = '"""tenant"": ""acme"",""b"": ""c"""'
    return f"s1,sub,{date},Virtual Machines,m1,NC24ads A100 v4,1.000,1 Hour,{cost},EUR,{kind},{tags},{start},{end}"


@pytest.mark.parametrize(
    ("date", "start", "end", "day"),
    [
        ("9/2/2023", "9/1/2023", "9/30/2023", "2023-09-02"),
        ("02/09/2023", "01/09/2023", "30/09/2023", "2023-09-02"),
        ("2020-09-22", "2020-09-01", "2020-09-30", "2020-09-22"),
    ],
)
def test_azure_dates_go_by_the_billing_period(tmp_path: Path, date: str, start: str, end: str, day: str) -> None:
    found = read_text(tmp_path, AZURE + "\n" + azure_row(date, start, end), billing_azure.IMPORTERS)
    line = found.lines[0]
    assert (line.start_us, line.end_us, line.tenant, line.gpu) == (at(day), at(day) + 86_400_000_000, "acme", True)
    assert (line.quantity, line.amount, line.delivery) == (D("1.000"), D("1.5"), f"azure/s1/{day}")


def test_azure_dates_that_nothing_proves_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="--date-order"):
        read_text(tmp_path, AZURE + "\n" + azure_row("9/2/2023", "", ""), billing_azure.IMPORTERS)


def test_azure_rows_of_a_month_that_was_not_asked_for_keep_their_own_date(tmp_path: Path) -> None:
    rows = [azure_row("2026-10-31", "2026-11-01", "2026-11-30"), azure_row("2026-11-02", "2026-11-01", "2026-11-30")]
    lines = read_text(tmp_path, "\n".join([AZURE, *rows]), billing_azure.IMPORTERS).lines
    assert [line.start_us for line in lines] == [at("2026-10-31"), at("2026-11-02")]


def test_an_azure_file_with_a_second_byte_order_mark_has_clean_ids(tmp_path: Path) -> None:
    text = "\ufeff" + AZURE + "\n\ufeff" + azure_row("9/2/2023", kind="Refund", cost="-2") + "\n"
    found = read_text(tmp_path, text, billing_azure.IMPORTERS)
    assert [(line.category, line.amount, line.delivery) for line in found.lines] == [
        ("refund", D(-2), "azure/s1/2023-09-02")
    ]


NERC = "Invoice Month,Project - Allocation,Project - Allocation ID,SU Hours (GBhr or SUhr),SU Type,Rate,Cost,Credit,"
NERC += "Credit Code"


def test_a_service_unit_invoice_gives_months_credits_and_rates_of_its_month(tmp_path: Path) -> None:
    rows = [
        "2025-05,proj,007,11,OpenStack GPUH100,6.04,66.44,,",
        "2025-06,proj,007,11,OpenStack GPUH100,4,$44.00,4,0002",
        "2025-06,proj,007,100,OpenShift CPU,0.013,1.30,,",
        "2025-06,proj,007,5,OpenShift CPU,-1,-5,,",
        "2025-13,proj,007,5,OpenShift CPU,1,5,,",
    ]
    found = read_text(tmp_path, "\n".join([NERC, *rows]), billing_nerc.IMPORTERS, ReadOptions(currency="USD"))
    assert [(line.amount, line.category, line.gpu) for line in found.lines] == [
        (D("66.44"), "usage", True), (D("44.00"), "usage", True), (D(-4), "credit_promo", True),
        (D("1.30"), "usage", False),
    ]  # fmt: skip
    assert (found.lines[0].start_us, found.lines[0].end_us) == (at("2025-05-01"), at("2025-06-01"))
    assert found.lines[0].delivery == "su/OpenStack/2025-05/007"
    assert found.rejected == [(5, "price_not_set"), (6, "no_period")]


def test_a_service_unit_invoice_without_a_currency_names_the_flag(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="--currency"):
        read_text(tmp_path, NERC + "\n2025-05,proj,007,11,GPUH100,6.04,66.44,,", billing_nerc.IMPORTERS)
