"""Facts that come late, wrong, twice or never, and prices that change: the totals are those of the right order."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client
from wattledger_audit.broker import Broker

from tests.fault_harness.aftermath import PARTITIONS, eventful, settle_exact
from tests.fault_harness.answers import ENERGY
from tests.fault_harness.cluster import Cluster
from tests.fault_harness.facts import PriceSaid
from tests.fault_harness.ledger import Ledger
from tests.fault_harness.plan import MINUTE, Plan, S
from tests.fault_harness.publishing import Publishing
from tests.fault_harness.world import World
from tests.waiting import until

pytestmark = pytest.mark.kafka
Seen = Callable[[str], None]
EVER_US = 1 << 52
HOUR_MIN, THREE_DAYS_MIN = 60, 3 * 1440
NEVER = 1e-15
"""A rate that is not off (the world lasts as long), and that no dice meet."""


def late_plan(minutes: int, tick_s: int) -> Plan:
    """Samples, starts, ends and corrections up to `minutes` late; jobs reported before and after their samples."""
    return Plan(
        24, nodes=3, devices=2, minutes=40, job_minutes=8, tick_s=tick_s, late_records=0.3, late_records_by_min=minutes,
        shuffled_records=0.3, duplicate_records=0.1, late_jobs=0.4, late_by_min=minutes, shuffled_jobs=0.3,
        corrected_jobs=0.4, suspends=0.2, zombies=0.2, gaps=1, gap_min=2, resets=0.5,
    )  # fmt: skip


def told_in_order(world: World) -> World:
    """The same facts, each told once, at once, and right the first time."""
    calm = World(replace(world.plan, late_records=NEVER, shuffled_records=NEVER, duplicate_records=NEVER))
    calm.schedule.jobs = tuple(
        replace(job, said=tuple(said._replace(said_us=said.at_us + S) for said in job.said if "wrong" not in said[1]))
        for job in calm.schedule.jobs
    )
    return calm


def lateness_min(world: World) -> list[float]:
    """By how many minutes of event time each sample record came after its end, ascending."""
    ends = {f"batch/{node}/{batch.seq}": batch.end_us for node in world.nodes for batch in world.batches(node)}
    sent = [sent for sent in world.emissions() if sent.topic == "gpu-samples"]
    return sorted((one.at_us - ends[one.ident]) / MINUTE for one in sent)


def net(cluster: Cluster) -> tuple[Mapping[Any, Any], Mapping[Any, Any], Mapping[Any, Any]]:
    """Lines, totals and costs net of reversals, by what each is about."""
    client = cluster.client()
    try:
        ledger = Ledger(lambda sql: client.query(sql).result_rows)
        return ledger.usage(0, EVER_US), ledger.totals(0, EVER_US), ledger.costs(0, EVER_US)
    finally:
        client.close()


@pytest.mark.parametrize(("late_min", "tick_s"), [(HOUR_MIN, 60), (THREE_DAYS_MIN, 1800)], ids=["1h", "3d"])
@pytest.mark.fault(
    24,
    "samples late (1 h, 3 d) and shuffled, job facts after their samples, starts and ends corrected",
    "lines, totals and costs net of corrections equal those of the run in order",
)
def test_late_and_shuffled_facts_come_to_the_totals_of_the_run_in_order(
    broker: Broker, topic_prefix: str, tmp_path: Path, late_min: int, tick_s: int, seen: Seen
) -> None:
    world = World(late_plan(late_min, tick_s))
    late = lateness_min(world)
    said = world.schedule.said()
    latest_min = max(one.said_us - one.at_us for one in said) / MINUTE
    wrong = sum("wrong" in one.event_id for one in said)
    assert late[-1] > 0.8 * late_min and latest_min > 0.8 * late_min and wrong > 3
    calm = told_in_order(world)
    assert lateness_min(calm)[-1] < 1 and calm.plan.last_tick_us == world.plan.last_tick_us
    told, nets = [], []
    for number, one in enumerate((world, calm)):
        with Cluster(
            tmp_path / str(number), broker=broker, prefix=f"{topic_prefix}{number}.", partitions=PARTITIONS
        ) as cluster:
            publish_ungated(cluster, one)
            told.append(settle_exact(cluster, one))
            nets.append(net(cluster))
    assert nets[0] == nets[1]
    assert all(len(found) > 100 for found in nets[0])
    over = sum(minutes > late_min / 2 for minutes in late)
    seen(
        f"{over} of {len(late)} samples over {late_min / 2:.0f} min late, the latest {late[-1]:.0f}; a job fact "
        f"{latest_min:.0f} min late, {wrong} corrected; {len(nets[0][0])} lines net as in order; {told[0]}"
    )


def publish_ungated(cluster: Cluster, world: World) -> None:
    """At full speed whatever is marked: what is late is so by its place among the ticks."""
    publishing = Publishing(world.emissions(), cluster.kafka, cluster.prefix, cluster.partitions, lead_us=EVER_US)
    try:
        publishing.join()
    finally:
        publishing.end()


@pytest.mark.fault(
    25,
    "starts and stops told twice, jobs that overlap, stops that never come",
    "each moment has the stated holders; the sum of the parts is the measured energy, exactly",
)
def test_doubled_overlapping_and_endless_jobs_share_exactly_what_was_measured(
    broker: Broker, topic_prefix: str, tmp_path: Path, seen: Seen
) -> None:
    plan = Plan(
        25, nodes=3, devices=2, minutes=50, job_minutes=8, duplicate_events=0.5, overlaps=0.5, missing_stops=0.4,
        zombies=0.2,
    )  # fmt: skip
    world = World(plan)
    said, holds = world.schedule.said(), [hold for job in world.schedule.jobs for hold in job.holds]
    twice = sum(count > 1 for count in Counter(one.event_id for one in said).values())
    endless = sum(hold.end_us is None for hold in holds)
    shared = sum(
        1 for a, b in combinations(holds, 2)
        if set(a.devices) & set(b.devices) and a.start_us < (b.end_us or EVER_US) and b.start_us < (a.end_us or EVER_US)
    )  # fmt: skip
    unsaid = sum(not {"end", "released"} & {one.kind for one in job.said} for job in world.schedule.jobs)
    assert twice > 5 and endless == plan.nodes and shared > 3 and unsaid > endless
    with Cluster(tmp_path, broker=broker, prefix=topic_prefix, partitions=PARTITIONS) as cluster:
        cluster.publish(world.emissions())
        told = settle_exact(cluster, world)
        client = cluster.client()
        parts = energy_of_parts(client)
        [(contradictions,)] = client.query(
            "SELECT count() FROM discrepancies FINAL WHERE kind = 'overlap' OR kind LIKE '%share%'"
        ).result_rows
        client.close()
    measured = measured_uj(world)
    assert {place: parts[place] for place in measured} == measured
    assert contradictions > 0
    seen(
        f"{twice} events twice, {shared} overlaps, {unsaid} jobs without a stop ({endless} never end); in "
        f"{len(measured)} device-batches the parts sum to the counter's rise; {contradictions} overlaps told; "
        f"{told}"
    )


def energy_of_parts(client: Client) -> dict[tuple[str, int, str], int]:
    """µJ of all lines net, by node, batch start and device."""
    rows = client.query(
        "SELECT node, toUnixTimestamp64Micro(group_start_at), device, sum(energy_uj) FROM usage_lines FINAL"
        f" WHERE kind = '{ENERGY}' GROUP BY 1, 2, 3"
    ).result_rows
    return {(node, int(start_us), device): int(total) for node, start_us, device, total in rows}


def measured_uj(world: World) -> dict[tuple[str, int, str], int]:
    """What the cards' own counters rose by over each batch, µJ, of those that have one."""
    found = {}
    for node in world.nodes:
        for batch in world.batches(node):
            for readings in batch.readings:
                first, last = readings.counter_uj[0], readings.counter_uj[-1]
                if first is not None and last is not None:
                    found[(node, batch.start_us, readings.device)] = last - first
    return found


