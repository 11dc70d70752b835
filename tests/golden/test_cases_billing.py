"""Known mistakes of programs that read invoices and cost exports (cases E1 to E24), as files with the right amounts.

Each case was reported against a public project; the comment names it.
"""

import csv
import io
import json
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from wattledger_audit.audit_run import AuditRequest, run_audit, write_audit
from wattledger_audit.intake.billing_cloud import snake
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused, Rejections

from tests.audit_cases import costs, run, usage
from tests.audit_runner import USAGE_HEADER, audit_texts, bridge_amounts, tenant_row, unexplained
from tests.billing_cases import CANONICAL, CASES, EUR, OCTOBER, Case, english, german
from tests.case_files import PLAIN, UTC, at, gpu_seconds, ids_of, read_case
from tests.cloud_exports import aws, azure, focus

D = Decimal
ALL_CASES = {
    "E1", "E2", "E4", "E6", "E7", "E8", "E10", "E11", "E12", "E14", "E15", "E17", "E18", "E20", "E21", "E23", "E24",
}  # fmt: skip
NOT_ABOUT_FILES: dict[str, str] = {}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_file_gives_the_right_amounts(tmp_path: Path, case: Case) -> None:
    told = read_case(tmp_path, "bill.csv", case.text, case.options)
    assert told.amounts() == [D(text) for text in case.amounts]
    assert told.codes == list(case.codes)


