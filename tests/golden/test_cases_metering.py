"""Figures of metering systems that anybody can check: resizes, whole hours, rounding, days of clock changes, splits."""

import io
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from wattledger_audit.intake.record import BillingLine
from wattledger_audit.report.amount_text import cents

from tests.audit_cases import DAY, bill, billing, costs, fleet, found, hours, machine, own_costs, run, usage
from tests.audit_runner import audit_texts, bridge_amounts, tenant_row, unexplained
from tests.case_files import UTC, Told, read_case

SACCT = "JobIDRaw|Cluster|Account|Submit|Start|End|ElapsedRaw|State|AllocTRES|NodeList\n"
DAY_OF = "2026-02-10T"


def sacct(number: int, start: str, end: str, elapsed: str, state: str, tres: str, node: str = "n1") -> str:
    return f"{number}|hpc|acme|{DAY_OF}00:00:00|{DAY_OF}{start}|{DAY_OF}{end}|{elapsed}|{state}|{tres}|{node}\n"


RESIZED = [
    # gpustack 6054, recomputed: 30 minutes of four and 20 of one are 2.33 GPU-hours (and not 0.83)
    ("down", [("00:00:00", "00:30:00", "1800", "gres/gpu=4"), ("00:30:00", "00:50:00", "1200", "gres/gpu=1")],
     Fraction(7, 3)),
    # 20 minutes of one and 22.5 of four are 1.83 (and not 3.33)
    ("up", [("00:00:00", "00:20:00", "1200", "gres/gpu=1"), ("00:20:00", "00:42:30", "1350", "gres/gpu=4")],
     Fraction(11, 6)),
    # 30 minutes of an A100, then 20 of an H100 (and not 50 of an H100)
    ("to another model",
     [("00:00:00", "00:30:00", "1800", "gres/gpu:a100=1"), ("00:30:00", "00:50:00", "1200", "gres/gpu:h100=1")],
     Fraction(5, 6)),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "gpu_hours"), [case[1:] for case in RESIZED], ids=[case[0] for case in RESIZED])
def test_a_job_resized_within_an_hour_holds_what_it_had_when(
    tmp_path: Path, parts: list[tuple[str, str, str, str]], gpu_hours: Fraction
) -> None:
    text = SACCT
    for number, (start, end, length, tres) in enumerate(parts, 1):
        text += sacct(5, start, end, length, "RESIZING" if number < len(parts) else "COMPLETED", tres)
    audited = audit_texts(tmp_path, {"1.txt": text, "costs.yaml": costs()}, DAY, "UTC")
    assert abs(hours(audited)["held"] - gpu_hours) < Fraction(1, 10**6)
    assert round(own_costs(audited)["acme"], 9) == round(Decimal(gpu_hours.numerator) / gpu_hours.denominator, 9)


def test_models_of_a_resized_job_are_billed_apart(tmp_path: Path) -> None:
    text = SACCT + sacct(5, "00:00:00", "00:30:00", "1800", "RESIZING", "gres/gpu:a100=1", "a1")
    text += sacct(5, "00:30:00", "00:50:00", "1200", "COMPLETED", "gres/gpu:h100=1", "h1")
    rates = "compute: [{gpu_model: a100, per_gpu_hour: 2}, {gpu_model: h100, per_gpu_hour: 6}]"
    audited = audit_texts(tmp_path, {"1.txt": text, "costs.yaml": costs(rates)}, DAY, "UTC")
    assert own_costs(audited) == {"acme": Decimal(3)}


def test_an_hour_is_an_hour_whenever_it_starts(tmp_path: Path) -> None:
    """gpustack 5710: 3,600 s whatever the second of its start is."""
    text = SACCT + "".join(
        sacct(s, f"01:00:{s:02d}", f"02:00:{s:02d}", "3600", "COMPLETED", "gres/gpu=1", f"n{s}") for s in range(60)
    )
    audited = audit_texts(tmp_path, {"1.txt": text, "costs.yaml": costs()}, DAY, "UTC")
    assert (hours(audited)["held"], own_costs(audited)) == (Fraction(60), {"acme": Decimal(60)})


def test_money_is_shown_to_the_cent_and_kept_as_it_is(tmp_path: Path) -> None:
    """OpenMeter: 1.235 dollars are 1.24; 1.2345678 stays so in the ledger."""
    assert (cents(Decimal("1.235")), cents(Decimal("1.2345678"))) == ("1.24", "1.23")
    sheet = costs("compute: [{per_gpu_hour: 1.2345678}]")
    audited = audit_texts(tmp_path, {"u.csv": usage(run("j", "a", 0, 1)), "costs.yaml": sheet}, DAY)
    assert tenant_row(audited, "a").cost_own == "1.2345678"


