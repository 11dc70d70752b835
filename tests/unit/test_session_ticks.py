"""Ticks, marks, `known_us`, daily announcements, numbering, and what is rejected."""

from dataclasses import replace

import pytest
from wattledger_core.event import Claim, InventoryDevice, JobEvent, JobTopicEvent, NodeEvent, Tick
from wattledger_core.ids import digest
from wattledger_core.interval import FOREVER_US
from wattledger_core.revision import AllocationRecord, AllocationRevision, Mark, NodeRevision, Origin
from wattledger_core.session import SessionFold
from wattledger_core.units import US_PER_DAY, US_PER_HOUR

DAY = US_PER_DAY
CLAIM = Claim("n1", "A")
START = JobEvent("s", "start", 100, "c", "j", 0, (CLAIM,), tenant="t")
END = JobEvent("e", "end", 200, "c", "j", 0, outcome="COMPLETED")
INVENTORY = NodeEvent("i", "inventory", 100, "n1", devices=(InventoryDevice("A", 0, "H100"),))


def run(*events: JobTopicEvent) -> list[list[AllocationRecord]]:
    fold = SessionFold(2)
    return [fold.fold(offset, event) for offset, event in enumerate(events)]


def known(records: list[AllocationRecord]) -> list[int]:
    return [r.known_us for r in records if not isinstance(r, Mark)]


def test_a_tick_is_answered_with_a_mark_that_says_what_is_stale() -> None:
    assert run(Tick(500, ("slurm",))) == [[Mark(Origin(2, 0, 0), 500, ("slurm",))]]


def test_a_tick_below_the_last_lowers_nothing_and_is_answered() -> None:
    said = run(Tick(500), Tick(300), START)
    assert said[1] == [Mark(Origin(2, 1, 0), 500)]
    assert known(said[2]) == [500]


def test_known_us_is_the_last_tick_above() -> None:
    said = run(START, Tick(500), END, Tick(600), INVENTORY)
    assert [known(records) for records in said] == [[0], [], [500], [], [600, 600]]


def test_revision_ids_name_allocation_and_place() -> None:
    (revision,) = run(Tick(1), START)[1]
    assert isinstance(revision, AllocationRevision)
    assert revision.origin == Origin(2, 1, 0)
    assert revision.allocation_id == digest("allocation", "c", "j", 0, "n1", "A", "", 0)
    assert revision.revision_id == digest("revision", revision.allocation_id, 2, 1, 0)
    assert not revision.announced


def test_the_first_tick_of_a_day_announces_what_holds_and_marks_last() -> None:
    before = DAY - US_PER_HOUR
    said = run(Tick(before), START, INVENTORY, replace(START, event_id="k", job="k"), replace(END, job="k"), Tick(DAY))
    *announced, mark = said[5]
    assert mark == Mark(Origin(2, 5, 3), DAY)
    stood = {r.allocation_id if isinstance(r, AllocationRevision) else r.fact_id: r
             for r in [*said[1], *said[2]] if not isinstance(r, Mark)}  # fmt: skip
    assert len(announced) == len(stood) == 3
    for seq, record in enumerate(announced):
        assert not isinstance(record, Mark)
        name = record.allocation_id if isinstance(record, AllocationRevision) else record.fact_id
        assert record.revision_id == digest("revision", name, 2, 5, seq)
        assert (record.origin, record.known_us, record.announced) == (Origin(2, 5, seq), before, True)
        was = stood.pop(name)
        same = replace(record, revision_id=was.revision_id, origin=was.origin, announced=False)
        assert same == was


@pytest.mark.parametrize(
    ("ticks", "announcing"),
    [
        ((DAY - 2, DAY - 1), [False, False]),
        ((DAY - 1, DAY), [False, True]),
        ((DAY - 1, DAY + 5, DAY + 6), [False, True, False]),
        ((DAY - 1, 3 * DAY + 5), [False, True]),
        ((DAY - 1, DAY, DAY - 1, DAY + 1), [False, True, False, False]),
        ((5, DAY, 2 * DAY), [False, True, True]),
    ],
)
def test_each_day_is_announced_once(ticks: tuple[int, ...], announcing: list[bool]) -> None:
    said = run(START, *map(Tick, ticks))[1:]
    assert [len(records) == 2 for records in said] == announcing


def test_an_end_that_lies_ahead_is_still_announced_until_it_has_come() -> None:
    later = replace(END, at_us=DAY + 500)
    said = run(Tick(5), START, later, Tick(DAY), Tick(2 * DAY))
    assert [r.end_us for r in said[3] if isinstance(r, AllocationRevision)] == [DAY + 500]
    assert [type(r) for r in said[4]] == [Mark]