REFUSED = [
    # actual 2143, 2374
    ("E1-one-or-a-thousand", german("1.000", "-3.000"), r"line 2: Betrag '1.000'.*--decimal", EUR),
    ("E1-both-ways-in-one-file", english("1.355,90", "1,355.90"), "decimal point.*decimal comma", PLAIN),
    # azure-powershell 20185, happytaxes 10
    ("E4-no-date-above-twelve", english("5.00").replace(OCTOBER, "01/02/2026,02/03/2026"),
     "--date-order", PLAIN),
    # reportstream 7689
    ("E6-an-id-that-a-spreadsheet-made-short", english("5.00").replace("acme", "1.67683E+15"), r"1\.67683E\+15", PLAIN),
    ("E6-an-account-of-aws", aws({"lineItem/UnblendedCost": "1", "lineItem/UsageAccountId": "1.23457E+11"}),
     r"1\.23457E\+11", PLAIN),
    ("E6-a-sub-account-of-focus", focus({"BilledCost": "1", "SubAccountId": "5.17389E+10"}), r"5\.17389E\+10", PLAIN),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words", "options"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_a_file_does_not_prove_is_refused(tmp_path: Path, text: str, words: str, options: ReadOptions) -> None:
    with pytest.raises(InputRefused, match=words):
        read_case(tmp_path, "bill.csv", text, options)


MONTHS = "invoice_id,tenant,period_start,period_end,sku,amount,currency\n"
NO_PERIOD = {"BillingPeriodStartDate": "", "BillingPeriodEndDate": ""}
DAYS = [
    # azure-powershell 20185: 9/30 in the billing period proves that the month comes first
    ("E4-the-billing-period-proves-the-month-first", azure({"Date": "9/2/2023"}), "2023-09-02T00:00:00+00:00"),
    ("E4-the-billing-period-proves-the-day-first", azure({
        "Date": "2/9/2023", "BillingPeriodStartDate": "1/9/2023", "BillingPeriodEndDate": "30/9/2023"}),
     "2023-09-02T00:00:00+00:00"),
    ("E4-another-row-proves-it", azure({"Date": "03/04/2023"} | NO_PERIOD, {"Date": "13/04/2023"} | NO_PERIOD),
     "2023-04-03T00:00:00+00:00"),
    ("E4-years-first-prove-themselves", azure({"Date": "2020-09-22"}), "2020-09-22T00:00:00+00:00"),
    # actual 8888
    ("E4-a-month-by-its-name", MONTHS + "I1,acme,01 SEP 26,30 SEP 26,H100,1,USD\n", "2026-09-01T00:00:00+00:00"),
    ("E4-a-month-of-four-letters", MONTHS + "I1,acme,01 Sept 2026,30 Sept 2026,H100,1,USD\n",
     "2026-09-01T00:00:00+00:00"),
    ("E4-a-german-month", MONTHS + "I1,acme,1. März 2026,31. März 2026,H100,1,USD\n", "2026-03-01T00:00:00+00:00"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "start"), [case[1:] for case in DAYS], ids=[case[0] for case in DAYS])
def test_a_date_is_the_day_that_the_file_proves(tmp_path: Path, text: str, start: str) -> None:
    told = read_case(tmp_path, "bill.csv", text, UTC)
    assert told.lines[0].start_us == at(start)
    assert told.codes == []


IDS = [
    # prowler 7946, assume-role 7
    ("E6-a-leading-zero-of-aws", aws({"lineItem/UnblendedCost": "1", "resourceTags/user:tenant": ""}), "012345678910"),
    ("E6-a-leading-zero-in-a-table", english("1").replace("acme", "012345678910"), "012345678910"),
    ("E6-an-id-of-twenty-digits", english("1").replace("acme", "12345678901234567890"), "12345678901234567890"),
    ("E6-an-id-that-only-looks-like-an-exponent", english("1").replace("acme", "12e4"), "12e4"),
]


@pytest.mark.parametrize(("text", "tenant"), [case[1:] for case in IDS], ids=[case[0] for case in IDS])
def test_an_id_is_text(tmp_path: Path, text: str, tenant: str) -> None:
    assert [line.tenant for line in read_case(tmp_path, "bill.csv", text).lines] == [tenant]


def test_the_negation_of_a_savings_plan_is_no_hour(tmp_path: Path) -> None:
    """E10: one hour was used, not two and not none."""
    text = next(case.text for case in CASES if case.name.startswith("E10-a-savings"))
    lines = read_case(tmp_path, "cur.csv", text).lines
    assert [(line.category, line.quantity) for line in lines] == [
        ("usage", D(1)), ("usage", None), ("commitment", D(1)),
    ]  # fmt: skip


def test_a_purchase_is_a_commitment_and_its_use_is_free(tmp_path: Path) -> None:
    """E11: one basis, BilledCost."""
    text = next(case.text for case in CASES if case.name.startswith("E11"))
    told = read_case(tmp_path, "focus.csv", text)
    assert ([line.category for line in told.lines], told.total()) == (["commitment", "usage"], D(4550))


def billed(folder: Path, files: dict[str, str]) -> D:
    """The amount billed in October, of all files together."""
    log = USAGE_HEADER + "j,0,acme,,n1,,H100,1,1,1,2026-10-05T00:00:00Z,2026-10-05T01:00:00Z,COMPLETED,,\n"
    audited = audit_texts(folder, {"usage.csv": log, **files}, "2026-10", "UTC")
    assert unexplained(audited) == []
    return bridge_amounts(audited)["billed"]


def cur(*amounts: str, invoice: str = "", header: str = "") -> str:
    """A delivery of the month: one hour of each day."""
    rows = (
        {"lineItem/UnblendedCost": amount, "bill/InvoiceId": invoice, "identity/LineItemId": f"{invoice}{day}",
         "lineItem/UsageStartDate": f"2026-10-{day:02d}T00:00:00Z",
         "lineItem/UsageEndDate": f"2026-10-{day:02d}T01:00:00Z"}
        for day, amount in enumerate(amounts, 1)
    )  # fmt: skip
    return aws(*rows)


def legacy_to_2(text: str) -> str:
    """The header as CUR 2.0 spells it."""
    first, rest = text.split("\n", 1)
    return ",".join(snake(name) for name in first.split(",")) + "\n" + rest


REDELIVERED = [
    # koku PR 3383: 322.21, not 642.95
    ("E8-the-month-again-with-its-invoice", [cur("320.74"), cur("322.21", invoice="987")], "322.21"),
    ("E8-the-final-one-given-first", [cur("322.21", invoice="987"), cur("320.74")], "322.21"),
    # koku 1180: the same file ten times
    ("E8-ten-times", [cur("155.88")] * 10, "155.88"),
    # DataDog PR 39814
    ("E8-both-headers-of-one-report", [cur("155.88", "1.12"), legacy_to_2(cur("155.88", "1.12"))], "157.00"),
    # aws-usage-queries 8: each day the month so far
    ("E8-each-day-the-month-so-far", [cur("10"), cur("10", "20"), cur("10", "20", "30")], "60"),
    ("E8-a-correction-that-lowers", [cur("10", "20", "30"), cur("10", "5", "30")], "45"),
    ("E8-invoices-again", [english("100.00", "50.00"), english("100.00", "55.00")], "155.00"),
    ("E8-a-focus-month-again",
     [focus({"BilledCost": "155.88"}), focus({"BilledCost": "155.88"}, {"BilledCost": "1", "SkuId": "A100"})],
     "156.88"),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "amount"), [case[1:] for case in REDELIVERED], ids=[case[0] for case in REDELIVERED])