def workbook(*amounts: float) -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(
        ["invoice_id", "tenant", "period_start", "period_end", "sku", "quantity", "unit", "amount", "currency"]
    )
    for number, amount in enumerate(amounts):
        sheet.append([f"I{number}", "acme", "2026-10-01", "2026-11-01", "H100", 1, "GPU-hours", amount, "USD"])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def table_of_floats(*amounts: float) -> bytes:
    rows = [
        {"BilledCost": amount, "BillingCurrency": "USD", "ChargeCategory": "Usage", "SubAccountId": "acme",
         "SkuId": "H100", "ChargePeriodStart": "2026-10-05T00:00:00Z", "ChargePeriodEnd": "2026-10-06T00:00:00Z"}
        for amount in amounts
    ]  # fmt: skip
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def amounts_of(told: Told) -> list[Decimal]:
    return [line.amount for line in told.records if isinstance(line, BillingLine)]


FLOATS = [0.121, 64.32, 324.46, 1.235, 0.1]


@pytest.mark.parametrize(
    ("name", "content"),
    [("b.xlsx", workbook(*FLOATS)), ("b.parquet", table_of_floats(*FLOATS))],
    ids=["xlsx", "parquet"],
)
def test_a_typed_number_is_the_one_that_was_written(tmp_path: Path, name: str, content: bytes) -> None:
    """CloudKitty: Decimal(0.121) is not 0.121; ClickHouse made 64.31 of 64.32."""
    told = read_case(tmp_path, name, content, UTC)
    assert amounts_of(told) == [Decimal(text) for text in ("0.121", "64.32", "324.46", "1.235", "0.1")]


NEW_YORK = [
    ("2026-03-08..2026-03-09", "America/New_York", 23),
    ("2026-11-01..2026-11-02", "America/New_York", 25),
    ("2026-03", "America/New_York", 743),
    ("2026-11", "America/New_York", 721),
    ("2026-03", "UTC", 744),
    ("2026-11", "UTC", 720),
    ("2026-04-05..2026-04-06", "Australia/Lord_Howe", Fraction(49, 2)),
]


@pytest.mark.parametrize(("period", "zone", "length"), NEW_YORK, ids=[f"{case[0]} {case[1]}" for case in NEW_YORK])
def test_a_day_of_a_clock_change_has_the_hours_that_it_has(
    tmp_path: Path, period: str, zone: str, length: int | Fraction
) -> None:
    """One GPU, one an hour."""
    files = {
        "u.csv": usage(run("j", "a", 0, 1) | {"start": "2026-01-01T00:00:00Z", "end": "2026-12-31T00:00:00Z"}),
        "f.csv": fleet(machine(gpus=1)), "costs.yaml": costs(timezone=zone),
    }  # fmt: skip
    audited = audit_texts(tmp_path, files, period)
    assert hours(audited) == {"installed": length, "held": length}
    assert own_costs(audited) == {"a": Decimal(length.numerator) / length.denominator}


def test_a_hundred_split_by_three_two_and_one_is_a_hundred(tmp_path: Path) -> None:
    """50, 33.33… and 16.66…, and their sum to the last digit."""
    pool = "pools: [{name: p, amount: 100, driver: held_gpu_h, service_from: 2026-02-10, service_to: 2026-02-11}]"
    log = usage(run("j", "a", 0, 3), run("k", "b", 0, 2, node="n2"), run("l", "c", 0, 1, node="n3"))
    audited = audit_texts(tmp_path, {"u.csv": log, "costs.yaml": costs(pool)}, DAY)
    parts = [Decimal(tenant_row(audited, name).cost_pools or 0) for name in "abc"]
    assert [cents(part) for part in parts] == ["50.00", "33.33", "16.67"]
    assert sum(parts) == 100
    assert unexplained(audited) == []


CEILINGS = [
    # 8 GPUs × 24 h are 192
    ("all there is", [("192", "GPU-hours")], 0),
    ("over two lines", [("100", "GPU-hours"), ("93", "GPU-hours")], 1),
    ("in minutes", [("11580", "GPU-minutes")], 1),
]


@pytest.mark.parametrize(("sold", "flagged"), [case[1:] for case in CEILINGS], ids=[case[0] for case in CEILINGS])
def test_more_than_there_was_is_flagged_when_it_is_billed(
    tmp_path: Path, sold: list[tuple[str, str]], flagged: int
) -> None:
    lines = [bill("a", "H100", quantity, "5.00", unit, invoice_id=f"I{n}") for n, (quantity, unit) in enumerate(sold)]
    files = {"u.csv": usage(run("j", "a", 0, 24, 8)), "f.csv": fleet(machine()), "b.csv": billing(*lines)}
    audited = audit_texts(tmp_path, files, DAY)
    assert ("billed_beyond_capacity" in found(audited)) == bool(flagged)
    assert bridge_amounts(audited)["billed"] == 5 * len(sold)