@pytest.mark.fault(
    26,
    "prices changed on the grid in the middle of batches, and for the past after the rows were written",
    "rows cut at the change; for the past reversal and correction beside the original, which stays as it was",
)
def test_changed_and_back_dated_prices_leave_the_original_rows_and_a_trail(
    broker: Broker, topic_prefix: str, tmp_path: Path, seen: Seen
) -> None:
    world = World(priced_plan())
    late = [said for said in world.tariffs.said if "late" in said.reason]
    ahead = [said for said in world.tariffs.said if "season" in said.reason]
    assert len(late) >= 4 and len(ahead) >= 4
    emissions = list(world.emissions())
    first_us = min(said.at_us for said in late)
    with Cluster(tmp_path, broker=broker, prefix=topic_prefix, partitions=PARTITIONS) as cluster:
        cluster.publish([sent for sent in emissions if sent.at_us < first_us])
        client = cluster.client()
        until(lambda: reached(client, late, first_us), "rows that the late prices touch are written", 120, 0.3)
        before = cost_rows(client)
        client.close()
        cluster.publish([sent for sent in emissions if sent.at_us >= first_us])
        told = settle_exact(cluster, world)
        client = cluster.client()
        after = cost_rows(client)
        changed, trail = cut_at_a_change(client), trail_of_late_prices(client)
        client.close()
    originals = {name: row for name, row in before.items() if row["entry"] == "original"}
    corrected = {row["of_row_id"] for row in after.values() if row["cause_id"] in trail}
    assert {name: after.get(name) for name in before} == before
    assert len(corrected & originals.keys()) > 10
    assert changed > 0
    for reversals, corrections, lone in trail.values():
        assert reversals == corrections > 0 and lone == 0
    seen(
        f"{changed} device-batches with two prices; {len(trail)} late revisions took back and corrected "
        f"{sum(reversals for reversals, _, _ in trail.values())} rows; {len(before)} earlier rows as they were; {told}"
    )


