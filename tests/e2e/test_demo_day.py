"""The demo's day through the whole embedded stack: the summary's promises, and replay's rows one by one."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from wattledger_audit.broker import Broker
from wattledger_audit.demo import FUTURE_LIMIT_S, POLICY, play_into, read_client, settle, wait_fresh
from wattledger_audit.demo_records import read_day
from wattledger_audit.demo_report import write_day
from wattledger_audit.generated_fleet import demo_day
from wattledger_audit.report.report_json import read_report_json
from wattledger_audit.settling import partitions_of
from wattledger_audit.stack import Stack, StackSettings
from wattledger_audit.summary import Summary, build_summary
from wattledger_audit.topic_amounts import amounts_by_component, fold_topic
from wattledger_core.batch import Batch
from wattledger_core.units import US_PER_HOUR

from tests.demo_agreement_check import assert_tenants_agree
from tests.pipeline_check import assert_rows_equal_replay

pytestmark = pytest.mark.kafka
INSTALLED_HOURS = 24 * (8 + 8 + 4 + 8)
Day = tuple[Summary, set[str], Path]
"""The summary, the discrepancies and line marks that replay saw, and the folder of the report."""


def quiet(_: str) -> None:
    """Progress goes nowhere."""


@pytest.fixture(scope="module")
def day(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    """The day, played once."""
    folder = tmp_path_factory.mktemp("demo")
    settings = StackSettings(folder, Path(), broker.bootstrap, 2, "demo.", future_limit_s=FUTURE_LIMIT_S)
    with Stack(settings) as stack:
        play_into(stack, demo_day(), quiet)
        settle(stack, quiet, 300)
        client = read_client(stack)
        wait_fresh(client)
        replayed = assert_rows_equal_replay(stack, client)
        rows = fold_topic(stack.kafka, "demo.tenant-cost", 2)
        summary = build_summary(client, amounts_by_component(rows), POLICY)
        client.close()
        records = read_day(stack.kafka, "demo.", partitions_of(2), broker.reliable_offsets, rows)
        write_day(records, summary, POLICY, folder / "out", quiet)
        assert stack.peak_pss_bytes < 3_000_000_000
    seen = {found.kind for found in replayed.discrepancies}
    seen |= {mark for line in replayed.lines for mark in line.marks.split(",")}
    seen |= {f"{line.state}:{line.reason}" for line in replayed.lines}
    yield summary, seen, folder / "out"


def test_the_laws_residuals_are_zero(day: Day) -> None:
    assert day[0]["laws"] == {"device_time_residual_us": "0", "energy_residual_uj": "0", "money_residual": "0"}
    assert all(law["ok"] for law in day[0]["verify"])


def test_every_installed_hour_went_somewhere(day: Day) -> None:
    fleet = {name: Decimal(hours) for name, hours in day[0]["fleet"].items()}
    assert fleet["installed"] == INSTALLED_HOURS
    parts = ("unavailable", "reserved_unused", "stranded", "free", "held")
    assert abs(sum((fleet[part] for part in parts), Decimal(0)) - INSTALLED_HOURS) < Decimal("0.00001")
    # the reservation 08-20 of two cards is held 10-17; the exclusive job 01-04 strands six; all from the job table
    assert fleet["reserved_unused"] == 2 * (12 - 7)
    assert fleet["stranded"] == 6 * 3


def test_two_tenants_and_more_cover_their_energy_and_not_their_cost(day: Day) -> None:
    below = [
        t["tenant"]
        for t in day[0]["tenants"]
        if t["below_cost"] and Decimal(t["billed"]) > Decimal(t["cost_energy"]) and t["plan"] != "internal"
    ]
    assert {"cinder", "borealis"} <= set(below)
    assert any(t["verdict"] == "healthy" for t in day[0]["tenants"])


def test_what_has_no_energy_reading_gets_no_verdict(day: Day) -> None:
    # echo's jobs on the machine without an agent are most of its hours
    [echo] = [t for t in day[0]["tenants"] if t["tenant"] == "echo"]
    assert echo["verdict"] == "insufficient data"
    assert echo["break_even_per_gpu_hour"] is None
    assert Decimal(day[0]["coverage"]["measured_ratio"]) < Decimal("0.75")
    assert day[0]["coverage"]["unmeasured_rows"] > 0


def test_every_special_case_left_its_trace(day: Day) -> None:
    expected = {
        "overlap", "usage_without_holder", "hold_on_failed_node", "counter_reset", "implausible_reading",
        "interpolated", "split_by_sm", "split_by_activity", "split_by_slices", "held:", "free:", "unavailable:failed",
        "unavailable:draining", "unavailable:maintenance", "unavailable:stop_pending",
        "reserved_unused:res-delta-h100",
        "stranded:exclusive", "unattributed:", "held:energy_unknown",
    }  # fmt: skip
    assert expected <= day[1]


def test_the_late_stop_and_the_late_price_were_corrected(day: Day) -> None:
    rows = day[0]["rows"]
    assert rows["reversals"] > 100
    assert rows["corrections"] > 100
    assert day[0]["coverage"]["unpriced_rows"] == 0, "the late price reached every row"
    assert rows["usage_lines"] > 80_000


def test_held_hours_follow_from_the_job_table(day: Day) -> None:
    # delta-labs by hand from the table, in device-hours: h100 2x3 (exclusive) + 2x7 + 3.75 = 23.75;
    # a100 cards 2x7.75 + 2x5 (resize at 17:00 to four, until 22:00) = 25.5; MIG 15.5/7 + (6+1/3)/7;
    # l40s quarters (8.25 + 13 h 55 min)/4
    by_hand = Decimal("23.75") + Decimal("25.5") + (Decimal("15.5") + Decimal(19) / 3) / 7
    by_hand += (Decimal("8.25") + Decimal(835) / 60) / 4
    [delta] = [t for t in day[0]["tenants"] if t["tenant"] == "delta-labs"]
    assert abs(Decimal(delta["gpu_hours"]) - by_hand) < Decimal(10) / Decimal(US_PER_HOUR) + Decimal("0.000001")


def test_the_audit_of_the_topics_has_the_same_tenants_as_the_live_tables(day: Day) -> None:
    report = read_report_json(day[2] / "report.json")
    assert len(report.tenants) == 6
    assert_tenants_agree(report, day[0]["tenants"])
    assert all(tie.residual == "0" or tie.named for tie in report.tie_out)
    assert not [tie for tie in report.tie_out if "defect" in tie.named]


def test_the_report_has_the_day_s_capacity_and_coverage(day: Day) -> None:
    report = read_report_json(day[2] / "report.json")
    live = day[0]["fleet"]
    for state in ("installed", "reserved_unused", "stranded", "free", "held", "unavailable", "billed"):
        assert abs(Decimal(report.fleet[state]) - Decimal(live[state])) < Decimal("0.00001"), state
    assert abs(Decimal(report.coverage.measured_ratio) - Decimal(day[0]["coverage"]["measured_ratio"])) < Decimal(
        "0.0005"
    )
    assert {found.kind for found in report.discrepancies} == {found["kind"] for found in day[0]["discrepancies"]}


def test_the_report_names_the_topics_that_it_was_made_from(day: Day) -> None:
    report = read_report_json(day[2] / "report.json")
    used = {file.name: file for file in report.files}
    batches = sum(isinstance(emission.item, Batch) for emission in demo_day())
    assert used["gpu-samples"].records == batches
    assert all(len(file.sha256) == 64 and file.records and not file.rejected for file in used.values())
    assert {name: file.role for name, file in used.items()} == {
        "allocations": "usage", "gpu-samples": "telemetry", "price-book": "costs", "tenant-cost": "billing",
    }  # fmt: skip


def test_the_page_and_everything_beside_it_is_written(day: Day) -> None:
    for name in ("report.html", "report.xlsx", "rejected.csv", "manifest.json", "tables/tenants.parquet"):
        assert (day[2] / name).stat().st_size, name
    page = (day[2] / "report.html").read_text()
    assert "cinder" in page
    assert "live tables: verdicts" in page
