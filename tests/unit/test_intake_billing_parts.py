"""A cloud's month in several files: parts add up though their rows read alike, a redelivery replaces."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

import pytest

from tests.audit_runner import audit_texts, bridge_amounts

D = Decimal
Rows = Sequence[tuple[str, int, str]]
"""Rows as (resource, hour, cost); they differ in nothing else."""
USAGE = "job_id,tenant,gpus,start,end\n1,acme,8,2026-10-01T00:00:00Z,2026-10-02T00:00:00Z\n"


def cur(rows: Rows, final: bool = False) -> str:
    head = (
        "bill/InvoiceId,bill/PayerAccountId,bill/BillingPeriodStartDate,lineItem/UsageAccountId,lineItem/LineItemType,"
        "lineItem/UsageStartDate,lineItem/UsageEndDate,lineItem/UsageType,lineItem/ResourceId,lineItem/CurrencyCode,"
        "lineItem/UnblendedCost\n"
    )
    return head + "".join(
        f"{'9' if final else ''},1,2026-10-01,acme,Usage,2026-10-01T{hour:02}:00:00Z,2026-10-01T{hour + 1:02}:00:00Z,"
        f"BoxUsage:p5.48xlarge,{resource},USD,{cost}\n"
        for resource, hour, cost in rows
    )


def focus(rows: Rows, final: bool = False) -> str:
    head = (
        "InvoiceId,BillingAccountId,BillingPeriodStart,SubAccountId,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,"
        "SkuId,ResourceId,BillingCurrency,BilledCost\n"
    )
    return head + "".join(
        f"{'9' if final else ''},1,2026-10-01,acme,Usage,2026-10-01T{hour:02}:00:00Z,2026-10-01T{hour + 1:02}:00:00Z,"
        f"H100 GPU,{resource},USD,{cost}\n"
        for resource, hour, cost in rows
    )


def gcp(rows: Rows, final: bool = False) -> str:
    head = (
        "billing_account_id,invoice.month,project.id,sku.id,sku.description,usage_start_time,usage_end_time,"
        "resource.name,currency,cost\n"
    )
    return head + "".join(
        f"1,202610,acme,A3,H100 GPU,2026-10-01 {hour:02}:00:00 UTC,2026-10-01 {hour + 1:02}:00:00 UTC,{resource},USD,"
        f"{cost}\n"
        for resource, hour, cost in rows
    )


def azure(rows: Rows, final: bool = False) -> str:
    head = (
        "InvoiceId,BillingAccountId,SubscriptionId,Date,MeterCategory,MeterId,ProductName,ResourceId,Quantity,"
        "BillingCurrency,CostInBillingCurrency\n"
    )
    return head + "".join(
        f"{'9' if final else ''},1,acme,2026-10-{hour + 1:02},VM,m,ND96 H100,{resource},1,USD,{cost}\n"
        for resource, hour, cost in rows
    )


FORMS: list[Callable[..., str]] = [cur, focus, gcp, azure]
ONE: Rows = [("i-1", hour, "10") for hour in range(12)]
TWO: Rows = [("i-2", hour, "1") for hour in range(12)]
ONE_AGAIN: Rows = [("i-1", hour, "11") for hour in range(12)]


def billed(folder: Path, *texts: str) -> Decimal:
    files = {"usage.csv": USAGE} | {f"bill{number}.csv": text for number, text in enumerate(texts)}
    return bridge_amounts(audit_texts(folder, files, period="2026-10"))["billed"]


@pytest.mark.parametrize("form", FORMS)
def test_parts_whose_rows_read_alike_add_up_in_any_order(tmp_path: Path, form: Callable[..., str]) -> None:
    assert billed(tmp_path, form(ONE), form(TWO)) == billed(tmp_path, form(TWO), form(ONE)) == D(132)


@pytest.mark.parametrize("form", FORMS)
def test_the_same_rows_in_a_later_file_are_the_delivery_again(tmp_path: Path, form: Callable[..., str]) -> None:
    assert billed(tmp_path, form(ONE), form(ONE_AGAIN)) == D(132)
    assert billed(tmp_path, form(ONE), form(TWO), form(ONE_AGAIN)) == D(144)
    assert billed(tmp_path, form([*ONE, *TWO]), form(ONE_AGAIN), form(TWO)) == D(144)
    assert billed(tmp_path, form(ONE), form(TWO), form([*ONE_AGAIN, *TWO])) == D(144)


@pytest.mark.parametrize("form", [cur, focus, azure])
def test_a_final_delivery_counts_wherever_it_stands(tmp_path: Path, form: Callable[..., str]) -> None:
    assert billed(tmp_path, form(ONE_AGAIN, final=True), form(TWO), form(ONE)) == D(144)


@pytest.mark.parametrize("form", FORMS)
def test_a_month_to_date_that_grows_replaces(tmp_path: Path, form: Callable[..., str]) -> None:
    assert billed(tmp_path, form(ONE[:3]), form(ONE[:8]), form(ONE)) == D(120)


def test_a_column_that_one_delivery_lacks_does_not_make_parts_of_it(tmp_path: Path) -> None:
    without = cur(ONE).replace("lineItem/ResourceId,", "").replace("i-1,", "")
    assert billed(tmp_path, without, cur(ONE_AGAIN)) == D(132)