def test_a_month_that_comes_again_replaces(tmp_path: Path, texts: list[str], amount: str) -> None:
    assert billed(tmp_path, {f"{n}.csv": text for n, text in enumerate(texts)}) == D(amount)


def test_parquet_of_each_day_the_month_so_far_is_the_last_of_them(tmp_path: Path) -> None:
    """E8 (aws-usage-queries 8): three loads of a growing month, which somebody summed."""
    log = run("j", "acme", 0, 1) | {"start": "2026-10-05T00:00:00Z", "end": "2026-10-05T01:00:00Z"}
    (tmp_path / "usage.csv").write_text(usage(log))
    named: list[tuple[Path, str | None]] = [(tmp_path / "usage.csv", None)]
    for days in (1, 2, 3):
        rows = list(csv.DictReader(io.StringIO(cur(*("10.5", "20.25", "30")[:days]))))
        named.append((tmp_path / f"{days}.parquet", None))
        pq.write_table(pa.Table.from_pylist(rows), named[-1][0])
    with Rejections.into(tmp_path / "rejected.csv") as rejections:
        audited = run_audit(AuditRequest(named, UTC, "2026-10"), rejections, lambda _: None)
    assert bridge_amounts(audited)["billed"] == D("60.75")


def fee(number: str, start: str = "2026-10-01", end: str = "2026-10-31", **more: str) -> dict[str, Any]:
    return {
        "lago_id": number, "amount_cents": 10000, "amount_currency": "USD", "units": "50.0", "precise_amount": "100.0",
        "taxes_amount_cents": 0, "item": {"type": "charge", "code": "h100_hours", "name": "H100 GPU hours"},
        "from_date": start, "to_date": end, "external_subscription_id": "sub",
    } | more  # fmt: skip


def invoices(*many: tuple[str, list[dict[str, Any]]]) -> str:
    return json.dumps({"invoices": [
        {"lago_id": f"i-{number}", "number": number, "issuing_date": "2026-11-02", "status": "finalized",
         "currency": "USD", "customer": {"external_id": "acme", "applicable_timezone": "UTC"}, "fees": fees,
         "subscriptions": [{"external_id": "sub", "plan_code": "on_demand"}]}
        for number, fees in many
    ]})  # fmt: skip


PLAN = {"item": {"type": "subscription", "code": "pro", "name": "H100 plan"}}
FEES = [
    ("E14-one-fee-told-twice", [("L1", [fee("f1"), fee("f1")])], ["100"], ["duplicate_line"]),
    # lago-api PR 1203: a yearly plan beside monthly charges that begin with it
    ("E14-a-year-and-a-month-that-begin-together",
     [("L1", [fee("f1", end="2027-09-30") | PLAN, fee("f2")])], ["100", "100"], []),
    ("E14-a-year-paid-before-and-the-month-after",
     [("L1", [fee("f1") | PLAN, fee("f2", charges_from_datetime="2026-09-01T00:00:00Z",
                                     charges_to_datetime="2026-09-30T23:59:59Z")])], ["100", "100"], []),
    # lago-api 5549 and PR 1086: the customer has both, so both are billed
    ("E14-two-fees-of-one-code", [("L1", [fee("f1"), fee("f2")])], ["100", "100"], []),
    ("E14-two-invoices-of-one-month", [("L1", [fee("f1")]), ("L2", [fee("f9")])], ["100", "100"], []),
]  # fmt: skip


@pytest.mark.parametrize(("many", "amounts", "codes"), [case[1:] for case in FEES], ids=[case[0] for case in FEES])
def test_a_fee_counts_once_and_a_second_fee_is_another(
    tmp_path: Path, many: list[tuple[str, list[dict[str, Any]]]], amounts: list[str], codes: list[str]
) -> None:
    told = read_case(tmp_path, "lago.json", invoices(*many))
    assert (told.amounts(), told.codes) == ([D(text) for text in amounts], codes)


