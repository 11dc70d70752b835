"""Every special case of the generated day is really in what is emitted, not only in its list."""

from collections.abc import Iterator

import numpy as np
import pytest
from wattledger_audit.generated_fleet import SPECIAL_CASES, Emission, demo_day
from wattledger_audit.generated_fleet.day import at
from wattledger_audit.generated_fleet.job_row import spans_of
from wattledger_audit.generated_fleet.job_table import JOBS
from wattledger_audit.generated_fleet.machines import MACHINES
from wattledger_core.batch import Batch, SampledDevice
from wattledger_core.counter import RESET, repair_counters
from wattledger_core.event import JobEvent, NodeEvent
from wattledger_core.policy import Policy
from wattledger_core.price import Price

MINUTE_US = 60_000_000


@pytest.fixture(scope="module")
def day() -> list[Emission]:
    return list(demo_day())


def _events(day: list[Emission], kind: str) -> list[tuple[int, JobEvent]]:
    return [(at_us, item) for at_us, item in day if isinstance(item, JobEvent) and item.kind == kind]


def _batches(day: list[Emission]) -> Iterator[Batch]:
    return (item for _, item in day if isinstance(item, Batch))


def _sampled(day: list[Emission]) -> Iterator[tuple[Batch, int, SampledDevice]]:
    return ((batch, d, device) for batch in _batches(day) for d, device in enumerate(batch.devices))


def test_the_list_names_cases_and_says_where_each_is() -> None:
    assert len(SPECIAL_CASES) >= 17
    assert all(where for where in SPECIAL_CASES.values())


@pytest.mark.parametrize(
    ("kind", "jobs"), [("requeue", 1), ("suspend", 1), ("resume", 1), ("resize", 1), ("stop_requested", 1)]
)
def test_a_job_event_of_each_unusual_kind_comes(day: list[Emission], kind: str, jobs: int) -> None:
    assert len(_events(day, kind)) == jobs


