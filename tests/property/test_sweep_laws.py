"""Laws of the node sweep: it parts in-service time exactly, and says what the allocation meter says on its grid."""

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st
from wattledger_core.allocation_meter import time_lines
from wattledger_core.book import Book, View
from wattledger_core.event import InventoryDevice
from wattledger_core.interval import FOREVER_US
from wattledger_core.line import IDLE
from wattledger_core.revision import AllocationRevision, NodeRevision, Origin
from wattledger_core.span_lines import Holder, Place, SpanLedger
from wattledger_core.sweep import NOBODY, PARTS_PER_US, NodeSweep, NodeTimeline, ReservedSpan, StateSpan, Taking
from wattledger_core.units import QUARTER_US

MINUTE_US = 60_000_000
DAY_US = 4 * QUARTER_US
GPUS = 3
NODE = "n1"
minutes = st.integers(0, DAY_US // MINUTE_US)


@st.composite
def intervals(draw: st.DrawFn) -> tuple[int, int]:
    start, end = sorted((draw(minutes), draw(minutes)))
    return start * MINUTE_US, (end + 1) * MINUTE_US


@st.composite
def takings(draw: st.DrawFn) -> list[Taking]:
    found = []
    for holder in range(draw(st.integers(0, 6))):
        start_us, end_us = draw(intervals())
        num, den = draw(st.sampled_from([(1, 1), (1, 1), (1, 4), (2, 7), (3, 7), (1, 2)]))
        exclusive = draw(st.sampled_from([False, False, True]))
        cpus = draw(st.sampled_from([None, 4, 16]))
        device = draw(st.integers(0, GPUS - 1))
        found.append(Taking(start_us, end_us, device, holder, num, den, "", exclusive, cpus, None))
    return found


@st.composite
def timelines(draw: st.DrawFn) -> NodeTimeline:
    service = [[(draw(st.sampled_from([0, QUARTER_US])), DAY_US + MINUTE_US)] for _ in range(GPUS)]
    first = service[0]
    states = [
        StateSpan(*draw(intervals()), draw(st.sampled_from(["maintenance", "draining", "failed"])))
        for _ in range(draw(st.integers(0, 2)))
    ]
    reserved = [
        ReservedSpan(*draw(intervals()), f"r{n}", f"holder{n}", draw(st.sampled_from([frozenset(), frozenset({1})])))
        for n in range(draw(st.integers(0, 2)))
    ]
    return NodeTimeline([first] * GPUS, states, reserved, draw(st.sampled_from([None, 16])), None)


def book_of(timeline: NodeTimeline, held: list[Taking]) -> Book:
    """The same facts as allocation revisions."""
    book = Book(1)
    devices = tuple(InventoryDevice(str(n), n, "H100") for n in range(GPUS))
    book.add(
        NodeRevision("i", "i", Origin(0, 0), 0, NODE, "", "inventory", 0, None, devices=devices, cpus=timeline.cpus)
    )
    start_us, end_us = timeline.service[0][0]
    book.add(NodeRevision("s", "s", Origin(0, 1), 0, NODE, "", "service", start_us, end_us))
    for n, state in enumerate(timeline.states):
        book.add(
            NodeRevision(
                f"t{n}", f"t{n}", Origin(0, 10 + n), 0, NODE, "", "state", state[0], state[1], state=state.state
            )
        )
    for n, r in enumerate(timeline.reservations):
        name = f"r{n}"
        book.add(
            NodeRevision(
                name, name, Origin(0, 20 + n), 0, NODE, "", "reservation", r[0], r[1], reservation_id=r.reservation_id,
                tenant=r.tenant, reserved_devices=tuple(str(d) for d in sorted(r.devices)),
            )
        )  # fmt: skip
    for n, t in enumerate(held):
        name = f"a{n:03d}"
        book.add(
            AllocationRevision(
                name, name, Origin(0, 100 + n), 0, "", f"j{t.holder}", 0, 0, NODE, str(t.device), "", t.share_num,
                t.share_den, f"tenant{t.holder}", "", "", "", "on_demand", "", "full", "full", t.exclusive, t.cpus,
                None, None, t.start_us, t.end_us,
            )
        )  # fmt: skip
    return book


@settings(max_examples=150, deadline=None)
@given(timelines(), takings())
def test_pieces_of_every_device_sum_to_its_time_in_service(timeline: NodeTimeline, held: list[Taking]) -> None:
    parts: dict[int, int] = defaultdict(int)
    for piece in NodeSweep(timeline, held).pieces():
        assert piece.parts >= 0
        assert piece.start_us < piece.end_us
        parts[piece.device] += piece.parts
    for device, service in enumerate(timeline.service):
        assert parts[device] == sum(b - a for a, b in service) * PARTS_PER_US


@settings(max_examples=150, deadline=None)
@given(timelines(), takings())
def test_the_sweep_says_what_the_allocation_meter_says(timeline: NodeTimeline, held: list[Taking]) -> None:
    metered: dict[tuple[str, str, str, str], int] = defaultdict(int)
    book, cuts = book_of(timeline, held), 0
    for quarter_us in range(0, DAY_US + QUARTER_US, QUARTER_US):
        lines, _, _ = time_lines(book, NODE, quarter_us, View(FOREVER_US))
        for line in lines:
            reason = line.reason if line.state != "held" else ""
            metered[line.device, line.state, reason, line.tenant] += line.device_us
            cuts += 1
    swept: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for piece in NodeSweep(timeline, held).pieces():
        tenant = f"tenant{piece.holder}" if piece.holder != NOBODY else piece.tenant
        if piece.by != NOBODY:
            tenant = f"tenant{piece.by}"
        swept[str(piece.device), piece.state, piece.reason, tenant] += piece.parts
    assert set(swept) | set(metered) == set(metered) | {key for key in swept if swept[key]}
    for key in set(swept) | set(metered):
        # the meter rounds shares to whole µs at every cut; the sweep has them exactly
        assert abs(swept[key] - metered[key] * PARTS_PER_US) <= PARTS_PER_US * (cuts + 40), key


@settings(max_examples=100, deadline=None)
@given(timelines(), takings(), st.lists(minutes, min_size=0, max_size=5))
def test_lines_of_any_windows_keep_every_part(timeline: NodeTimeline, held: list[Taking], cuts: list[int]) -> None:
    edges = sorted({0, DAY_US + MINUTE_US, *(cut * MINUTE_US for cut in cuts)})
    whole, cut = SpanLedger([0, DAY_US + MINUTE_US]), SpanLedger(edges)
    place = Place(NODE, "fra", "H100", GPUS)
    total = 0
    for piece in NodeSweep(timeline, held).pieces():
        name = f"tenant{piece.holder}" if piece.holder != NOBODY else piece.tenant or IDLE
        holder = Holder(name, "", "", "", "on_demand", "", piece.state, piece.reason)
        assert whole.add(place, piece, holder) == cut.add(place, piece, holder) == piece.parts
        total += piece.parts
    assert sum(whole.parts.values()) == sum(cut.parts.values()) == total
    by_holder: dict[Holder, int] = defaultdict(int)
    for key, parts in cut.parts.items():
        by_holder[key.holder] += parts
    for key, parts in whole.parts.items():
        assert by_holder[key.holder] == parts
