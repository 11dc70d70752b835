"""Late revisions: the same logs give the same rows however reading and metering interleave; any order, same totals."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from wattledger_core.batch import Batch
from wattledger_core.line import Line
from wattledger_core.meter import READY, Group, PartitionMeter
from wattledger_core.policy import Policy
from wattledger_core.revision import AllocationRevision, Mark, NodeRevision, Origin

from tests.builders import S, allocation, energy_by_tenant, fact, installed, lines_of, mark, steady, time_by_tenant

Record = AllocationRevision | NodeRevision | Mark
BATCHES = [steady(start, start + 300, seq=i) for i, start in enumerate(range(0, 2700, 300))]
PRICE_TICK = 10**9 * S


@st.composite
def source_logs(draw: st.DrawFn, source: int) -> list[Record]:
    """One source's records in order: jobs of its own that start, move and end, ticks between, known late or not."""
    offset = 0
    known_s = 0
    records: list[Record] = []
    if source == 0:
        records += installed(offset=0)
    current: dict[str, AllocationRevision] = {}
    for _ in range(draw(st.integers(0, 8))):
        offset += 1
        kind = draw(st.sampled_from(["tick", "job", "job", "state"]))
        if kind == "tick":
            known_s += draw(st.integers(0, 1200))
            records.append(mark(known_s, offset=offset, partition=source))
        elif kind == "state" and source == 0:
            at_s = draw(st.integers(0, 2700))
            state = draw(st.sampled_from(["failed", "maintenance", "active"]))
            end = draw(st.none() | st.integers(at_s, 2700))
            records.append(fact("state", at_s, end, offset=offset, known_s=known_s, state=state))
        else:
            job = draw(st.sampled_from([f"s{source}a", f"s{source}b"]))
            start_s = draw(st.integers(0, 2700))
            end_s = draw(st.none() | st.integers(start_s, 2800))
            revision = allocation(job, start_s, end_s, offset=offset, known_s=known_s, partition=source)
            if draw(st.booleans()):
                revision = replace(revision, tenant=draw(st.sampled_from(["t1", "t2"])))
            if draw(st.integers(0, 5)) == 0:
                revision = replace(revision, void=True, end_us=revision.start_us)
            current[job] = revision
            records.append(revision)
    records.append(Mark(Origin(source, offset + 1), 4000 * S))
    return records


def interleave(draw: Any, logs: list[list[Record]]) -> list[Record]:
    queues = [list(log) for log in logs]
    merged: list[Record] = []
    while any(queues):
        queue = draw(st.sampled_from([q for q in queues if q]))
        merged.append(queue.pop(0))
    return merged


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[list[Record]], list[Record]]:
    logs = [draw(source_logs(0)), draw(source_logs(1))]
    return logs, interleave(draw, logs)


def all_read_first(records: list[Record]) -> list[Group]:
    meter = PartitionMeter(2, Policy())
    for record in records:
        meter.read(record)
    groups = list(meter.due_quarters(PRICE_TICK))
    groups += [meter.meter_batch(batch, 0, i) for i, batch in enumerate(BATCHES)]
    return groups


def live(records: list[Record], duplicates: list[int], pauses: list[bool]) -> list[Group]:
    """As the shell works: records one by one (some twice), quarters when due, batches when ready, corrections."""
    meter = PartitionMeter(2, Policy())
    groups: list[Group] = []
    written: list[tuple[int, Batch]] = []
    waiting = list(enumerate(BATCHES))
    for place, record in enumerate(records):
        again = [records[i % (place + 1)] for i in duplicates[place : place + 1]]
        for one in [record, *again]:
            reach = meter.read(one)
            if reach is not None:
                groups += meter.correct_quarters(reach)
                corrected = (meter.correct_batch(batch, 0, i, reach) for i, batch in written)
                groups += [group for group in corrected if group is not None]
        if pauses[place % len(pauses)]:
            continue
        groups += meter.due_quarters(PRICE_TICK)
        while waiting and meter.verdict(waiting[0][1].end_us, PRICE_TICK) == READY:
            i, batch = waiting.pop(0)
            groups.append(meter.meter_batch(batch, 0, i))
            written.append((i, batch))
    groups += meter.due_quarters(PRICE_TICK)
    groups += [meter.meter_batch(batch, 0, i) for i, batch in waiting]
    return groups


def by_id(lines: list[Line]) -> dict[str, Line]:
    named: dict[str, Line] = {}
    for line in lines:
        assert named.setdefault(line.line_id, line) == line, "two contents under one id"
    return named