def test_exactly_one_end_comes_forty_minutes_late(day: list[Emission]) -> None:
    late = [(at_us - event.at_us) // MINUTE_US for at_us, event in _events(day, "end")]
    assert sorted(late)[-2:] == [0, 40]


def test_the_zombie_is_released_a_quarter_of_an_hour_after_it_was_told_to_stop(day: list[Emission]) -> None:
    [(_, asked)], [(_, released)] = _events(day, "stop_requested"), _events(day, "released")
    assert (asked.job, released.at_us - asked.at_us) == (released.job, 15 * MINUTE_US)


def test_jobs_without_an_end_were_on_a_node_that_failed_and_came_back(day: list[Emission]) -> None:
    started = {event.job: event.claims[0].node for _, event in _events(day, "start")}
    closed = {event.job for kind in ("end", "released") for _, event in _events(day, kind)}
    assert {node for job, node in started.items() if job not in closed} == {"mi300x-01"}
    states = [
        item.state for _, item in day
        if isinstance(item, NodeEvent) and (item.kind, item.node) == ("node_state", "mi300x-01")
    ]  # fmt: skip
    assert states == ["failed", "active"]


def test_a_machine_drains_while_a_job_runs_on(day: list[Emission]) -> None:
    changes = {item.state: item.at_us for _, item in day if isinstance(item, NodeEvent) and item.node == "l40s-01"
               and item.kind == "node_state"}  # fmt: skip
    running = [job for job in JOBS if job.node == "l40s-01" and at(job.start) < changes["draining"] < at(job.end)]
    assert [job.job for job in running] == ["ech-301"]
    assert changes["draining"] < changes["maintenance"] <= changes["active"]


def test_only_one_card_is_claimed_twice_and_only_for_a_while() -> None:
    whole = [span for job in JOBS for span in spans_of(job) if span.claim.share_num == span.claim.share_den]
    pairs = {
        (one.job.job, other.job.job, min(one.released_us, other.released_us) - max(one.start_us, other.start_us))
        for place, one in enumerate(whole)
        for other in whole[place + 1 :]
        if one.claim.device == other.claim.device
        and max(one.start_us, other.start_us) < min(one.released_us, other.released_us)
    }  # fmt: skip
    assert pairs == {("bor-104", "cin-102", 45 * MINUTE_US)}


def test_nobody_shares_a_node_with_the_exclusive_job(day: list[Emission]) -> None:
    [exclusive] = [event for _, event in _events(day, "start") if event.exclusive]
    [row] = [job for job in JOBS if job.job == exclusive.job]
    beside = [
        span.job.job for job in JOBS if job.node == row.node and job is not row for span in spans_of(job)
        if span.start_us < at(row.end) and span.released_us > at(row.start)
    ]  # fmt: skip
    assert beside == []
    assert len(exclusive.claims) in (1, 2)


def test_cpu_and_memory_never_run_out_by_accident() -> None:
    spans = [span for job in JOBS for span in spans_of(job)]
    for machine in MACHINES:
        here = [span for span in spans if span.claim.node == machine.node]
        for moment_us in {span.start_us for span in here}:
            held = [span.claim for span in here if span.start_us <= moment_us < span.released_us]
            assert sum(claim.cpus or 0 for claim in held) < machine.cpus
            assert sum(claim.memory_bytes or 0 for claim in held) < machine.memory_bytes


def test_the_reservation_is_held_for_a_part_of_its_time_by_its_holder_only(day: list[Emission]) -> None:
    [reserved] = [item for _, item in day if isinstance(item, NodeEvent) and item.kind == "reservation"]
    assert reserved.start_us is not None and reserved.end_us is not None
    inside = [
        span for job in JOBS for span in spans_of(job) if span.claim.device in reserved.reserved_devices
        and span.start_us < reserved.end_us and span.released_us > reserved.start_us
    ]  # fmt: skip
    assert {span.job.tenant for span in inside} == {reserved.tenant}
    held_us = sum(span.released_us - span.start_us for span in inside)
    assert 0 < held_us < len(reserved.reserved_devices) * (reserved.end_us - reserved.start_us)


def test_an_outage_of_twenty_minutes_is_one_step_of_a_batch(day: list[Emission]) -> None:
    steps = [
        (batch.node, int(np.diff(batch.ticks_us)[0]))
        for batch in _batches(day)
        if np.diff(batch.ticks_us).max() > 1_000_000
    ]
    assert steps == [("h100-01", 20 * MINUTE_US)]


def test_the_counter_bridges_the_outage_with_a_plausible_power(day: list[Emission]) -> None:
    [batch] = [batch for batch in _batches(day) if len(batch.ticks_us) > 31]
    mean_mw = (batch.counter_uj[:, 1] - batch.counter_uj[:, 0]) * 1000 // (20 * MINUTE_US)
    assert batch.counter_valid.all()
    assert ((mean_mw > 50_000) & (mean_mw < 700_000)).all()


def test_one_counter_falls_once_and_says_so_by_its_epoch(day: list[Emission]) -> None:
    resets: list[tuple[Batch, int, SampledDevice, list[int]]] = []
    for batch, d, device in _sampled(day):
        found = np.flatnonzero((np.diff(batch.counter_uj[d]) < 0) & batch.counter_valid[d, 1:])
        if len(found) or device.epoch_from_tick:
            resets.append((batch, d, device, found.tolist()))
    [(batch, d, device, fell)] = resets
    assert fell == [device.epoch_from_tick - 1]
    none = np.zeros((len(batch.devices), len(batch.ticks_us) - 1), dtype=np.int64)
    pairs = repair_counters(batch, np.diff(batch.ticks_us), Policy().max_device_power_mw, none, none.astype(np.bool_))
    assert np.flatnonzero(pairs.marks[d] & RESET).tolist() == fell


def test_counters_are_the_integral_of_power_wherever_they_run(day: list[Emission]) -> None:
    for batch in list(_batches(day))[::97]:
        power, counter = batch.power_mw, batch.counter_uj
        good = batch.counter_valid[:, 1:] & (power[:, 1:] < 1_000_000) & (power[:, :-1] < 1_000_000)
        gains = np.diff(counter, axis=1)
        assert (gains == (power[:, 1:] + power[:, :-1]) * 500)[good & (gains >= 0)].all()
        assert good.any()


def test_one_card_has_no_counter_all_day(day: list[Emission]) -> None:
    without = {device.device for batch, d, device in _sampled(day) if not batch.counter_valid[d].any()}
    ever = {device.device for batch, d, device in _sampled(day) if batch.counter_valid[d].any()}
    assert len(without) == 1
    assert not without & ever


def test_some_power_readings_fail_and_some_are_nonsense_that_counts_as_valid(day: list[Emission]) -> None:
    failed = sum(int((~batch.power_valid).sum()) for batch in _batches(day))
    nonsense = sum(int(((batch.power_mw == 2_000_000_000) & batch.power_valid).sum()) for batch in _batches(day))
    assert failed > 10
    assert nonsense > 1


def test_an_untagged_process_works_ten_minutes_or_more_where_nobody_holds(day: list[Emission]) -> None:
    stretches = [
        (batch.start_us, batch.end_us, device.device) for batch, d, device in _sampled(day)
        if batch.busy_ppm[d].min() > 0
        and any(not process.job and process.sm_ppm.min() > 0 for process in device.processes)
    ]  # fmt: skip
    assert len({device for *_, device in stretches}) == 1
    assert sum(end_us - start_us for start_us, end_us, _ in stretches) >= 10 * MINUTE_US
    spans = [span for job in JOBS for span in spans_of(job) if span.claim.device == stretches[0][2]]
    assert not [s for s in spans if s.start_us < stretches[-1][1] and s.released_us > stretches[0][0]]


def test_jobs_on_a_sliced_card_have_unequal_shares(day: list[Emission]) -> None:
    shares = [
        sorted(int(process.sm_ppm.sum()) for process in device.processes if process.job)
        for _, _, device in _sampled(day)
        if device.sharing == "time_sliced" and len(device.processes) >= 3
    ]
    assert sum(found[0] * 2 < found[-1] for found in shares) > 100


def test_one_mig_card_reports_its_instances_and_the_other_does_not(day: list[Emission]) -> None:
    reports = {device.device: bool(device.instances) for _, _, device in _sampled(day) if device.sharing == "mig"}
    assert sorted(reports.values()) == [False, True]
    slices = {
        device.device: sum(i.slices for i in device.instances) for _, _, device in _sampled(day) if device.instances
    }
    assert list(slices.values()) == [7]


def test_prices_change_at_noon_come_late_and_are_cheaper_at_night(day: list[Emission]) -> None:
    prices = [(at_us, item) for at_us, item in day if isinstance(item, Price)]
    assert [(at_us - p.start_us) // (60 * MINUTE_US) for at_us, p in prices if at_us > at("00:00")] == [5]
    card = {p.start_us: p.rate for _, p in prices if (p.kind, p.sku, p.plan) == ("rate", "h100", "on_demand")}
    assert card.keys() == {at("00:00"), at("12:00")}
    assert len(set(card.values())) == 2
    energy = {p.start_us: p for _, p in prices if p.kind == "energy"}
    assert energy[at("00:00")].rate < energy[at("05:00")].rate > energy[at("21:00")].rate
    pools = {(p.driver, p.marginal) for _, p in prices if p.kind == "pool"}
    assert pools == {("installed_gpu_h", False), ("kwh", True)}
