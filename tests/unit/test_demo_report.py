"""A played day's report from the topics' records: the same tenants as the live figures, without a broker."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from io import StringIO
from pathlib import Path

import pytest
from wattledger_audit.demo import POLICY
from wattledger_audit.demo_costs import billing_lines, standing_prices, utc_period
from wattledger_audit.demo_holds import fleet_records, usage_runs
from wattledger_audit.demo_records import DayRecords, PutAside, by_node, standing
from wattledger_audit.demo_records import billed_rows as billed_of
from wattledger_audit.demo_records import hash_of_rows as hash_of
from wattledger_audit.demo_report import assess_day, write_day
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.report.model import Report
from wattledger_audit.report.report_json import read_report_json
from wattledger_audit.summary import Summary, hours, kwh, money
from wattledger_core.batch import Batch
from wattledger_core.cost import CostRow
from wattledger_core.event import JobTopicEvent, NodeEvent, Tick
from wattledger_core.line import RESERVED_TENANTS
from wattledger_core.policy import Policy
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_core.replay import Logs, Replayed, replay
from wattledger_core.revision import AllocationRecord, AllocationRevision, Mark, NodeRevision, Origin
from wattledger_core.units import US_PER_HOUR
from wattledger_core.verdict import by_tenant, judge
from wattledger_core.verdict_figures import figures

from tests.demo_agreement_check import assert_tenants_agree
from tests.pipeline_day import NODES, at, emissions

PUT_ASIDE = PutAside("gpu-samples", 0, 7, "future_batch", "ends 3 hours ahead")


@dataclass
class Written:
    """The day as records, what live figures say of it, and the report with its folder."""

    records: DayRecords
    summary: Summary
    report: Report
    folder: Path


def _logs() -> Logs:
    """The small day with a reservation of one card, at a rate of its own, and an end of service."""
    events: list[tuple[int, JobTopicEvent]] = []
    samples: list[tuple[int, Batch]] = []
    prices: list[tuple[int, Price | Tick]] = []
    for emission in emissions():
        item = emission.item
        if isinstance(item, Batch):
            samples.append((len(samples), item))
        elif isinstance(item, Price):
            prices.append((len(prices), replace(item, origin=Origin(0, len(prices)))))
            if item.price_id == "rate":
                reserved_rate = replace(item, price_id="rate-reserved", plan="reserved", rate=Decimal("1.5"))
                prices.append((len(prices), replace(reserved_rate, origin=Origin(0, len(prices)))))
        else:
            events.append((len(events), item))
            if isinstance(item, Tick):
                prices.append((len(prices), item))
    reserved = NodeEvent(
        "r", "reservation", at(0), "alpha", "c1", reservation_id="res-1", tenant="borealis",
        reserved_devices=("GPU-alpha-2",), start_us=at(0), end_us=at(7200),
    )  # fmt: skip
    out = [NodeEvent(f"o-{node}", "out_of_service", at(7200), node, "c1") for node in NODES]
    day = [reserved, *(event for _, event in events)]
    last = next(k for k, event in enumerate(day) if isinstance(event, Tick) and event.at_us > at(7200))
    return Logs({0: list(enumerate([*day[:last], *out, *day[last:]]))}, {0: samples}, prices)


def _live(replayed: Replayed) -> Summary:
    """What the tables would say: the core's verdicts over replay's rows."""
    found = figures(replayed.lines, replayed.cost_rows)
    energy_uj: dict[str, int] = defaultdict(int)
    cost: dict[str, Decimal] = defaultdict(Decimal)
    for row in replayed.cost_rows:
        if row.component == "energy" and row.tenant not in RESERVED_TENANTS:
            energy_uj[row.tenant] += row.quantity or 0
            cost[row.tenant] += row.cost or 0
    return {
        "tenants": [
            {
                "tenant": v.tenant, "plan": v.plan, "gpu_hours": hours(v.held_us),
                "energy_kwh": kwh(energy_uj[v.tenant]), "cost_energy": money(cost[v.tenant]),
                "cost_total": money(v.full_floor), "billed": money(v.billed), "margin": money(v.margin),
                "break_even_per_gpu_hour": money(v.break_even_per_gpu_hour),
                "suggested_price_per_gpu_hour": money(v.suggested_price_per_gpu_hour),
                "verdict": v.verdict, "below_cost": v.below_cost,
            }
            for v in judge(found.uses, found.pools, POLICY, by_tenant)
        ]
    }  # fmt: skip


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Written:
    logs = _logs()
    replayed = replay(logs, Policy(), 1, dict.fromkeys(NODES, 0))
    allocations, facts, settled_us = standing(record for q in replayed.allocations.values() for record in q)
    prices = PriceLog()
    for _, price in logs.prices:
        prices.add(price)
    billed = billed_of(replayed.cost_rows)
    batches = by_node(batch for _, batch in logs.samples[0])
    records = DayRecords(allocations, facts, prices, batches, billed, settled_us, [PUT_ASIDE], [hash_of(billed)])
    summary, folder = _live(replayed), tmp_path_factory.mktemp("report")
    page = write_day(records, summary, POLICY, folder, lambda _: None)
    assert page == folder / "report.html"
    return Written(records, summary, read_report_json(folder / "report.json"), folder)


def test_every_tenant_has_the_live_figures(day: Written) -> None:
    assert len(day.summary["tenants"]) == 2
    assert_tenants_agree(day.report, day.summary["tenants"])


def test_the_tie_out_says_each_figure_beside_the_live_one(day: Written) -> None:
    ties = {tie.name: tie for tie in day.report.tie_out if tie.name.startswith("live tables: ")}
    assert len(ties) == 7
    assert not [tie.name for tie in day.report.tie_out if "defect" in tie.named]
    assert all(tie.residual == "0" or tie.named for tie in day.report.tie_out)
    assert ties["live tables: verdicts"].left == ties["live tables: verdicts"].right == "2"


def test_a_figure_that_differs_by_a_cent_is_called_a_defect(day: Written, tmp_path: Path) -> None:
    tenants = [dict(row) for row in day.summary["tenants"]]
    tenants[0]["billed"] = str(Decimal(tenants[0]["billed"]) + Decimal("0.01"))
    tenants[1]["verdict"] = "something else"
    write_day(day.records, {"tenants": tenants}, POLICY, tmp_path, lambda _: None)
    named = {tie.name: tie.named for tie in read_report_json(tmp_path / "report.json").tie_out}
    assert named["live tables: billed"].startswith(f"a defect: {tenants[0]['tenant']} differs by -0.01")
    assert named["live tables: verdicts"] == f"a defect: {tenants[1]['tenant']}"


def test_hours_follow_from_the_day_by_hand(day: Written) -> None:
    # acme: a1 2 x 1600.25 - 2 x 5 s; a2 30 to 890 s whole, to 1490 s half (b4 claims it too);
    # c1 a quarter of 20 to 1800 s, where its stop was asked for
    acme = 2 * Decimal("1595.25") + 860 + Decimal(600) / 2 + Decimal(1780) / 4
    [row] = [row for row in day.report.tenants if row.tenant == "acme"]
    assert abs(Decimal(row.gpu_hours) - acme / 3600) < Decimal("0.000001")
    # c1's device was released 600 s after it was told to stop
    assert row.provider_paid_gpu_hours == f"{Decimal(150) / 3600:.6f}"


def test_time_without_a_reading_is_not_measured(day: Written) -> None:
    # the agent of alpha is away from 1800 to 2100 s: b1 holds 3/7 up to 2000.125 s, b2 2/7 throughout
    away = Decimal("200.125") * 3 / 7 + Decimal(300) * 2 / 7
    b4, b3 = Decimal(600) / 2 + 4200 - 1490, Decimal(4200 - 21) / 4
    held = (Decimal("1990.125") + 4600) * 3 / 7 + Decimal("4978.5") * 2 / 7 + b3 + b4
    [row] = [row for row in day.report.tenants if row.tenant == "borealis"]
    assert abs(Decimal(row.gpu_hours) - held / 3600) < Decimal("0.000001")
    [sku] = [row for row in day.report.skus if row.tenant == "borealis" and row.plan == "on_demand"]
    assert sku.measured_ratio == f"{1 - away / held:.4f}"


def test_the_reservation_stands_on_its_own_card(day: Written) -> None:
    # alpha 2 for two hours, of which b1 has 3/7 from 10 to 2000.125 and from 2600 s, b2 2/7 from 11.5 to 4990 s
    held = (Decimal("1990.125") + 4600) * 3 / 7 + Decimal("4978.5") * 2 / 7  # b1 still runs
    assert abs(Decimal(day.report.fleet["reserved_unused"]) - (7200 - held) / 3600) < Decimal("0.000002")


def test_what_was_put_aside_is_listed_with_its_reason(day: Written) -> None:
    rejected = (day.folder / "rejected.csv").read_text().splitlines()
    assert rejected[1:] == ["gpu-samples,7,partition 0,,future_batch: ends 3 hours ahead"]
    [samples] = [file for file in day.report.files if file.name == "gpu-samples"]
    assert samples.rejected == 1


def test_every_file_is_there_and_the_manifest_has_the_topics(day: Written) -> None:
    manifest = json.loads((day.folder / "manifest.json").read_text())
    assert {one["name"] for one in manifest["inputs"]} == {"allocations", "gpu-samples", "price-book", "tenant-cost"}
    assert manifest["parameters"]["price_step"] == "0.05"
    named = {one["name"] for one in manifest["outputs"]}
    assert {"report.html", "report.json", "report.xlsx", "rejected.csv", "tables/tenants.csv"} <= named
    assert all((day.folder / name).stat().st_size for name in named)


def test_the_same_records_give_the_same_bytes(day: Written, tmp_path: Path) -> None:
    write_day(day.records, day.summary, POLICY, tmp_path, lambda _: None)
    for name in ("report.html", "report.json", "report.xlsx", "manifest.json"):
        assert (tmp_path / name).read_bytes() == (day.folder / name).read_bytes(), name


def test_bills_sum_to_the_rows_exactly(day: Written) -> None:
    lines = billing_lines(day.records.billed, utc_period(at(0), at(7200), ""))
    rows = day.records.billed
    assert sum(line.amount for line in lines) == sum(row.cost or 0 for row in rows)
    seconds = sum((line.quantity or 0 for line in lines), Decimal(0))
    assert seconds * 1_000_000 == sum(row.quantity or 0 for row in rows)
    assert all(line.amount >= 0 and line.unit == "GPU-seconds" for line in lines)


def test_a_rate_that_was_taken_back_leaves_no_line() -> None:
    def row(rate: str, sign: int) -> CostRow:
        cost = Decimal(rate) * sign
        return CostRow(
            f"{rate}{sign}", "l", "billed", 0, 1, "n", "d", "", "s", "H100", "held", "t", "", "", "", "", 0, "", "spot",
            "h", 0, 1, US_PER_HOUR * sign, "us", "p", "r", Decimal(rate), None, False, cost, "EUR", "priced", "", sign,
        )  # fmt: skip

    [line] = billing_lines([row("2", 1), row("2", -1), row("3", 1)], utc_period(0, US_PER_HOUR, ""))
    assert [line.amount, line.quantity] == [Decimal(3), Decimal(3600)]
    assert line.description == "GPU time at 3 EUR per GPU-hour"


def test_prices_are_those_that_stand_at_the_end(day: Written) -> None:
    compute = [price for price in standing_prices(day.records.prices) if price.kind == "compute"]
    assert [(price.rate, price.start_us, price.end_us) for price in compute] == [
        (Decimal("2.1"), at(0), at(1800)),
        (Decimal("2.4"), at(1800), None),
    ]


def _allocation(offset: int, end_us: int | None, **changes: object) -> AllocationRevision:
    base = AllocationRevision(
        f"r{offset}", "a", Origin(0, offset), 0, "c", "j", 0, 0, "n", "GPU-1", "", 1, 1, "t", "", "", "", "spot", "s",
        "full", "full", False, None, None, None, 100, end_us,
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "runs"),
    [
        ({"end_us": 500}, [(100, 500, "")]),
        ({"end_us": None}, [(100, None, "")]),
        ({"end_us": 500, "stop_requested_us": 300}, [(100, 300, ""), (300, 500, "STOP_PENDING")]),
        ({"end_us": None, "stop_requested_us": 300}, [(100, 300, ""), (300, None, "STOP_PENDING")]),
        ({"end_us": 500, "stop_requested_us": 100}, [(100, 500, "STOP_PENDING")]),
    ],
)
def test_the_tenant_holds_until_it_asks_to_stop_and_the_provider_until_the_release(
    changes: dict[str, int | None], runs: Sequence[tuple[int, int | None, str]]
) -> None:
    found = list(usage_runs([replace(_allocation(1, None), **changes)], []))  # type: ignore[arg-type]
    assert [(run.start_us, run.end_us, run.state) for run in found] == list(runs)
    assert len({run.run_key for run in found}) == len(found)


def test_the_last_revision_stands_whatever_came_first_and_void_ones_are_left_out() -> None:
    gone = replace(_allocation(5, 100), allocation_id="b", void=True)
    records: list[AllocationRecord] = [
        _allocation(3, 900),
        _allocation(2, 500),
        gone,
        Mark(Origin(0, 9), 70),
        Mark(Origin(1, 4), 60),
    ]
    allocations, _, settled_us = standing(records)
    assert [(a.allocation_id, a.end_us) for a in allocations] == [("a", 900)]
    assert settled_us == 60


def test_a_node_is_in_the_fleet_while_it_serves() -> None:
    def fact(number: int, kind: str, start_us: int, end_us: int | None, **changes: object) -> NodeRevision:
        base = NodeRevision(f"r{number}", f"f{number}", Origin(0, number), 0, "n", "c", kind, start_us, end_us)
        return replace(base, **changes)  # type: ignore[arg-type]

    [inventory] = [f for f in _small_inventory() if f.kind == "inventory"]
    facts = [
        replace(inventory, node="n"), fact(1, "service", 10, 40), fact(2, "service", 60, None),
        fact(3, "state", 20, 30, state="maintenance"),
        fact(4, "reservation", 15, 25, reservation_id="r", tenant="t", reserved_devices=("GPU-alpha-0",)),
    ]  # fmt: skip
    fleet = fleet_records(facts)
    assert [(node.start_us, node.end_us, node.gpus) for node in fleet.nodes] == [(10, 40, 4), (60, None, 4)]
    assert fleet.nodes[0].devices == ("GPU-alpha-0", "GPU-alpha-1", "GPU-alpha-2", "GPU-alpha-3")
    assert [(state.state, state.end_us) for state in fleet.states] == [("maintenance", 30)]
    assert [(r.gpus, r.tenant, r.devices) for r in fleet.reservations] == [(1, "t", ("GPU-alpha-0",))]
    assert (fleet.start_us, fleet.end_us) == (10, 0)


def test_a_fleet_still_in_service_is_reported_up_to_the_last_closed_quarter_hour() -> None:
    service = replace(_small_inventory()[0], fact_id="s", kind="service", start_us=at(0), devices=())
    facts = [replace(_small_inventory()[0], start_us=at(0)), service]
    # a quarter-hour is closed when a minute beyond its end is marked
    for settled_us, end_us in ((at(1860), at(1800)), (at(1859), at(900))):
        records = DayRecords([], facts, PriceLog(), {}, [], settled_us)
        found = assess_day(records, POLICY, Rejections(StringIO()), lambda _: None)
        assert (found.period.start_us, found.period.end_us) == (at(0), end_us)
        assert found.swept.run_parts == []


def _small_inventory() -> list[NodeRevision]:
    event = next(e.item for e in emissions() if isinstance(e.item, NodeEvent) and e.item.node == "alpha")
    return [
        NodeRevision("r0", "f0", Origin(0, 0), 0, "alpha", "c1", "inventory", 0, None, "fra1", devices=event.devices)
    ]