@settings(max_examples=150)
@given(partitions(), st.lists(st.integers(0, 50), max_size=30), st.lists(st.booleans(), min_size=1, max_size=7))
def test_however_reading_and_metering_interleave_the_rows_are_the_same(
    drawn: tuple[list[list[Record]], list[Record]], duplicates: list[int], pauses: list[bool]
) -> None:
    _, records = drawn
    expected, got = all_read_first(records), live(records, duplicates, pauses)
    assert by_id(lines_of(got)) == by_id(lines_of(expected))
    totals = {total.total_id: total for group in expected for total in group.totals}
    assert {total.total_id: total for group in got for total in group.totals} == totals


@settings(max_examples=150)
@given(st.data())
def test_any_order_of_arrival_folds_to_the_same_totals(data: st.DataObject) -> None:
    logs = [data.draw(source_logs(0)), data.draw(source_logs(1))]
    one = lines_of(all_read_first(interleave(data.draw, logs)))
    other = lines_of(all_read_first(interleave(data.draw, logs)))
    assert energy_by_tenant(one) == energy_by_tenant(other)
    assert time_by_tenant(one) == time_by_tenant(other)
    # and to what would have been written had everything been known in time
    punctual = [[r if isinstance(r, Mark) else replace(r, known_us=0) for r in log] for log in logs]
    known = lines_of(all_read_first([*punctual[0], *punctual[1]]))
    assert energy_by_tenant(one) == energy_by_tenant(known)
    assert time_by_tenant(one) == time_by_tenant(known)
    assert {line.entry for line in known} <= {"original"}


@settings(max_examples=100)
@given(partitions())
def test_every_group_keeps_its_laws_after_every_step(drawn: tuple[list[list[Record]], list[Record]]) -> None:
    for group in all_read_first(drawn[1]):
        lines: dict[str, int] = {}
        for line in group.lines:
            lines[line.device] = lines.get(line.device, 0) + (
                line.device_us if group.kind == "time" else line.energy_uj or 0
            )
        totals: dict[str, int] = {}
        for total in group.totals:
            amount = total.in_service_us if group.kind == "time" else total.energy_uj
            totals[total.device] = totals.get(total.device, 0) + amount
        assert lines == totals
        reversed_ids = [line.of_line_id for line in group.lines if line.sign < 0]
        assert len(reversed_ids) == len(set(reversed_ids))


def with_restarts(records: list[Record], stops: list[int], behind: list[tuple[int, int]]) -> list[Group]:
    """As the shell restarts: a new meter reads silently up to the kept position, takes the quarter-hours due by then as
    written, and goes on; batches written but not yet acknowledged are written again. The kept position and what is
    acknowledged are so many behind, each by its own number: they are told to the broker apart."""
    groups: list[Group] = []
    position, acked = 0, 0
    for run, stop in enumerate([*sorted(stop % (len(records) + 1) for stop in stops), len(records)]):
        meter = PartitionMeter(2, Policy())
        for record in records[:position]:
            meter.read(record)
        meter.skip_due()
        written = list(enumerate(BATCHES))[:acked]
        waiting = list(enumerate(BATCHES))[acked:]
        for record in records[position:stop]:
            reach = meter.read(record)
            if reach is not None:
                groups += meter.correct_quarters(reach)
                corrected = (meter.correct_batch(batch, 0, i, reach) for i, batch in written)
                groups += [group for group in corrected if group is not None]
            groups += meter.due_quarters(PRICE_TICK)
            while waiting and meter.verdict(waiting[0][1].end_us, PRICE_TICK) == READY:
                i, batch = waiting.pop(0)
                groups.append(meter.meter_batch(batch, 0, i))
                written.append((i, batch))
        # The process dies here. The book's kept position and the acknowledged batches may both be behind the work done.
        position_lag, acked_lag = behind[run % len(behind)]
        position = max(position, stop - position_lag)
        acked = max(acked, len(written) - acked_lag)
    return groups


@settings(max_examples=400)
@given(
    partitions(),
    st.lists(st.integers(0, 40), max_size=4),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), max_size=3),
)
def test_restarts_at_any_point_write_the_same_rows(
    drawn: tuple[list[list[Record]], list[Record]], stops: list[int], behind: list[tuple[int, int]]
) -> None:
    _, records = drawn
    expected, got = all_read_first(records), with_restarts(records, stops, [*behind, (0, 0)])
    assert by_id(lines_of(got)) == by_id(lines_of(expected))
