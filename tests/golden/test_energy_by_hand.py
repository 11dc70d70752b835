"""Energy lines small enough to check on paper. 100 W for 1 s is 100 J = 100,000,000 µJ."""

from wattledger_core.late import name_originals
from wattledger_core.line import IDLE, UNATTRIBUTED

from tests.builders import allocation, batch, energy_by_tenant, mark, partition_meter, steady

J = 1_000_000


def test_a_late_stop_is_reversed_and_corrected() -> None:
    # Job a holds from 0; 30 s of 100 W = 3000 J are its own. Its stop at 10 s is known only after the tick at 2400 s.
    start = allocation("a", 0, None, offset=1, known_s=0)
    stop = allocation("a", 0, 10, offset=9, known_s=2400)
    meter = partition_meter(start, mark(2400, offset=8))
    first = meter.meter_batch(steady(0, 30), 0, 0)
    assert energy_by_tenant(first.lines) == {"tenant-a": 3000 * J}
    reach = meter.read(stop)
    assert reach is not None
    step = meter.correct_batch(steady(0, 30), 0, 0, reach)
    assert step is not None
    assert [(line.tenant, line.entry, line.energy_uj) for line in step.lines] == [
        ("tenant-a", "reversal", -3000 * J),
        ("tenant-a", "correction", 1000 * J),
        (IDLE, "correction", 2000 * J),
    ]
    assert energy_by_tenant([*first.lines, *step.lines]) == {"tenant-a": 1000 * J, IDLE: 2000 * J}
    assert {line.cause_id for line in step.lines} == {stop.revision_id}


def test_the_batch_after_the_event_writes_the_same_rows_as_the_event_after_the_batch() -> None:
    start = allocation("a", 0, None, offset=1, known_s=0)
    stop = allocation("a", 0, 10, offset=9, known_s=2400)
    event_last = partition_meter(start, mark(2400, offset=8))
    rows = event_last.meter_batch(steady(0, 30), 0, 0).lines
    reach = event_last.read(stop)
    assert reach is not None
    step = event_last.correct_batch(steady(0, 30), 0, 0, reach)
    assert step is not None
    batch_last = partition_meter(start, mark(2400, offset=8), stop)
    assert batch_last.meter_batch(steady(0, 30), 0, 0).lines == [*rows, *step.lines]


def test_two_late_events_from_different_partitions_fold_to_the_same_in_both_orders() -> None:
    # a runs from 0; late: a stopped at 10 s (source 0), and b started at 20 s (source 1). 100 W throughout.
    start = allocation("a", 0, None, offset=1, known_s=0)
    stop_a = allocation("a", 0, 10, offset=9, known_s=600)
    start_b = allocation("b", 20, None, offset=4, known_s=660, partition=1)
    folded = {}
    names = {}
    for order in ((stop_a, start_b), (start_b, stop_a)):
        meter = partition_meter(start, mark(600, offset=8), mark(600, offset=3, partition=1), *order, sources=2)
        lines = meter.meter_batch(steady(0, 30), 0, 0).lines
        folded[order[0].job] = energy_by_tenant(lines)
        names[order[0].job] = {line.line_id for line in lines}
    expected = {"tenant-a": 1000 * J, IDLE: 1000 * J, "tenant-b": 1000 * J}
    assert folded == {"a": expected, "b": expected}
    # In the second order both held 20..30 s for a while: the overlap's rows were written and taken back.
    assert names["a"] != names["b"]


def test_a_mig_card_is_split_by_slices_and_activity_over_its_idle_floor() -> None:
    # 7 slices, floor 70 W, 270 W measured, 10 s: 700 J floor, 2000 J above it.
    # a holds 3 slices at 80 % activity, b 2 at 40 %; 2 slices are free. Weights 3*0.8 : 2*0.4 = 3 : 1.
    # a: 3/7 of 700 + 3/4 of 2000 = 300 + 1500; b: 2/7 of 700 + 1/4 of 2000 = 200 + 500; free: 2/7 of 700 = 200.
    meter = partition_meter(
        allocation("a", 0, None, offset=1, known_s=0, gpu_instance="1", share_num=3, share_den=7),
        allocation("b", 0, None, offset=2, known_s=0, gpu_instance="2", share_num=2, share_den=7),
    )
    given = steady(
        0, 10, 270_000, floor_mw=70_000, instances=[("1", 3, [800_000] * 11), ("2", 2, [400_000] * 11)]
    )  # fmt: skip
    lines = meter.meter_batch(given, 0, 0).lines
    assert energy_by_tenant(lines) == {"tenant-a": 1800 * J, "tenant-b": 700 * J, IDLE: 200 * J}


def test_mig_activity_unknown_splits_by_slices_and_says_so() -> None:
    # Floor unknown too: all of 7 W * 10 s = 70 J by slices 3 : 2 : 2 free.
    meter = partition_meter(
        allocation("a", 0, None, offset=1, known_s=0, gpu_instance="1", share_num=3, share_den=7),
        allocation("b", 0, None, offset=2, known_s=0, gpu_instance="2", share_num=2, share_den=7),
    )
    lines = meter.meter_batch(steady(0, 10, 7_000), 0, 0).lines
    assert energy_by_tenant(lines) == {"tenant-a": 30 * J, "tenant-b": 20 * J, IDLE: 20 * J}
    assert all("split_by_slices" in line.marks for line in lines)


