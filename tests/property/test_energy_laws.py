"""Conservation of energy under any readings, any cutting, any holders."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from wattledger_core.batch import Batch, InstanceActivity, ProcessActivity
from wattledger_core.book import Book, View
from wattledger_core.curve import build_curves
from wattledger_core.energy_meter import energy_lines
from wattledger_core.policy import Policy
from wattledger_core.revision import AllocationRevision
from wattledger_core.steady import BatchCurves

from tests.builders import S, allocation, batch, partition_meter

MAYBE = st.none() | st.integers(0, 1_000_000)


@st.composite
def traces(draw: st.DrawFn) -> Batch:
    """One device: odd spans, missing cells, resets, bad reads, any floor."""
    n = draw(st.integers(2, 12))
    spans = draw(st.lists(st.integers(1, 20_000_000), min_size=n - 1, max_size=n - 1))
    ticks = [0.0]
    at_us = 0
    for span in spans:
        at_us += span
        ticks.append(at_us / S)
    power = draw(st.lists(st.none() | st.integers(0, 700_000), min_size=n, max_size=n))
    kind = draw(st.sampled_from(["rising", "any", "none"]))
    if kind == "rising":
        gains = draw(st.lists(st.integers(0, 3_000_000_000), min_size=n, max_size=n))
        counter: list[int | None] = [int(c) for c in np.cumsum(gains)]
    elif kind == "any":
        counter = draw(st.lists(st.none() | st.integers(0, 10**12), min_size=n, max_size=n))
    else:
        counter = [None] * n
    busy = draw(st.lists(MAYBE, min_size=n, max_size=n))
    floor = draw(st.none() | st.integers(0, 200_000))
    epoch_from = draw(st.sampled_from([0, 0, 0, 1, n - 1]))
    return batch(ticks, power, counter, busy, floor_mw=floor, epoch_from=epoch_from)


@given(traces(), st.lists(st.integers(0, 10**9), max_size=8))
def test_any_cutting_adds_up_to_the_batch_and_no_slice_is_negative(trace: Batch, cuts: list[int]) -> None:
    curves = build_curves(trace, Policy())
    start, end = trace.start_us, trace.end_us
    points = sorted({start, end, *(start + cut % (end - start) for cut in cuts)})
    slices = [curves.slice(0, a, b) for a, b in itertools.pairwise(points)]
    whole = curves.slice(0, start, end)
    for quantity in ("energy_uj", "idle_uj", "static_uj", "busy_us", "measured_us", "unknown_us"):
        parts = [getattr(part, quantity) for part in slices]
        assert all(part >= 0 for part in parts), quantity
        assert sum(parts) == getattr(whole, quantity), quantity
    assert whole.idle_uj <= whole.energy_uj
    assert whole.static_uj <= whole.energy_uj
    assert whole.measured_us + whole.unknown_us == end - start


@given(traces())
def test_the_hot_path_gives_what_the_full_curves_give(trace: Batch) -> None:
    full = build_curves(trace, Policy()).whole()
    assert BatchCurves(trace, Policy()).whole() == full


@st.composite
def steady_traces(draw: st.DrawFn) -> Batch:
    """Traces that are mostly taken by the hot path."""
    n = draw(st.integers(2, 12))
    power = draw(st.lists(st.integers(100_000, 110_000), min_size=n, max_size=n))
    counter = [0]
    for a, b in itertools.pairwise(power):
        counter.append(counter[-1] + (a + b) * 500 + draw(st.integers(-1000, 1000)))
    busy = draw(st.lists(st.sampled_from([0, 0, 300_000, 1_000_000]), min_size=n, max_size=n))
    return batch([float(i) for i in range(n)], power, [int(c) for c in counter], list(busy))


@given(steady_traces())
def test_the_hot_path_is_taken_and_exact_on_good_readings(trace: Batch) -> None:
    curves = BatchCurves(trace, Policy())
    assert curves._full is None
    assert curves.whole() == build_curves(trace, Policy()).whole()
    assert curves._full is None


@given(traces() | steady_traces())
def test_a_batch_from_its_ends_is_its_curves_from_end_to_end(trace: Batch) -> None:
    sliced = build_curves(trace, Policy()).slice(0, trace.start_us, trace.end_us)
    assert BatchCurves(trace, Policy()).whole() == [sliced._replace(static_uj=0)]


@given(traces() | steady_traces())
def test_a_card_that_nobody_holds_is_cut_from_its_ends_as_from_its_curves(trace: Batch) -> None:
    from_ends, from_curves = BatchCurves(trace, Policy()), BatchCurves(trace, Policy())
    needs_curves = from_ends._whole is None
    from_curves._whole = [from_curves.slice(0, trace.start_us, trace.end_us)]
    nobody = Book(1), View(0)
    assert energy_lines(trace, from_ends, *nobody) == energy_lines(trace, from_curves, *nobody)
    assert (from_ends._full is not None) == needs_curves


@st.composite
def holders(draw: st.DrawFn) -> list[AllocationRevision]:
    """Up to five allocations of any kind, overlapping as they like."""
    found: list[AllocationRevision] = []
    for i in range(draw(st.integers(0, 5))):
        a = draw(st.integers(0, 40_000_000))
        b = draw(st.none() | st.integers(a, 80_000_000))
        kind = draw(st.sampled_from(["full", "mig", "sliced"]))
        changes: dict[str, Any] = {"start_us": a, "end_us": b, "offset": i + 1, "known_s": 0}
        if kind == "mig":
            changes |= {
                "gpu_instance": draw(st.sampled_from("1234")),
                "share_num": draw(st.integers(1, 4)),
                "share_den": 7,
            }
        elif kind == "sliced":
            changes |= {"share_num": 1, "share_den": 4}
        if b is not None and draw(st.booleans()):
            changes["stop_requested_us"] = draw(st.integers(a, b))
        found.append(
            allocation(f"j{i}", 0, None, **{k: v for k, v in changes.items() if k not in ("start_us", "end_us")})
        )
        found[-1] = replace(found[-1], start_us=a, end_us=b)
    return found


@settings(max_examples=300)
@given(traces(), holders(), st.data())
def test_lines_sum_to_the_batch_under_any_contradiction(
    trace: Batch, held: list[AllocationRevision], data: st.DataObject
) -> None:
    n = len(trace.ticks_us)

    def column() -> tuple[np.ndarray, np.ndarray]:
        values = data.draw(st.lists(MAYBE, min_size=n, max_size=n))
        return np.array([v or 0 for v in values], dtype=np.int64), np.array([v is not None for v in values])

    device = replace(
        trace.devices[0],
        instances=tuple(InstanceActivity(i, 2, *column()) for i in data.draw(st.sets(st.sampled_from("1234")))),
        processes=tuple(
            ProcessActivity("c", j, *column()) for j in data.draw(st.sets(st.sampled_from(["j0", "j1", ""])))
        ),
    )
    given_batch = replace(trace, devices=(device,))
    group = partition_meter(*held).meter_batch(given_batch, 0, 0)
    [total] = group.totals
    assert sum(line.energy_uj or 0 for line in group.lines) == total.energy_uj
    assert sum(line.span_us for line in group.lines) == total.measured_us + total.unknown_us
    assert sum(line.span_us for line in group.lines if line.energy_uj is None) == total.unknown_us
    assert all((line.energy_uj or 0) >= 0 and line.idle_energy_uj >= 0 for line in group.lines)
    assert len({line.line_id for line in group.lines}) == len(group.lines)
    assert total.measured_us + total.unknown_us == given_batch.end_us - given_batch.start_us