def test_what_was_billed_twice_is_seen_as_billed_beyond_use(tmp_path: Path) -> None:
    """E14: 50 hours were held and sold twice over; the second hundred dollars stand against nothing."""
    log = USAGE_HEADER + "j,0,acme,,n1,,H100,1,1,1,2026-10-05T00:00:00Z,2026-10-07T02:00:00Z,COMPLETED,,\n"
    files = {"usage.csv": log, "lago.json": invoices(("L1", [fee("f1")]), ("L2", [fee("f9")]))}
    audited = audit_texts(tmp_path, files, "2026-10", "UTC")
    steps = bridge_amounts(audited)
    assert steps["billed"] == 200
    assert (tenant_row(audited, "acme").billable_gpu_hours, tenant_row(audited, "acme").billed_gpu_hours) == (
        "50.000000", "100.000000",
    )  # fmt: skip


def test_names_that_look_like_formulas_are_written_as_text(tmp_path: Path) -> None:
    """E17 on the way out: a spreadsheet shows them and runs none; amounts stay numbers."""
    names = ['=HYPERLINK("http://x","open")', "+1+1", "-2+3", "@SUM(A1)", "\tx"]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(CANONICAL.strip().split(","))
    for name in names:
        writer.writerow(["I" + name, name, *OCTOBER.split(","), "H100", "1", "GPU-hours", "-5.00", "USD"])
    audited = audit_texts(tmp_path, {"bill.csv": out.getvalue(), "costs.yaml": costs()}, "2026-10")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rejected.csv").write_text("")
    write_audit(audited, tmp_path / "out", {})
    cells = {
        cell for path in (tmp_path / "out" / "tables").glob("*.csv") for row in csv.reader(path.open()) for cell in row
    }
    risky = {
        cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t")) and not re.fullmatch(r"-?[\d.]+", cell)
    }
    assert risky == set()
    assert {f"'{name}" for name in names if name.strip() == name} <= cells
    assert "-5.00" in cells


