"""Device-time of one quarter-hour (900 s) small enough to check on paper."""

import pytest
from wattledger_core.line import IDLE, STRANDED, UNAVAILABLE

from tests.builders import (
    NODE,
    QUARTER,
    S,
    allocation,
    fact,
    installed,
    lines_of,
    mark,
    partition_meter,
    time_by_tenant,
    totals_of,
)

LATER = 10_000


def quarter(*records: object) -> tuple[dict[str, int], set[tuple[str, str, str]]]:
    """Time by tenant in seconds over the first quarter-hour, and (device, state, reason) of its lines."""
    meter = partition_meter(*records, mark(1000, offset=5000))
    groups = list(meter.due_quarters(LATER * S))
    lines = lines_of(groups)
    for total in totals_of(groups):
        of_device = [line.device_us for line in lines if line.device == total.device]
        assert sum(of_device) == total.in_service_us
    by_tenant = {tenant: time_us // S for tenant, time_us in time_by_tenant(lines).items()}
    return by_tenant, {(line.device, line.state, line.reason) for line in lines}


def test_a_held_stretch_and_the_free_rest() -> None:
    got, _ = quarter(*installed(), allocation("a", 100, 400, offset=1, known_s=0))
    assert got == {"tenant-a": 300, IDLE: 600}


def test_an_exclusive_job_strands_the_other_devices_for_its_own_account() -> None:
    job = allocation("a", 0, 600, offset=1, known_s=0, exclusive=True)
    got, states = quarter(*installed(["GPU-0", "GPU-1", "GPU-2"]), job)
    # 600 s held + 2 x 600 s stranded, then 3 x 300 s free
    assert got == {"tenant-a": 1800, IDLE: 900}
    assert ("GPU-1", "stranded", "exclusive") in states


def test_no_cpu_left_strands_free_devices_for_nobody() -> None:
    job = allocation("a", 0, None, offset=1, known_s=0, cpus=64)
    got, states = quarter(*installed(["GPU-0", "GPU-1"]), job)
    assert got == {"tenant-a": 900, STRANDED: 900}
    assert ("GPU-1", "stranded", "cpu") in states


def test_held_beats_draining_and_the_rest_of_a_drained_node_is_unavailable() -> None:
    drained = fact("state", 300, None, offset=2, known_s=0, state="draining")
    got, _ = quarter(*installed(), allocation("a", 0, 450, offset=1, known_s=0), drained)
    assert got == {"tenant-a": 450, UNAVAILABLE: 450}


def test_a_node_failure_ends_a_hold_for_good_though_no_stop_ever_comes() -> None:
    failed = fact("state", 300, 600, offset=2, known_s=0, state="failed")
    back = fact("state", 600, None, offset=3, known_s=0, state="active")
    got, _ = quarter(*installed(), allocation("a", 0, None, offset=1, known_s=0), failed, back)
    assert got == {"tenant-a": 300, UNAVAILABLE: 300, IDLE: 300}


def test_a_reservation_is_its_holders_where_nobody_else_holds() -> None:
    reserved = fact("reservation", 0, 600, offset=2, known_s=0, tenant="acme", reservation_id="r1")
    got, states = quarter(*installed(), allocation("a", 0, 200, offset=1, known_s=0), reserved)
    assert got == {"tenant-a": 200, "acme": 400, IDLE: 300}
    assert ("GPU-0", "reserved_unused", "r1") in states


def test_a_zombie_is_the_providers_from_the_stop_request_to_the_release() -> None:
    zombie = allocation("a", 0, 500, offset=1, known_s=0, stop_requested_us=200 * S)
    got, states = quarter(*installed(), zombie)
    assert got == {"tenant-a": 200, UNAVAILABLE: 300, IDLE: 400}
    assert ("GPU-0", "unavailable", "stop_pending") in states


def test_mig_slices_split_device_time_and_the_rest_is_free() -> None:
    a = allocation("a", 0, None, offset=1, known_s=0, gpu_instance="1", share_num=3, share_den=7)
    b = allocation("b", 0, None, offset=2, known_s=0, gpu_instance="2", share_num=1, share_den=7)
    meter = partition_meter(*installed(), a, b, mark(1000, offset=9))
    lines = lines_of(list(meter.due_quarters(LATER * S)))
    # floor of the cumulative of 900 s in sevenths: differences sum to it exactly, to the µs
    assert sum(line.device_us for line in lines) == QUARTER
    assert sorted(line.device_us for line in lines) == sorted(
        {"a": [385_714_285, 128_571_429, 385_714_286], "b": [385_714_286, 128_571_428, 385_714_286]}[
            "a" if a.allocation_id < b.allocation_id else "b"
        ]
    )


def test_two_exclusive_claims_have_half_each() -> None:
    a = allocation("a", 0, None, offset=1, known_s=0)
    b = allocation("b", 300, None, offset=2, known_s=0)
    got, _ = quarter(*installed(), a, b)
    assert got == {"tenant-a": 600, "tenant-b": 300}


def test_a_device_in_service_for_part_of_the_quarter_has_that_part_only() -> None:
    meter = partition_meter(*installed(start_s=650), mark(1000, offset=9))
    groups = list(meter.due_quarters(LATER * S))
    assert [total.in_service_us for total in totals_of(groups)] == [250 * S]
    assert time_by_tenant(lines_of(groups)) == {IDLE: 250 * S}


def test_a_late_stop_corrects_the_quarter_hours_it_touches_and_no_other() -> None:
    start = allocation("a", 0, None, offset=1, known_s=0)
    meter = partition_meter(*installed(), start, mark(3000, offset=8))
    first = list(meter.due_quarters(LATER * S))
    assert [group.start_us // S for group in first] == [0, 900, 1800]
    reach = meter.read(allocation("a", 0, 1000, offset=9, known_s=3000))
    assert reach is not None
    steps = list(meter.correct_quarters(reach))
    assert [group.start_us // S for group in steps] == [900, 1800]
    assert time_by_tenant(lines_of([*first, *steps])) == {"tenant-a": 1000 * S, IDLE: 1700 * S}


@pytest.mark.parametrize("lateness_hit", [True, False])
def test_what_is_known_before_the_lateness_is_over_is_on_time(lateness_hit: bool) -> None:
    # The quarter ends at 900 s and L is 60 s: known after the tick at 959 s is on time, after 960 s late.
    known_s = 959 if lateness_hit else 960
    meter = partition_meter(
        *installed(), mark(known_s, offset=5), allocation("a", 0, 300, offset=6, known_s=known_s), mark(1000, offset=7)
    )
    entries = {line.entry for line in lines_of(list(meter.due_quarters(LATER * S)))}
    assert entries == ({"original"} if lateness_hit else {"original", "reversal", "correction"})


def test_nothing_is_due_before_every_source_and_the_price_book_have_marked() -> None:
    meter = partition_meter(*installed(), mark(1000, offset=9), sources=2)
    assert list(meter.due_quarters(LATER * S)) == []
    meter.read(mark(960, offset=1, partition=1))
    assert list(meter.due_quarters(959 * S)) == []
    assert [group.node for group in meter.due_quarters(960 * S)] == [NODE]