def test_a_time_sliced_card_is_split_by_sm_share_unequally() -> None:
    # 4 replicas, two held; SM 60 % and 20 %: 3 : 1 of 100 W * 10 s = 1000 J.
    share = {"share_num": 1, "share_den": 4}
    meter = partition_meter(
        allocation("a", 0, None, offset=1, known_s=0, **share), allocation("b", 0, None, offset=2, known_s=0, **share)
    )
    given = steady(0, 10, processes=[("a", [600_000] * 11), ("b", [200_000] * 11)])
    assert energy_by_tenant(meter.meter_batch(given, 0, 0).lines) == {"tenant-a": 750 * J, "tenant-b": 250 * J}


def test_a_time_sliced_card_without_process_readings_is_split_equally() -> None:
    share = {"share_num": 1, "share_den": 4}
    meter = partition_meter(
        allocation("a", 0, None, offset=1, known_s=0, **share), allocation("b", 0, None, offset=2, known_s=0, **share)
    )
    lines = meter.meter_batch(steady(0, 10), 0, 0).lines
    assert energy_by_tenant(lines) == {"tenant-a": 500 * J, "tenant-b": 500 * J}
    assert all("split_equally" in line.marks for line in lines)


def test_a_holder_whose_processes_are_there_and_whose_share_nobody_tells_has_not_used_nothing() -> None:
    # AMD's list shows b's process with 0 ns while the card is busy: its share is unknown, so half each.
    share = {"share_num": 1, "share_den": 4}
    meter = partition_meter(
        allocation("a", 0, None, offset=1, known_s=0, **share), allocation("b", 0, None, offset=2, known_s=0, **share)
    )
    given = steady(0, 10, processes=[("a", [600_000] * 11), ("b", [None] * 11)])
    lines = meter.meter_batch(given, 0, 0).lines
    assert energy_by_tenant(lines) == {"tenant-a": 500 * J, "tenant-b": 500 * J}
    assert all("split_equally" in line.marks for line in lines)


def test_two_exclusive_holders_have_half_each_and_the_overlap_is_recorded() -> None:
    # a holds 0..30, b claims 10..30: 1000 J alone, then 2000 J shared.
    meter = partition_meter(allocation("a", 0, 30, offset=1, known_s=0), allocation("b", 10, 30, offset=2, known_s=0))
    group = meter.meter_batch(steady(0, 30), 0, 0)
    assert energy_by_tenant(group.lines) == {"tenant-a": 2000 * J, "tenant-b": 1000 * J}
    assert [(d.kind, d.start_us, d.end_us) for d in group.discrepancies] == [("overlap", 10 * J, 30 * J)]


def test_a_counter_reset_costs_nobody_more_than_the_trapezoid() -> None:
    # 300 W then 310 W; the counter falls from 123456789 mJ to 42 mJ over 10 s, power is read at both ends.
    meter = partition_meter(allocation("a", 0, None, offset=1, known_s=0))
    given = batch([0, 5, 10], [300_000, 305_000, 310_000], [123_456_789_000, 42_000, 1_537_542_000])
    group = meter.meter_batch(given, 0, 0)
    # 5 s at 302.5 W by the trapezoid + 1537.5 J by the counter
    assert energy_by_tenant(group.lines) == {"tenant-a": 1_512_500_000 + 1_537_500_000}
    assert [d.kind for d in group.discrepancies] == ["counter_reset"]


def test_a_gap_is_bridged_by_the_counter_and_cut_where_the_holder_changes() -> None:
    # 20 minutes without samples, 120 kJ on the counter; a until 300 s, then b: spread evenly.
    meter = partition_meter(
        allocation("a", 0, 300, offset=1, known_s=0), allocation("b", 300, None, offset=2, known_s=0)
    )
    group = meter.meter_batch(batch([0, 1200], [100_000] * 2, [0, 120_000 * J]), 0, 0)
    assert energy_by_tenant(group.lines) == {"tenant-a": 30_000 * J, "tenant-b": 90_000 * J}
    assert all("interpolated" in line.marks for line in group.lines)
    # cut at the quarter-hour too
    assert sorted((line.start_us // J, line.end_us // J) for line in group.lines) == [(0, 300), (300, 900), (900, 1200)]


def test_a_gap_without_a_counter_is_unknown_not_zero() -> None:
    meter = partition_meter(allocation("a", 0, None, offset=1, known_s=0))
    lines = meter.meter_batch(batch([0, 1, 61, 62], [100_000] * 4), 0, 0).lines
    assert [(line.energy_uj, line.span_us // J, line.reason) for line in lines] == [
        (200 * J, 2, ""),
        (None, 60, "energy_unknown"),
    ]


def test_an_untagged_process_is_unattributed_and_the_rest_idle() -> None:
    given = batch([0, 5, 10], [100_000] * 3, [0, 500 * J, 1000 * J], [0, 900_000, 0])
    meter = partition_meter()
    group = meter.meter_batch(given, 0, 0)
    assert energy_by_tenant(group.lines) == {UNATTRIBUTED: 500 * J, IDLE: 500 * J}
    assert [d.kind for d in group.discrepancies] == ["usage_without_holder"]


def test_between_stop_requested_and_released_the_energy_is_not_the_tenants() -> None:
    stopped = allocation("a", 0, 30, offset=1, known_s=0, stop_requested_us=10 * J)
    lines = partition_meter(stopped).meter_batch(steady(0, 30), 0, 0).lines
    assert energy_by_tenant(lines) == {"tenant-a": 1000 * J, UNATTRIBUTED: 2000 * J}


def test_the_hot_path_names_lines_as_the_chain_does() -> None:
    meter = partition_meter(allocation("a", 0, None, offset=1, known_s=0))
    given = batch(
        list(range(31)), [100_000] * 31, [100 * J * i for i in range(31)], [500_000] * 31
    )  # every reading good: the hot path
    [line] = meter.meter_batch(given, 0, 0).lines
    assert name_originals([line._replace(line_id="")]) == [line]
