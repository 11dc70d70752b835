"""What node events make of a node's facts; right values worked out by hand."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from wattledger_core.event import InventoryDevice, NodeEvent
from wattledger_core.revision import NodeRevision
from wattledger_core.session import SessionFold

EIGHT = (InventoryDevice("A", 0, "H100"), InventoryDevice("B", 1, "H100"))
ONE = EIGHT[:1]


class Fact(NamedTuple):
    """What a test says of one fact; `what` is its state, reservation holder or number of devices."""

    kind: str
    start: int
    end: int | None
    what: str = ""
    marks: tuple[str, ...] = ()
    void: bool = False


def node(kind: str, at: int, **more: Any) -> NodeEvent:
    name = f"{kind}-{at}-{more}"
    return replace(NodeEvent(name, kind, at, "n1", "c"), **more)


def reserve(at: int, start: int | None, end: int | None, tenant: str = "t", name: str = "r") -> NodeEvent:
    return node("reservation", at, reservation_id=name, tenant=tenant, start_us=start, end_us=end)


def cancel(at: int, name: str = "r") -> NodeEvent:
    return node("reservation_cancelled", at, reservation_id=name)


def latest(events: list[NodeEvent]) -> dict[str, NodeRevision]:
    fold = SessionFold(0)
    found: dict[str, NodeRevision] = {}
    for offset, event in enumerate(events):
        for record in fold.fold(offset, event):
            assert isinstance(record, NodeRevision)
            found[record.fact_id] = record
    assert fold.rejected == []
    return found


def facts(events: list[NodeEvent]) -> list[Fact]:
    return sorted(
        (
            Fact(f.kind, f.start_us, f.end_us, f.state or f.tenant or str(len(f.devices) or ""), f.marks, f.void)
            for f in latest(events).values()
            if not f.void or f.marks == ("cancelled_before_start",)
        ),
        key=str,
    )


ASSUMED = ("service_assumed",)
CASES: dict[str, tuple[list[NodeEvent], list[Fact]]] = {
    "an inventory holds until the next": (
        [node("in_service", 0), node("inventory", 100, devices=EIGHT), node("inventory", 300, devices=ONE)],
        [Fact("service", 0, None), Fact("inventory", 100, 300, "2"), Fact("inventory", 300, None, "1")],
    ),
    "the same inventory again is one fact": (
        [node("in_service", 0), node("inventory", 100, devices=EIGHT), node("inventory", 300, devices=EIGHT)],
        [Fact("service", 0, None), Fact("inventory", 100, None, "2")],
    ),
    "a repeated report ends what came in between": (
        [
            node("in_service", 0),
            node("inventory", 100, devices=EIGHT),
            node("inventory", 300, devices=EIGHT),
            node("inventory", 200, devices=ONE),
        ],
        [
            Fact("service", 0, None),
            Fact("inventory", 100, 200, "2"),
            Fact("inventory", 200, 300, "1"),
            Fact("inventory", 300, None, "2"),
        ],
    ),
    "of two inventories of one instant the greater event id holds": (
        [
            node("in_service", 0),
            node("inventory", 100, devices=EIGHT, event_id="b"),
            node("inventory", 100, devices=ONE, event_id="a"),
        ],
        [Fact("service", 0, None), Fact("inventory", 100, None, "2")],
    ),
    "an inventory alone is in service from its time on": (
        [node("inventory", 100, devices=EIGHT), node("inventory", 300, devices=ONE)],
        [
            Fact("service", 100, None, "", ASSUMED),
            Fact("inventory", 100, 300, "2"),
            Fact("inventory", 300, None, "1"),
        ],
    ),
    "a word on service replaces the assumption": (
        [node("inventory", 100, devices=EIGHT), node("in_service", 150)],
        [Fact("service", 150, None), Fact("inventory", 100, None, "2")],
    ),
    "what goes out of service and comes back was in service before": (
        [node("inventory", 100, devices=EIGHT), node("out_of_service", 200), node("in_service", 300)],
        [Fact("service", 100, 200, "", ASSUMED), Fact("service", 300, None), Fact("inventory", 100, None, "2")],
    ),
    "an inventory after going out of service counts where nothing else does": (
        [node("out_of_service", 50), node("inventory", 100, devices=EIGHT)],
        [Fact("service", 100, None, "", ASSUMED), Fact("inventory", 100, None, "2")],
    ),
    "an inventory while out of service does not bring the node back": (
        [node("out_of_service", 50), node("inventory", 100, devices=EIGHT), node("in_service", 300)],
        [Fact("service", 300, None), Fact("inventory", 100, None, "2")],
    ),
    "service is a chain of intervals; repeats change nothing": (
        [
            node(k, t)
            for k, t in (("in_service", 0), ("in_service", 50), ("out_of_service", 100), ("out_of_service", 150))
        ]
        + [node("in_service", 200)],
        [Fact("service", 0, 100), Fact("service", 200, None)],
    ),
    "out and in at one instant stays in service": (
        [node("in_service", 0), node("in_service", 100), node("out_of_service", 100)],
        [Fact("service", 0, 100), Fact("service", 100, None)],
    ),
    "a state holds until the next": (
        [
            node("node_state", 100, state="draining"),
            node("node_state", 200, state="failed", reason="xid 79"),
            node("node_state", 300, state="active"),
        ],
        [
            Fact("state", 100, 200, "draining"),
            Fact("state", 200, 300, "failed"),
            Fact("state", 300, None, "active"),
        ],
    ),
    "a state taken back within its instant was never": (
        [
            node("node_state", 100, state="active"),
            node("node_state", 200, state="failed", event_id="a"),
            node("node_state", 200, state="active", event_id="b"),
        ],
        [Fact("state", 100, None, "active")],
    ),
    "a polled state is one fact": (
        [node("node_state", t, state="maintenance") for t in (300, 100, 200)],
        [Fact("state", 100, None, "maintenance")],
    ),
    "a reservation holds its interval": (
        [reserve(0, 100, 200)],
        [Fact("reservation", 100, 200, "t")],
    ),
    "a reservation without a start or an end begins when it was made and stays": (
        [reserve(50, None, None)],
        [Fact("reservation", 50, None, "t")],
    ),
    "a cancellation ends it": (
        [reserve(0, 100, 200), cancel(150)],
        [Fact("reservation", 100, 150, "t", ("cancelled",))],
    ),
    "the first of two cancellations counts": (
        [reserve(0, 100, 200), cancel(150), cancel(180)],
        [Fact("reservation", 100, 150, "t", ("cancelled",))],
    ),
    "a cancellation at the start leaves nothing": (
        [reserve(0, 100, 200), cancel(100)],
        [Fact("reservation", 100, 100, "t", ("cancelled_before_start",), True)],
    ),
    "a cancellation after the end changes nothing": (
        [reserve(0, 100, 200), cancel(200)],
        [Fact("reservation", 100, 200, "t")],
    ),
    "a cancellation before the start leaves nothing": (
        [reserve(0, 100, 200), cancel(60)],
        [Fact("reservation", 100, 100, "t", ("cancelled_before_start",), True)],
    ),
    "a cancellation stamped before the reservation counts": (
        [reserve(100, 100, 200), cancel(60)],
        [Fact("reservation", 100, 100, "t", ("cancelled_before_start",), True)],
    ),
    "the last version holds": (
        [reserve(0, 100, 200), reserve(50, 100, 400, "u")],
        [Fact("reservation", 100, 400, "u")],
    ),
    "a reservation made again after a cancellation is another": (
        [reserve(0, 100, 200), cancel(150), reserve(160, 300, 400)],
        [Fact("reservation", 100, 150, "t", ("cancelled",)), Fact("reservation", 300, 400, "t")],
    ),
    "two reservations are apart": (
        [reserve(0, 100, 200), reserve(0, 150, 300, "u", "s"), cancel(180, "s")],
        [Fact("reservation", 100, 200, "t"), Fact("reservation", 150, 180, "u", ("cancelled",))],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_events_end_in_these_facts(name: str) -> None:
    events, expected = CASES[name]
    assert facts(events) == sorted(expected, key=str)


@pytest.mark.parametrize("name", CASES)
def test_arrival_backwards_ends_in_the_same_facts(name: str) -> None:
    events, expected = CASES[name]
    assert facts(events[::-1]) == sorted(expected, key=str)


def test_inventory_fact_carries_what_the_event_says() -> None:
    event = node("inventory", 100, site="fra1", devices=EIGHT, cpus=96, memory_bytes=1 << 40)
    found = next(f for f in latest([event]).values() if f.kind == "inventory")
    assert (found.node, found.cluster, found.site, found.devices) == ("n1", "c", "fra1", EIGHT)
    assert (found.cpus, found.memory_bytes) == (96, 1 << 40)


def test_reservation_fact_carries_what_the_event_says() -> None:
    (found,) = latest([replace(reserve(0, 100, 200), reserved_devices=("A",))]).values()
    assert (found.reservation_id, found.tenant, found.reserved_devices) == ("r", "t", ("A",))


def test_service_keeps_its_name_when_the_assumed_start_is_corrected() -> None:
    fold = SessionFold(0)
    said = [r for r in fold.fold(0, node("inventory", 100, devices=EIGHT)) if isinstance(r, NodeRevision)]
    corrected = [r for r in fold.fold(1, node("in_service", 40)) if isinstance(r, NodeRevision)]
    assert [(r.fact_id, r.start_us) for r in corrected] == [(said[1].fact_id, 40)]


def test_a_late_state_leaves_later_facts_as_they_were() -> None:
    fold = SessionFold(0)
    for offset, (at, state) in enumerate([(100, "active"), (300, "maintenance"), (500, "active")]):
        fold.fold(offset, node("node_state", at, state=state))
    said = [r for r in fold.fold(9, node("node_state", 200, state="draining")) if isinstance(r, NodeRevision)]
    assert [(r.state, r.start_us, r.end_us) for r in said] == [("active", 100, 200), ("draining", 200, 300)]
