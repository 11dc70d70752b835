"""The demo's truth: paper, job table and allocation meter agree, and each special case is where it says."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from wattledger_audit.fleet_special_case import SpecialCase
from wattledger_audit.fleet_truth import FleetTruth, fleet_truth
from wattledger_audit.generated_fleet import SPECIAL_CASES, Emission, demo_day
from wattledger_audit.generated_fleet.day import DAY_END_US, DAY_START_US
from wattledger_audit.generated_fleet.job_row import spans_of
from wattledger_audit.generated_fleet.job_table import JOBS
from wattledger_audit.generated_fleet.machines import BY_NODE, MACHINES
from wattledger_core.batch import Batch
from wattledger_core.event import JobEvent, JobTopicEvent, NodeEvent, Tick
from wattledger_core.line import Line
from wattledger_core.policy import Policy
from wattledger_core.price import Price
from wattledger_core.replay import Logs, replay
from wattledger_core.revision import Origin
from wattledger_core.units import QUARTER_US
from wattledger_schemas import job_key, partition_for

PARTITIONS = 4
S = 1_000_000
MINUTE = 60 * S
HOUR = 60 * MINUTE


@pytest.fixture(scope="module")
def truth() -> FleetTruth:
    return fleet_truth()


@pytest.fixture(scope="module")
def day() -> list[Emission]:
    return list(demo_day())


@pytest.fixture(scope="module")
def case(truth: FleetTruth) -> dict[str, SpecialCase]:
    return {found.name: found for found in truth.special_cases}


@pytest.fixture(scope="module")
def time_lines(day: list[Emission]) -> list[Line]:
    """What the allocation meter makes of the day's events; it needs no samples."""
    events: dict[int, list[tuple[int, JobTopicEvent]]] = {p: [] for p in range(PARTITIONS)}
    prices: list[tuple[int, Price | Tick]] = []
    for _, item in day:
        if isinstance(item, Tick):
            targets = list(events)
            prices.append((len(prices), item))
        elif isinstance(item, JobEvent):
            targets = [partition_for(job_key(item.cluster, item.job), PARTITIONS)]
        elif isinstance(item, NodeEvent):
            targets = [partition_for(item.node, PARTITIONS)]
        else:
            if isinstance(item, Price):
                offset = len(prices)
                prices.append((offset, replace(item, origin=Origin(0, offset), revision_id=f"{item.price_id}-r")))
            continue
        for p in targets:
            events[p].append((len(events[p]), item))
    nodes = {machine.node: partition_for(machine.node, PARTITIONS) for machine in MACHINES}
    return replay(Logs(events, {}, prices), Policy(), PARTITIONS, nodes).lines


