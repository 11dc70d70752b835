"""What each kind of job event makes of an attempt's allocations; right values worked out by hand."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from wattledger_core.event import Claim, JobEvent
from wattledger_core.revision import AllocationRevision
from wattledger_core.session import SessionFold

A, B, C = Claim("n1", "A"), Claim("n1", "B"), Claim("n2", "C")
HALF_A = replace(A, share_den=2)


class Held(NamedTuple):
    """What a test says of one allocation."""

    attempt: int
    device: str
    segment: int
    start: int
    end: int | None
    stop: int | None = None
    outcome: str = ""
    marks: tuple[str, ...] = ()
    void: bool = False


def job(kind: str, at: int, *claims: Claim, attempt: int = 0, **more: Any) -> JobEvent:
    name = f"{kind}-{attempt}-{at}-{len(claims)}"
    return replace(JobEvent(name, kind, at, "c", "j", attempt, claims, tenant="t"), **more)


def latest(events: list[JobEvent]) -> dict[str, AllocationRevision]:
    fold = SessionFold(0)
    found: dict[str, AllocationRevision] = {}
    for offset, event in enumerate(events):
        for record in fold.fold(offset, event):
            assert isinstance(record, AllocationRevision)
            found[record.allocation_id] = record
    assert fold.rejected == []
    return found


def held(events: list[JobEvent]) -> list[Held]:
    return sorted(
        Held(
            r.attempt, r.device, r.segment, r.start_us, r.end_us, r.stop_requested_us, r.outcome, r.marks, r.void
        )
        for r in latest(events).values()
    )  # fmt: skip


CASES: dict[str, tuple[list[JobEvent], list[Held]]] = {
    "each node's agent speaks of its own node: a second start takes nothing from the first": (
        [job("start", 100, A, node="n1"), job("start", 103, C, node="n2")],
        [Held(0, "A", 0, 100, None), Held(0, "C", 0, 103, None)],
    ),
    "an end on one node leaves the other's hold open": (
        [job("start", 100, A, node="n1"), job("start", 103, C, node="n2"), job("end", 200, node="n1")],
        [Held(0, "A", 0, 100, 200), Held(0, "C", 0, 103, None)],
    ),
    "an end of the whole job ends it on every node, also where the start comes later": (
        [job("start", 100, A, node="n1"), job("end", 200, outcome="TIMEOUT"), job("start", 103, C, node="n2")],
        [Held(0, "A", 0, 100, 200, outcome="TIMEOUT"), Held(0, "C", 0, 103, 200, outcome="TIMEOUT")],
    ),
    "a later attempt on another node ends an attempt whose node said nothing more": (
        [job("start", 100, A, node="n1"), job("start", 150, C, attempt=1, node="n2")],
        [Held(0, "A", 0, 100, 150, marks=("end_inferred",)), Held(1, "C", 0, 150, None)],
    ),
    "what is said of the job and what its node says stay two accounts of one card": (
        [job("start", 100, A), job("start", 101, A, node="n1"), job("end", 200, node="n1")],
        [Held(0, "A", 0, 100, None), Held(0, "A", 0, 101, 200)],
    ),
    "a start opens every claim": (
        [job("start", 100, A, B)],
        [Held(0, "A", 0, 100, None), Held(0, "B", 0, 100, None)],
    ),
    "a start without claims opens nothing": ([job("start", 100), job("end", 200)], []),
    "an end closes and keeps its outcome": (
        [job("start", 100, A), job("end", 200, outcome="OUT_OF_MEMORY")],
        [Held(0, "A", 0, 100, 200, None, "OUT_OF_MEMORY")],
    ),
    "an end at the start is an empty hold with its outcome": (
        [job("start", 100, A), job("end", 100, outcome="FAILED")],
        [Held(0, "A", 0, 100, 100, None, "FAILED")],
    ),
    "the first of two ends counts": (
        [job("start", 100, A), job("end", 220, outcome="FAILED"), job("end", 200, outcome="COMPLETED")],
        [Held(0, "A", 0, 100, 200, None, "COMPLETED")],
    ),
    "an end without an outcome leaves it to the next": (
        [job("start", 100, A), job("end", 200), job("end", 210, outcome="TIMEOUT")],
        [Held(0, "A", 0, 100, 200, None, "TIMEOUT")],
    ),
    "a requeue closes the attempt and the next has its own start": (
        [job("start", 100, A), job("requeue", 200), job("start", 300, B, attempt=1)],
        [Held(0, "A", 0, 100, 200, None, "REQUEUED"), Held(1, "B", 0, 300, None)],
    ),
    "a requeue keeps the reason it gives": (
        [job("start", 100, A), job("requeue", 200, outcome="PREEMPTED")],
        [Held(0, "A", 0, 100, 200, None, "PREEMPTED")],
    ),
    "an end and a requeue at one time: the end says why": (
        [job("start", 100, A), job("requeue", 200), job("end", 200, outcome="NODE_FAIL")],
        [Held(0, "A", 0, 100, 200, None, "NODE_FAIL")],
    ),
    "suspend closes, resume opens the same claims": (
        [job("start", 100, A, B), job("suspend", 200), job("resume", 300), job("end", 400, outcome="COMPLETED")],
        [
            Held(0, "A", 0, 100, 200, None, "", ("suspended",)),
            Held(0, "A", 1, 300, 400, None, "COMPLETED"),
            Held(0, "B", 0, 100, 200, None, "", ("suspended",)),
            Held(0, "B", 1, 300, 400, None, "COMPLETED"),
        ],
    ),
    "a second suspend and a resume of what runs change nothing": (
        [job("start", 100, A), job("resume", 150), job("suspend", 200), job("suspend", 250), job("resume", 300)],
        [Held(0, "A", 0, 100, 200, None, "", ("suspended",)), Held(0, "A", 1, 300, None)],
    ),
    "an end while suspended: the outcome stays with the last hold": (
        [job("start", 100, A), job("suspend", 200), job("end", 300, outcome="CANCELLED")],
        [Held(0, "A", 0, 100, 200, None, "CANCELLED", ("suspended",))],
    ),
    "a resize keeps, drops and opens": (
        [job("start", 100, A, B), job("resize", 200, B, C), job("end", 300, outcome="COMPLETED")],
        [
            Held(0, "A", 0, 100, 200, None, "", ("resized",)),
            Held(0, "B", 0, 100, 300, None, "COMPLETED"),
            Held(0, "C", 0, 200, 300, None, "COMPLETED"),
        ],
    ),
    "another share of the same device is a new segment": (
        [job("start", 100, A), job("resize", 200, HALF_A)],
        [Held(0, "A", 0, 100, 200, None, "", ("resized",)), Held(0, "A", 1, 200, None)],
    ),
    "a resize while suspended counts from the resume on": (
        [job("start", 100, A), job("suspend", 200), job("resize", 250, B), job("resume", 300)],
        [Held(0, "A", 0, 100, 200, None, "", ("suspended",)), Held(0, "B", 0, 300, None)],
    ),
    "a device given back and taken again counts its segments": (
        [job("start", 100, A, B), job("resize", 200, B), job("resize", 300, A, B)],
        [
            Held(0, "A", 0, 100, 200, None, "", ("resized",)),
            Held(0, "A", 1, 300, None),
            Held(0, "B", 0, 100, None),
        ],
    ),
    "a stop requested and an end: the provider holds in between": (
        [job("start", 100, A), job("stop_requested", 150), job("end", 200, outcome="CANCELLED")],
        [Held(0, "A", 0, 100, 200, 150, "CANCELLED")],
    ),
    "the first of two stop requests counts": (
        [job("start", 100, A), job("stop_requested", 160), job("stop_requested", 150)],
        [Held(0, "A", 0, 100, None, 150)],
    ),
    "a stop requested at or after the end says nothing": (
        [job("start", 100, A), job("end", 200), job("stop_requested", 200, attempt=0), job("stop_requested", 210)],
        [Held(0, "A", 0, 100, 200)],
    ),
    "a stop requested while suspended leaves the provider all that is resumed": (
        [job("start", 100, A), job("suspend", 200), job("stop_requested", 250), job("resume", 300), job("end", 400)],
        [Held(0, "A", 0, 100, 200, None, "", ("suspended",)), Held(0, "A", 1, 300, 400, 300)],
    ),
    "a stop requested before the start leaves the provider all of it": (
        [job("stop_requested", 50), job("start", 100, A), job("end", 200)],
        [Held(0, "A", 0, 100, 200, 100)],
    ),
    "released alone is the end": (
        [job("start", 100, A), job("released", 200, outcome="COMPLETED")],
        [Held(0, "A", 0, 100, 200, None, "COMPLETED")],
    ),
    "an end and a later release: the tenant holds to the end, the device to the release": (
        [job("start", 100, A), job("end", 200, outcome="COMPLETED"), job("released", 2600)],
        [Held(0, "A", 0, 100, 2600, 200, "COMPLETED")],
    ),
    "the release comes first in the log, the same": (
        [job("start", 100, A), job("released", 2600), job("end", 200, outcome="COMPLETED")],
        [Held(0, "A", 0, 100, 2600, 200, "COMPLETED")],
    ),
    "stop requested, end and release: the tenant holds to the request": (
        [job("start", 100, A), job("stop_requested", 150), job("end", 200), job("released", 260)],
        [Held(0, "A", 0, 100, 260, 150)],
    ),
    "an end and a release at one time leave nothing in between": (
        [job("start", 100, A), job("end", 200), job("released", 200)],
        [Held(0, "A", 0, 100, 200)],
    ),
    "the last of several releases frees the devices": (
        [job("start", 100, A), job("end", 200), job("released", 230), job("released", 260)],
        [Held(0, "A", 0, 100, 260, 200)],
    ),
    "a release before the end ends the tenant's hold": (
        [job("start", 100, A), job("end", 200, outcome="COMPLETED"), job("released", 190)],
        [Held(0, "A", 0, 100, 190, None, "COMPLETED")],
    ),
    "a release does not lengthen what a suspension or a resize ended": (
        [job("start", 100, A, B), job("resize", 150, B), job("suspend", 200), job("end", 300), job("released", 350)],
        [
            Held(0, "A", 0, 100, 150, None, "", ("resized",)),
            Held(0, "B", 0, 100, 200, None, "", ("suspended",)),
        ],
    ),
    "a missing end is the next attempt's start": (
        [job("start", 100, A), job("start", 300, A, attempt=1)],
        [Held(0, "A", 0, 100, 300, None, "", ("end_inferred",)), Held(1, "A", 0, 300, None)],
    ),
    "a missing end is the earliest start of any later attempt": (
        [
            job("start", 100, A),
            job("start", 400, A, attempt=3),
            job("end", 450, attempt=3),
            job("start", 300, A, attempt=2),
        ],
        [
            Held(0, "A", 0, 100, 300, None, "", ("end_inferred",)),
            Held(2, "A", 0, 300, 400, None, "", ("end_inferred",)),
            Held(3, "A", 0, 400, 450),
        ],
    ),
    "a late start of an earlier attempt is ended by the later one": (
        [job("start", 300, A, attempt=1), job("start", 100, A)],
        [Held(0, "A", 0, 100, 300, None, "", ("end_inferred",)), Held(1, "A", 0, 300, None)],
    ),
    "the real end replaces the inferred one": (
        [job("start", 100, A), job("start", 300, A, attempt=1), job("end", 250, outcome="NODE_FAIL")],
        [Held(0, "A", 0, 100, 250, None, "NODE_FAIL"), Held(1, "A", 0, 300, None)],
    ),
    "an inferred end keeps the stop request": (
        [job("start", 100, A), job("stop_requested", 200), job("start", 300, A, attempt=1)],
        [Held(0, "A", 0, 100, 300, 200, "", ("end_inferred",)), Held(1, "A", 0, 300, None)],
    ),
    "what an attempt does after its inferred end is a contradiction": (
        [job("start", 100, A), job("start", 300, A, attempt=1), job("resize", 310, B)],
        [Held(0, "A", 0, 100, 300, None, "", ("end_inferred", "event_after_end")), Held(1, "A", 0, 300, None)],
    ),
    "a later attempt that starts before leaves nothing": (
        [job("start", 100, A), job("start", 90, A, attempt=1)],
        [
            Held(0, "A", 0, 100, 100, None, "", ("end_before_start", "end_inferred"), True),
            Held(1, "A", 0, 90, None),
        ],
    ),
    "a suspend of an attempt that another started before has nothing to suspend": (
        [job("suspend", 80), job("start", 100, A), job("start", 90, A, attempt=1)],
        [
            Held(0, "A", 0, 100, 100, None, "", ("end_before_start", "end_inferred", "event_after_end"), True),
            Held(1, "A", 0, 90, None),
        ],
    ),
    "an end before the start is void": (
        [job("end", 90, outcome="FAILED"), job("start", 100, A)],
        [Held(0, "A", 0, 100, 100, None, "FAILED", ("end_before_start",), True)],
    ),
    "an end before the start that comes late is void": (
        [job("start", 100, A), job("end", 90, outcome="FAILED")],
        [Held(0, "A", 0, 100, 100, None, "FAILED", ("end_before_start",), True)],
    ),
    "an end before the start is not believed beside one after it": (
        [job("start", 100, A), job("end", 90, outcome="FAILED"), job("end", 200, outcome="COMPLETED")],
        [Held(0, "A", 0, 100, 200, None, "COMPLETED", ("event_before_start",))],
    ),
    "a suspend before the start counts as at the start": (
        [job("suspend", 90), job("start", 100, A), job("resume", 200)],
        [
            Held(0, "A", 0, 100, 100, None, "", ("event_before_start", "suspended")),
            Held(0, "A", 1, 200, None),
        ],
    ),
    "events without a start say nothing": (
        [job("suspend", 100), job("resume", 150), job("resize", 160, A), job("end", 200), job("released", 210)],
        [],
    ),
    "a start that comes last brings what was remembered": (
        [job("released", 410), job("end", 400), job("resume", 300), job("suspend", 200), job("start", 100, A)],
        [Held(0, "A", 0, 100, 200, None, "", ("suspended",)), Held(0, "A", 1, 300, 410, 400)],
    ),
    "the same start again is nothing new": (
        [job("start", 100, A, B), job("start", 130, B, A)],
        [Held(0, "A", 0, 100, None), Held(0, "B", 0, 100, None)],
    ),
    "an earlier start with the same claims moves the start": (
        [job("start", 130, A), job("start", 100, A)],
        [Held(0, "A", 0, 100, None)],
    ),
    "a second start with other claims is a resize": (
        [job("start", 130, B, C), job("start", 100, A, B)],
        [
            Held(0, "A", 0, 100, 130, None, "", ("resized",)),
            Held(0, "B", 0, 100, None, None, "", ("start_repeated",)),
            Held(0, "C", 0, 130, None, None, "", ("start_repeated",)),
        ],
    ),
    "a start after the end is a contradiction": (
        [job("start", 100, A), job("end", 200), job("start", 300, A)],
        [Held(0, "A", 0, 100, 200, None, "", ("event_after_end",))],
    ),
    "a claim given twice counts once": (
        [job("start", 100, A, HALF_A, B)],
        [Held(0, "A", 0, 100, None, None, "", ("claim_repeated",)), Held(0, "B", 0, 100, None)],
    ),
    "events of one instant: suspend before resume before end": (
        [job("start", 100, A), job("end", 200), job("resume", 200), job("suspend", 200)],
        [Held(0, "A", 0, 100, 200, None, "", ("suspended",)), Held(0, "A", 1, 200, 200)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_life_ends_in_these_allocations(name: str) -> None:
    events, expected = CASES[name]
    assert held(events) == sorted(expected)


@pytest.mark.parametrize("name", CASES)
def test_arrival_backwards_ends_in_the_same_allocations(name: str) -> None:
    events, expected = CASES[name]
    standing = [h for h in held(events[::-1]) if not h.void or "end_before_start" in h.marks]
    assert standing == sorted(expected)


def test_allocation_carries_the_terms_of_the_earliest_start_and_the_claim() -> None:
    claim = Claim("n1", "GPU-1", "7", 2, 7, "2g.20gb", 8, 64, 128)
    start = JobEvent(
        "e", "start", 100, "c", "j", 2, (claim,), "tenant", "project", "user", "tag", "spot", "sku", "3g.40gb", True
    )  # fmt: skip
    later = replace(start, event_id="f", at_us=200, tenant="other")
    (found,) = latest([later, start]).values()
    assert (found.cluster, found.job, found.attempt, found.node, found.device) == ("c", "j", 2, "n1", "GPU-1")
    assert (found.gpu_instance, found.share_num, found.share_den) == ("7", 2, 7)
    assert (found.tenant, found.project, found.user, found.model_tag) == ("tenant", "project", "user", "tag")
    assert (found.plan, found.sku, found.requested_profile, found.delivered_profile) == (
        "spot", "sku", "3g.40gb", "2g.20gb",
    )  # fmt: skip
    assert (found.exclusive, found.cpus, found.memory_bytes, found.storage_bytes) == (True, 8, 64, 128)


def test_only_what_changed_is_said_again() -> None:
    fold = SessionFold(3)
    first = fold.fold(10, job("start", 100, A, B))
    again = fold.fold(11, replace(job("start", 120, B, A), event_id="other watcher"))
    resized = fold.fold(12, job("resize", 200, A))
    assert [(r.origin.offset, r.origin.seq) for r in first] == [(10, 0), (10, 1)]
    assert again == []
    assert [(r.device, r.end_us) for r in resized if isinstance(r, AllocationRevision)] == [("B", 200)]


def test_what_a_late_event_takes_away_is_void_with_no_length() -> None:
    fold = SessionFold(0)
    for offset, event in enumerate([job("start", 100, A), job("resize", 200, A, B)]):
        fold.fold(offset, event)
    said = [r for r in fold.fold(2, job("end", 150)) if isinstance(r, AllocationRevision)]
    assert [(r.device, r.start_us, r.end_us, r.void) for r in said] == [("B", 200, 200, True), ("A", 100, 150, False)]


def test_what_is_void_has_no_stop_request() -> None:
    fold = SessionFold(0)
    for offset, event in enumerate([job("start", 100, A), job("stop_requested", 110), job("resize", 200, A, B)]):
        fold.fold(offset, event)
    said = [r for r in fold.fold(9, job("end", 150)) if isinstance(r, AllocationRevision)]
    assert [(r.device, r.stop_requested_us, r.void) for r in said] == [("B", None, True), ("A", 110, False)]


def test_giving_up_a_device_is_said_before_taking_it() -> None:
    fold = SessionFold(0)
    fold.fold(0, job("start", 100, A))
    slices = (replace(A, gpu_instance="1", share_den=7), replace(A, device="0"))
    said = [r for r in fold.fold(1, job("resize", 200, *slices)) if isinstance(r, AllocationRevision)]
    assert [(r.device, r.gpu_instance, r.end_us) for r in said] == [
        ("A", "", 200), ("0", "", None), ("A", "1", None),
    ]  # fmt: skip


def test_jobs_of_one_name_in_two_clusters_are_apart() -> None:
    events = [job("start", 100, A), replace(job("start", 200, A, attempt=1), cluster="d")]
    assert [r.end_us for r in latest(events).values()] == [None, None]