def priced_plan() -> Plan:
    """Batches of 28 s, so that one lies across each quarter-hour."""
    return eventful(
        26, minutes=75, ticks_per_record=28, price_changes=3, late_prices=3, late_by_min=20, poison=0, late_records=0
    ).plan


def reached(client: Client, late: Sequence[PriceSaid], until_us: int) -> bool:
    """Whether original rows are there from where the first late price begins."""
    from_us = min(said.start_us if said.end_us is None else said.end_us for said in late if said.at_us <= until_us)
    rows = client.query(
        "SELECT count() FROM cost_rows FINAL WHERE entry = 'original' AND status = 'priced'"
        f" AND toUnixTimestamp64Micro(start_at) >= {from_us}"
    ).result_rows
    return int(rows[0][0]) > 10


def cost_rows(client: Client) -> dict[str, dict[str, Any]]:
    """Every cost row with all that it says, by its id."""
    result = client.query("SELECT * EXCEPT (inserted_at, source_partition, source_offset) FROM cost_rows FINAL")
    return {row["row_id"]: row for row in result.named_results()}


def cut_at_a_change(client: Client) -> int:
    """Device-batches that a price change on the grid cut, so that their original rows have two prices."""
    [(found,)] = client.query(
        "SELECT count() FROM (SELECT node, device, group_start_at FROM cost_rows FINAL WHERE entry = 'original'"
        f" AND component = '{ENERGY}' AND status = 'priced'"
        " GROUP BY 1, 2, 3 HAVING uniqExact(price_id) > 1)"
    ).result_rows
    return int(found)


def trail_of_late_prices(client: Client) -> dict[str, tuple[int, int, int]]:
    """By late price revision: rows it took back, rows it corrected, and rows it took back that are not there."""
    rows = client.query(
        "SELECT cause_id, countIf(entry = 'reversal'), countIf(entry = 'correction'),"
        " countIf(of_row_id != '' AND of_row_id NOT IN (SELECT row_id FROM cost_rows FINAL)) FROM cost_rows FINAL"
        " WHERE cause_id IN (SELECT revision_id FROM prices FINAL WHERE reason = 'published late') GROUP BY cause_id"
    ).result_rows
    return {cause: (int(back), int(corrected), int(lone)) for cause, back, corrected, lone in rows}