@pytest.mark.parametrize(
    ("job", "held_us"),
    [
        ("acme-101", 4 * HOUR),  # four cards, 00:00-01:00
        ("acme-105", 8_243_500_000),  # 07:00-09:17:23.5: 2 h 17 min 23.5 s
        ("acme-103", 2 * 390 * MINUTE),  # 08:40-15:10, however late its end comes
        ("bor-103", 2 * (125 + 145) * MINUTE),  # 08:45-10:50 and 11:05-13:30
        ("bor-201", 2 * (300 + 260) * MINUTE),  # 06:30-11:30 and 12:10-16:30
        ("del-201", (2 * 465 + 2 * 300) * MINUTE),  # two cards 14:15-22:00, two more from 17:00
        ("acme-104", 90 * MINUTE),  # 10:30-12:00; the next quarter of an hour is the provider's
        ("bor-104", 19_429_750_000 - 1_350 * S),  # 09:21:10.25-14:45, half a card for 45 min
        ("cin-102", 90 * MINUTE - 1_350 * S),  # 14:00-15:30, half a card for 45 min
        ("del-101", 2 * 3 * HOUR),  # two cards, whatever it strands
        ("res-401", 4 * 800 * MINUTE),  # four cards 00:00-13:20, when the machine failed
        ("del-211", Fraction(930 * MINUTE, 7)),  # one slice of seven, 02:30-18:00
        ("res-211", Fraction(3 * 12 * HOUR, 7)),  # three slices of seven, 00:00-12:00
        ("cin-302", 10 * HOUR // 4),  # one replica of four, 06:00-16:00
    ],
)
def test_held_time_of_a_job_is_what_paper_says(truth: FleetTruth, job: str, held_us: int | Fraction) -> None:
    assert truth.held_us_by_job[job] == held_us


def test_held_time_of_a_tenant_is_what_paper_says(truth: FleetTruth) -> None:
    # cinder, in minutes. h100: 350 + (90 - 22.5); a100: 4 x 360 + 2 x 470 + 360 + 510 + 2 x 105;
    # MIG: 3/7 x (585 + 390); l40s: (58 + 600 + 780) / 4
    cards = Fraction(4175, 10) + 4 * 360 + 2 * 470 + 360 + 510 + 2 * 105
    assert truth.held_us_by_tenant["cinder"] == (cards + Fraction(3 * 975, 7) + Fraction(1438, 4)) * MINUTE


def test_the_allocation_meter_agrees_with_the_table_job_by_job(truth: FleetTruth, time_lines: list[Line]) -> None:
    metered = Counter[str]()
    for line in time_lines:
        if line.state == "held":
            metered[line.job] += line.device_us
    assert metered.keys() == truth.held_us_by_job.keys()
    rounded = Counter[str]()
    for span in (span for job in JOBS for span in spans_of(job) if span.claim.gpu_instance):
        rounded[span.job.job] += -(-(span.end_us - span.start_us) // QUARTER_US) + 1
    off = {job: abs(metered[job] - held) for job, held in truth.held_us_by_job.items()}
    assert {job: by for job, by in off.items() if by > rounded[job]} == {}


def test_every_state_of_the_fleet_adds_up_to_what_paper_says(time_lines: list[Line]) -> None:
    states = Counter[tuple[str, str]]()
    for line in time_lines:
        states[line.state, line.reason] += line.device_us
    assert sum(states.values()) == 28 * 24 * HOUR
    by_hand = {
        ("stranded", "exclusive"): 6 * 180,  # six cards beside del-101
        ("reserved_unused", "res-delta-h100"): 2 * (720 - 420),
        ("unavailable", "failed"): 8 * 100,  # mi300x-01, 13:20-15:00
        ("unavailable", "maintenance"): 4 * 90,
        ("unavailable", "stop_pending"): 15,
    }
    assert {state: states[state] for state in by_hand} == {state: n * MINUTE for state, n in by_hand.items()}
    # four cards from 01:00 to 03:30, less a quarter of one that ech-301 holds
    assert states["unavailable", "draining"] == 4 * 150 * MINUTE - 150 * MINUTE // 4


def test_the_cases_are_those_that_the_fleet_names_each_once(truth: FleetTruth) -> None:
    assert Counter(found.name for found in truth.special_cases) == Counter(list(SPECIAL_CASES))


def test_every_case_lies_in_the_day_and_names_what_exists(truth: FleetTruth, day: list[Emission]) -> None:
    known = {job.job for job in JOBS} | {item.price_id for _, item in day if isinstance(item, Price)}
    known |= {item.reservation_id for _, item in day if isinstance(item, NodeEvent)}
    for found in truth.special_cases:
        assert DAY_START_US <= found.start_us <= found.end_us <= DAY_END_US, found
        assert known.issuperset(found.ids), found
        assert found.node or found.ids, found
        assert all(index < len(BY_NODE[found.node].cards) for index in found.cards), found


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("requeue", "requeue", "start"),
        ("suspend and resume", "suspend", "resume"),
        ("zombie", "stop_requested", "released"),
        ("resize", "resize", "resize"),
    ],
)
def test_a_job_case_begins_and_ends_with_its_events(
    case: dict[str, SpecialCase], day: list[Emission], name: str, first: str, second: str
) -> None:
    found = case[name]
    events = {(item.kind, item.at_us) for _, item in day if isinstance(item, JobEvent) and item.job in found.ids}
    assert {(first, found.start_us), (second, found.end_us)} <= events


def test_what_is_late_happened_at_the_start_of_its_case_and_arrives_at_its_end(
    case: dict[str, SpecialCase], day: list[Emission]
) -> None:
    stop, price = case["stop that comes late"], case["price published late"]
    ends = [(item.at_us, at_us) for at_us, item in day
            if isinstance(item, JobEvent) and item.kind == "end" and item.job in stop.ids]  # fmt: skip
    published = [(item.start_us, at_us) for at_us, item in day
                 if isinstance(item, Price) and item.price_id in price.ids]  # fmt: skip
    assert ends == [(stop.start_us, stop.end_us)]
    assert published == [(price.start_us, price.end_us)]


def test_the_outage_is_where_no_batch_of_that_machine_begins_but_the_one_that_bridges_it(
    case: dict[str, SpecialCase], day: list[Emission]
) -> None:
    found = case["agent outage bridged by the counter"]
    [bridge] = [item for _, item in day if isinstance(item, Batch) and item.node == found.node
                and found.start_us <= item.start_us < found.end_us]  # fmt: skip
    assert bridge.ticks_us[:2].tolist() == [found.start_us, found.end_us]


def test_bad_readings_are_inside_their_cases_and_nowhere_else(
    case: dict[str, SpecialCase], day: list[Emission]
) -> None:
    seen: dict[str, list[tuple[str, int, int]]] = {}
    for batch in (item for _, item in day if isinstance(item, Batch)):
        bad = {"sentinel readings": ~batch.power_valid, "implausible readings": batch.power_mw > 1_000_000}
        for name, cells in bad.items():
            for d, tick in zip(*cells.nonzero(), strict=True):
                seen.setdefault(name, []).append((batch.node, int(d), int(batch.ticks_us[tick])))
        for d, device in enumerate(batch.devices):
            if device.epoch_from_tick:
                moment_us = int(batch.ticks_us[device.epoch_from_tick])
                seen.setdefault("counter reset", []).append((batch.node, d, moment_us))
            for process in device.processes:
                ticks = batch.ticks_us[process.sm_ppm > 0] if not process.job else ()
                seen.setdefault("untagged process", []).extend((batch.node, d, int(tick)) for tick in ticks)
    assert len(seen) == 4
    for name, places in seen.items():
        found = case[name]
        assert {(node, d) for node, d, _ in places} == {(found.node, found.cards[0])}, name
        moments = [moment_us for *_, moment_us in places]
        assert min(moments) == found.start_us, name
        assert found.end_us - 3 * S <= max(moments) <= found.end_us, name