OUTSIDE = [
    # finops-toolkit 584: November was asked for and October came; March began on the 2nd
    ("E18-another-month", ["10/1/2026", "10/31/2026"], "2026-11", D(0), {"outside_period": D(20)}),
    ("E18-a-day-of-the-month-before", ["10/31/2026", "11/1/2026", "11/30/2026"], "2026-11", D(20),
     {"outside_period": D(10)}),
    ("E18-the-first-day-of-the-month-after", ["3/2/2026", "3/31/2026", "4/1/2026"], "2026-03", D(20),
     {"outside_period": D(10)}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("days", "period", "counted", "left_out"), [case[1:] for case in OUTSIDE], ids=[case[0] for case in OUTSIDE]
)
def test_rows_of_another_month_are_listed_and_not_counted(
    tmp_path: Path, days: list[str], period: str, counted: D, left_out: dict[str, D]
) -> None:
    text = azure(*(
        {"Date": day, "BillingPeriodStartDate": f"{period[5:]}/1/2026", "BillingPeriodEndDate": f"{period[5:]}/30/2026"}
        for day in days
    ))  # fmt: skip
    log = USAGE_HEADER + f"j,0,acme,,n1,,H100,1,1,1,{period}-05T00:00:00Z,{period}-05T01:00:00Z,COMPLETED,,\n"
    audited = audit_texts(tmp_path, {"usage.csv": log, "azure.csv": text}, period, "UTC")
    assert bridge_amounts(audited)["billed"] == counted
    assert audited.assessment.revenue.left_out == left_out
    listed = (tmp_path / "rejected.csv").read_text()
    assert listed.count("outside_period") == len(days) - counted / 10


NERC = (
    "Invoice Month,Report Start Time,Report End Time,Project - Allocation,Project - Allocation ID,Manager (PI),"
    "Cluster Name,Invoice Email,Invoice Address,Institution,Institution - Specific Code,Prepaid Group Name,"
    "SU Hours (GBhr or SUhr),SU Type,Rate,Cost,Generated At\n"
)


def nerc(project: str, hours: str, rate: str, cost: str, month: str = "2025-06") -> str:
    return f"{month},,,{project},{project}-id,pi,ocp,,,BU,,,{hours},OpenShift GPUH100,{rate},{cost},2025-07-01\n"


def test_hours_are_rounded_up_for_each_project_and_stay_as_billed(tmp_path: Path) -> None:
    """E20: 10.2 h in two projects are 11 and 11, 44 each."""
    told = read_case(tmp_path, "nerc.csv", NERC + nerc("a", "11", "4", "44.00") + nerc("b", "11", "4", "44.00"),
                     ReadOptions(currency="USD"))  # fmt: skip
    assert [(line.tenant, line.quantity, line.amount) for line in told.lines] == [
        ("a", D(11), D("44.00")), ("b", D(11), D("44.00")),
    ]  # fmt: skip


RATES = [
    # the public rate file of NERC: 6.04 up to May 2025, 4 from June
    ("E20-a-job-over-the-night-of-31-may", "2025-05-31T22:00:00Z", "2025-06-01T03:00:00Z", "24.08"),
    ("E20-a-job-that-ends-with-may", "2025-05-31T22:00:00Z", "2025-06-01T00:00:00Z", "12.08"),
    ("E20-a-job-of-both-months", "2025-05-01T00:00:00Z", "2025-07-01T00:00:00Z", "7373.76"),
]


@pytest.mark.parametrize(("start", "end", "cost"), [case[1:] for case in RATES], ids=[case[0] for case in RATES])
def test_a_rate_that_changed_splits_what_crosses_it(tmp_path: Path, start: str, end: str, cost: str) -> None:
    log = USAGE_HEADER + f"j,0,a,,n1,,H100,1,1,1,{start},{end},COMPLETED,,\n"
    sheet = costs("compute: [{per_gpu_hour: 6.04, to: 2025-06-01}, {per_gpu_hour: 4, from: 2025-06-01}]")
    audited = audit_texts(tmp_path, {"usage.csv": log, "costs.yaml": sheet}, "2025-05-01..2025-07-01")
    assert D(tenant_row(audited, "a").cost_own or 0) == D(cost)


def test_what_opencost_rounded_away_is_not_lost(tmp_path: Path) -> None:
    """E21: 14.4 s of a thousandth of a GPU are 0.000004 hours, which it writes as 0; ten thousand pods have 0.04."""

    def pod(number: int) -> dict[str, Any]:
        return {
            "name": f"c/n1/acme/p{number}/main", "start": "2026-10-05T00:00:00Z", "end": "2026-10-05T00:00:14.4Z",
            "properties": {"cluster": "c", "node": "n1", "namespace": "acme", "pod": f"p{number}", "container": "main"},
            "window": {"start": "2026-10-05T00:00:00Z", "end": "2026-10-06T00:00:00Z"}, "minutes": 0.24,
            "gpuCount": 0.001, "gpuHours": 0.0, "gpuCost": 0.0, "totalCost": 0.0,
        }  # fmt: skip

    text = json.dumps({"code": 200, "data": [{f"p{n}": pod(n) for n in range(10_000)}]})
    told = read_case(tmp_path, "opencost.json", text)
    assert sum(gpu_seconds(each) or 0 for each in told.runs) == 144


THIRDS = [
    ("E21-a-third-of-a-gpu", 0.33333, 3600), ("E21-two-thirds", 0.66667, 7200),
    ("E21-a-seventh", 0.14286, Fraction(10800, 7)), ("E21-what-is-no-simple-part", 0.123, Fraction("1328.4")),
]  # fmt: skip


@pytest.mark.parametrize(("count", "seconds"), [case[1:] for case in THIRDS], ids=[case[0] for case in THIRDS])
def test_a_rounded_part_of_a_gpu_is_the_part(tmp_path: Path, count: float, seconds: int | Fraction) -> None:
    """Three hours of it."""
    fields = {
        "name": "c/n1/acme/p/main", "start": "2026-10-05T00:00:00Z", "end": "2026-10-05T03:00:00Z", "minutes": 180,
        "properties": {"cluster": "c", "node": "n1", "namespace": "acme", "pod": "p", "container": "main"},
        "window": {"start": "2026-10-05T00:00:00Z", "end": "2026-10-05T03:00:00Z"}, "gpuCount": count,
        "gpuHours": round(3 * count, 5),
    }  # fmt: skip
    text = json.dumps({"code": 200, "data": [{"p": fields}]})
    assert gpu_seconds(read_case(tmp_path, "o.json", text).run()) == seconds


def test_every_case_has_a_test_or_a_reason() -> None:
    tables = (CASES, REFUSED, DAYS, IDS, REDELIVERED, FEES, OUTSIDE, RATES, THIRDS)
    tested = ids_of(*(str(row[0]) for table in tables for row in table))
    assert tested | NOT_ABOUT_FILES.keys() == ALL_CASES
    assert not tested & NOT_ABOUT_FILES.keys()