def test_an_ended_reservation_is_not_announced() -> None:
    made = NodeEvent("r", "reservation", 0, "n1", reservation_id="r", tenant="t", start_us=100, end_us=DAY + 10)
    said = run(Tick(5), made, Tick(DAY), Tick(2 * DAY))
    assert [r.kind for r in said[2] if isinstance(r, NodeRevision)] == ["reservation"]
    assert [type(r) for r in said[3]] == [Mark]


def test_a_void_allocation_is_not_announced() -> None:
    ahead = 2 * DAY
    said = run(Tick(5), replace(START, at_us=ahead), replace(END, at_us=ahead - 1), Tick(DAY))
    assert [r.void for r in said[2] if isinstance(r, AllocationRevision)] == [True]
    assert [type(r) for r in said[3]] == [Mark]


def test_the_first_tick_of_all_announces_nothing() -> None:
    assert [type(r) for r in run(START, INVENTORY, Tick(5 * DAY))[2]] == [Mark]


def test_an_offset_folded_already_is_refused() -> None:
    fold = SessionFold(0)
    fold.fold(7, START)
    with pytest.raises(ValueError, match="offset 7 of job-events partition 0 comes after 7"):
        fold.fold(7, END)


def test_a_duplicate_says_nothing() -> None:
    fold = SessionFold(0)
    fold.fold(0, START)
    fold.fold(1, INVENTORY)
    assert fold.fold(2, replace(START)) == fold.fold(3, replace(INVENTORY)) == fold.fold(4, START) == []
    assert fold.rejected == []


CONFLICTS: dict[str, tuple[JobTopicEvent, JobTopicEvent]] = {
    "another time": (START, replace(START, at_us=50)),
    "another attempt": (START, replace(START, attempt=1)),
    "another kind": (START, replace(END, event_id="s")),
    "another inventory": (INVENTORY, replace(INVENTORY, cpus=4)),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_of_two_contents_of_one_id_the_first_is_kept(name: str) -> None:
    first, second = CONFLICTS[name]
    fold = SessionFold(0)
    assert fold.fold(0, first)
    assert fold.fold(4, second) == []
    assert [(r.offset, r.reason) for r in fold.rejected] == [(4, "conflicting_duplicate")]
    assert fold.take_rejected() and fold.rejected == []
    fold.fold(5, Tick(5))
    assert len(fold.fold(6, Tick(DAY + 5))) == 1 + (2 if name == "another inventory" else 1)


FLAWS: dict[str, tuple[JobEvent | NodeEvent, str]] = {
    "kind": (replace(START, kind="began"), "unknown_kind"),
    "node kind": (replace(INVENTORY, kind="gone"), "unknown_kind"),
    "negative time": (replace(START, at_us=-1), "bad_time"),
    "endless time": (replace(INVENTORY, at_us=FOREVER_US), "bad_time"),
    "no job": (replace(START, job=""), "bad_job"),
    "negative attempt": (replace(START, attempt=-1), "bad_job"),
    "no device": (replace(START, claims=(replace(CLAIM, device=""),)), "bad_claim"),
    "no part": (replace(START, claims=(replace(CLAIM, share_num=0),)), "bad_share"),
    "more than all": (replace(START, claims=(CLAIM, replace(CLAIM, device="B", share_num=2))), "bad_share"),
    "no node": (replace(INVENTORY, node=""), "bad_node"),
    "state": (NodeEvent("x", "node_state", 5, "n1", state="ACTIVE"), "unknown_state"),
    "no reservation id": (NodeEvent("x", "reservation_cancelled", 5, "n1"), "bad_reservation"),
    "empty reservation": (
        NodeEvent("x", "reservation", 5, "n1", reservation_id="r", start_us=9, end_us=9),
        "bad_reservation",
    ),
}


@pytest.mark.parametrize("name", FLAWS)
def test_an_event_that_cannot_be_used_is_rejected_and_not_remembered(name: str) -> None:
    event, reason = FLAWS[name]
    fold = SessionFold(0)
    assert fold.fold(3, event) == []
    (rejection,) = fold.rejected
    assert (rejection.offset, rejection.event_id, rejection.reason) == (3, event.event_id, reason)
    assert rejection.detail
    good = START if isinstance(event, JobEvent) else INVENTORY
    assert fold.fold(4, replace(good, event_id=event.event_id))
