"""The generated day: the same every time, in order, tiled, and of the size that its tables say."""

from collections import Counter
from dataclasses import replace
from hashlib import blake2b
from itertools import islice, pairwise

import pytest
from wattledger_audit.generated_fleet import Emission, demo_day
from wattledger_audit.generated_fleet.day import DAY_END_US, DAY_START_US, TAIL_END_US
from wattledger_audit.generated_fleet.job_table import JOBS
from wattledger_audit.generated_fleet.machines import MACHINES
from wattledger_core.batch import Batch
from wattledger_core.event import JobEvent, NodeEvent, Tick
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_core.revision import Origin
from wattledger_core.session_rejection import flaw
from wattledger_streams.mapping import from_wire_batch, to_wire_batch


@pytest.fixture(scope="module")
def day() -> list[Emission]:
    return list(demo_day())


def _batches(day: list[Emission], node: str) -> list[Batch]:
    return [item for _, item in day if isinstance(item, Batch) and item.node == node]


def _digest(emissions: list[Emission]) -> str:
    hashed = blake2b()
    for at_us, item in emissions:
        hashed.update(str(at_us).encode())
        if isinstance(item, Batch):
            hashed.update(repr(to_wire_batch(item)).encode())
        else:
            hashed.update(repr(item).encode())
    return hashed.hexdigest()


def test_two_runs_give_the_same_bytes(day: list[Emission]) -> None:
    again = list(demo_day())
    assert len(again) == len(day)
    assert _digest(list(islice(again, 0, None, 7))) == _digest(list(islice(day, 0, None, 7)))


def test_it_arrives_in_order_and_at_first_prices_then_inventory_then_a_tick(day: list[Emission]) -> None:
    assert all(one.at_us <= other.at_us for one, other in pairwise(day))
    kinds = [type(item) for at_us, item in day if at_us == DAY_START_US]
    assert kinds == sorted(kinds, key=[Price, NodeEvent, Tick].index)
    assert {Price, NodeEvent, Tick} == set(kinds)


def test_nothing_arrives_before_it_happened(day: list[Emission]) -> None:
    for at_us, item in day:
        happened_us = item.end_us if isinstance(item, Batch) else getattr(item, "at_us", at_us)
        assert happened_us <= at_us


def test_there_is_a_tick_each_minute_until_an_hour_past_the_day(day: list[Emission]) -> None:
    ticks = [item.at_us for _, item in day if isinstance(item, Tick)]
    assert ticks == list(range(DAY_START_US, TAIL_END_US + 1, 60_000_000))
    assert TAIL_END_US - DAY_END_US == 3_600_000_000


def test_batches_tile_the_day_of_every_machine_with_an_agent(day: list[Emission]) -> None:
    for machine in MACHINES:
        found = _batches(day, machine.node)
        if not machine.has_agent:
            assert found == []
            continue
        assert (found[0].start_us, found[-1].end_us) == (DAY_START_US, DAY_END_US)
        assert all(one.end_us == other.start_us for one, other in pairwise(found))
        assert [batch.seq for batch in found] == list(range(len(found)))


def test_a_batch_begins_with_the_reading_that_ended_the_one_before(day: list[Emission]) -> None:
    for machine in MACHINES:
        for one, other in pairwise(_batches(day, machine.node)):
            assert (one.power_mw[:, -1] == other.power_mw[:, 0]).all()
            assert (one.power_valid[:, -1] == other.power_valid[:, 0]).all()


def test_batches_survive_the_wire(day: list[Emission]) -> None:
    for machine in MACHINES:
        for batch in _batches(day, machine.node)[::5]:
            back = from_wire_batch(to_wire_batch(batch))
            assert (back.ticks_us == batch.ticks_us).all()
            assert (back.power_mw == batch.power_mw)[batch.power_valid].all()
            assert (back.power_valid == batch.power_valid).all()
            assert (back.counter_uj[:, -1] - back.counter_uj[:, 0])[batch.counter_valid[:, 0]].tolist() == (
                batch.counter_uj[:, -1] - batch.counter_uj[:, 0]
            )[batch.counter_valid[:, 0]].tolist()


def test_events_and_prices_are_well_formed_and_no_id_comes_twice(day: list[Emission]) -> None:
    events = [item for _, item in day if isinstance(item, JobEvent | NodeEvent)]
    assert [found for found in map(flaw, events) if found] == []
    assert [name for name, count in Counter(event.event_id for event in events).items() if count > 1] == []
    book = PriceLog()
    prices = [replace(item, origin=Origin(0, i)) for i, (_, item) in enumerate(day) if isinstance(item, Price)]
    kept = [book.add(price) for price in prices]
    assert (len(book.entries), book.refused) == (len(kept), {})


def test_the_fleet_is_as_large_as_promised(day: list[Emission]) -> None:
    assert {machine.node: len(machine.cards) for machine in MACHINES} == {
        "h100-01": 8, "a100-01": 8, "l40s-01": 4, "mi300x-01": 8,
    }  # fmt: skip
    assert len({job.tenant for job in JOBS}) == 6
    assert 55 <= len(JOBS) <= 65
    assert len({job.job for job in JOBS}) == len(JOBS)
    starts = Counter(item.job for _, item in day if isinstance(item, JobEvent) and item.kind == "start")
    assert set(starts) == {job.job for job in JOBS}
