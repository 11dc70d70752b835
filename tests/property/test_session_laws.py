"""Laws of sessions over generated lives: arrival order and duplicates change nothing that stands at the end, a restart
at any point goes on as if it had not been, and no hold is negative or overlaps another of its attempt."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from wattledger_core.event import (
    JOB_EVENT_KINDS,
    NODE_EVENT_KINDS,
    Claim,
    InventoryDevice,
    JobEvent,
    JobTopicEvent,
    NodeEvent,
    Tick,
)
from wattledger_core.revision import AllocationRecord, AllocationRevision, Mark, NodeRevision, Origin, Revision
from wattledger_core.session import SessionFold
from wattledger_core.units import US_PER_DAY

CLAIMS = [Claim("n1", "A"), Claim("n1", "A", share_den=2), Claim("n1", "B", "1", 2, 7), Claim("n2", "C")]
INVENTORIES = [(), (InventoryDevice("A", 0, "H100"),), (InventoryDevice("A", 0, "H200"),)]
times = st.integers(100, 130)


@st.composite
def job_events(draw: st.DrawFn) -> list[JobEvent]:
    """Up to three attempts of a few jobs; more often than not a start, else any kind at any time (skew, no start,
    no end, after the end), often at one instant."""
    events = []
    for number in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(("start", *JOB_EVENT_KINDS)))
        node = draw(st.sampled_from(("", "", "n1", "n2")))
        claims = draw(st.lists(st.sampled_from(CLAIMS), max_size=3)) if kind in ("start", "resize") else []
        events.append(
            JobEvent(
                draw(st.sampled_from("abc")) + str(number),
                kind,
                draw(times),
                "c",
                draw(st.sampled_from("jk")),
                draw(st.integers(0, 2)),
                tuple(claim for claim in claims if node in ("", claim.node)),
                draw(st.sampled_from(("t", "u"))),
                outcome=draw(st.sampled_from(("", "FAILED", "NODE_FAIL"))) if kind == "end" else "",
                node=node,
            )
        )
    return events


@st.composite
def node_events(draw: st.DrawFn) -> list[NodeEvent]:
    events = []
    for number in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(NODE_EVENT_KINDS))
        event = NodeEvent(draw(st.sampled_from("abc")) + str(number), kind, draw(times), draw(st.sampled_from("nm")))
        if kind == "inventory":
            event = replace(event, devices=draw(st.sampled_from(INVENTORIES)))
        elif kind == "node_state":
            event = replace(event, state=draw(st.sampled_from(("active", "failed", "draining"))))
        elif kind == "reservation":
            start_us = draw(times)
            event = replace(event, reservation_id="r", tenant=draw(st.sampled_from(("t", "u"))), start_us=start_us)
            event = replace(event, end_us=draw(st.none() | st.integers(start_us + 1, 140)))
        elif kind == "reservation_cancelled":
            event = replace(event, reservation_id="r")
        events.append(event)
    return events


lives: st.SearchStrategy[list[JobEvent | NodeEvent]] = st.tuples(job_events(), node_events()).map(
    lambda t: [*t[0], *t[1]]
)


def identity(revision: Revision) -> str:
    return revision.allocation_id if isinstance(revision, AllocationRevision) else revision.fact_id


def run(events: Sequence[JobTopicEvent]) -> list[AllocationRecord]:
    fold = SessionFold(0)
    records = [record for offset, event in enumerate(events) for record in fold.fold(offset, event)]
    assert fold.rejected == []
    return records


def latest(records: list[AllocationRecord]) -> dict[str, Revision]:
    return {identity(record): record for record in records if not isinstance(record, Mark)}


def standing(records: list[AllocationRecord]) -> dict[str, Revision]:
    """What is not void at the end, without where and when it was said."""
    return {
        name: replace(revision, revision_id="", origin=Origin(0, 0), known_us=0, announced=False)
        for name, revision in latest(records).items()
        if not revision.void
    }


@given(lives, st.data())
def test_any_order_and_any_duplicates_end_in_the_same(events: list[JobTopicEvent], data: st.DataObject) -> None:
    in_time = sorted(events, key=lambda event: event.at_us)
    again = data.draw(st.lists(st.sampled_from(events), max_size=6))
    shuffled = data.draw(st.permutations([*events, *again]))
    assert standing(run(shuffled)) == standing(run(in_time))


ticks = st.builds(Tick, st.integers(0, 3 * US_PER_DAY), st.sampled_from(((), ("slurm",))))


@given(lives, st.lists(ticks, max_size=6), st.data())
def test_a_restart_at_any_point_goes_on_the_same(
    events: list[JobTopicEvent], clock: list[Tick], data: st.DataObject
) -> None:
    log = data.draw(st.permutations([*events, *clock]))
    cut = data.draw(st.integers(0, len(log)))
    whole = SessionFold(0)
    said = [whole.fold(offset, event) for offset, event in enumerate(log)]
    restarted = SessionFold(0)
    for offset, event in enumerate(log[:cut]):
        restarted.fold(offset, event)
    assert [restarted.fold(cut + i, event) for i, event in enumerate(log[cut:])] == said[cut:]


@given(lives, st.lists(ticks, max_size=6), st.data())
def test_ticks_change_only_known_us_and_announcements(
    events: list[JobTopicEvent], clock: list[Tick], data: st.DataObject
) -> None:
    log = data.draw(st.permutations([*events, *clock]))
    without = [event for event in log if not isinstance(event, Tick)]
    assert standing(run(log)) == standing(run(without))


@given(lives, st.lists(ticks, max_size=6), st.data())
def test_origins_rise_and_known_us_never_falls(
    events: list[JobTopicEvent], clock: list[Tick], data: st.DataObject
) -> None:
    records = run(data.draw(st.permutations([*events, *clock])))
    assert all(a.origin < b.origin for a, b in pairwise(records))
    known = [record.at_us if isinstance(record, Mark) else record.known_us for record in records]
    assert known == sorted(known)


@given(lives)
def test_announcements_hold_all_that_stands_open(events: list[JobTopicEvent]) -> None:
    records = run([Tick(0), *events, Tick(US_PER_DAY)])
    announced = {identity(r) for r in records if not isinstance(r, Mark) and r.announced}
    open_now = {n for n, r in standing(records).items() if r.end_us is None}
    assert announced == open_now


@given(lives, st.data())
def test_no_length_is_negative_at_any_time_and_void_has_none(events: list[JobTopicEvent], data: st.DataObject) -> None:
    for record in run(data.draw(st.permutations(events))):
        assert not isinstance(record, Mark)
        assert record.start_us <= record.until_us
        assert not record.void or record.start_us == record.end_us
        if isinstance(record, AllocationRevision) and record.stop_requested_us is not None:
            assert record.start_us <= record.stop_requested_us < record.until_us


@given(lives, st.data())
def test_after_every_event_holds_of_one_attempt_on_one_device_and_facts_of_one_kind_do_not_overlap(
    events: list[JobTopicEvent], data: st.DataObject
) -> None:
    # of the job as a whole and of its nodes there are two accounts, each free of overlaps; here there is one
    starts_by_node = data.draw(st.booleans())
    events = [
        event
        for event in events
        if not isinstance(event, JobEvent)
        or event.kind not in ("start", "resize")
        or bool(event.node) == starts_by_node
    ]
    fold = SessionFold(0)
    now: dict[str, Revision] = {}
    for offset, event in enumerate(data.draw(st.permutations(events))):
        now |= latest(fold.fold(offset, event))
        lanes: dict[tuple[object, ...], list[Revision]] = defaultdict(list)
        for record in now.values():
            if isinstance(record, AllocationRevision) and not record.void:
                lanes[record.job, record.attempt, record.node, record.device, record.gpu_instance].append(record)
            elif isinstance(record, NodeRevision) and not record.void and record.kind != "reservation":
                lanes[record.node, record.kind].append(record)
        for lane in lanes.values():
            lane.sort(key=lambda r: (r.start_us, r.until_us))
            assert all(a.until_us <= b.start_us for a, b in pairwise(lane))
        for held in lanes.values():
            ordinals = [r.segment for r in held if isinstance(r, AllocationRevision)]
            assert sorted(ordinals) == list(range(len(ordinals)))


@given(job_events(), st.data())
def test_jobs_do_not_touch_each_other(events: list[JobTopicEvent], data: st.DataObject) -> None:
    mixed = data.draw(st.permutations(events))
    apart: dict[str, Revision] = {}
    for job in "jk":
        apart |= standing(run([event for event in mixed if isinstance(event, JobEvent) and event.job == job]))
    assert apart == standing(run(mixed))
