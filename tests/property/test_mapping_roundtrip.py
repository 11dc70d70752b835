"""Core values through the wire and back: nothing is lost, over the whole range that a field allows."""

from copy import deepcopy
from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from wattledger_core.batch import Batch, InstanceActivity, ProcessActivity, SampledDevice
from wattledger_core.cost import CostRow
from wattledger_core.event import (
    JOB_EVENT_KINDS,
    NODE_EVENT_KINDS,
    Claim,
    InventoryDevice,
    JobEvent,
    NodeEvent,
    Tick,
)
from wattledger_core.line import DeviceTotal, Discrepancy, Line
from wattledger_core.meter import Group
from wattledger_core.price import PRICE_KINDS, Price
from wattledger_core.revision import AllocationRevision, Mark, NodeRevision, Origin
from wattledger_core.threshold import ThresholdEvent
from wattledger_schemas import Codec
from wattledger_streams import mapping
from wattledger_streams.mapping_threshold import from_wire_threshold_event, to_wire_threshold_event

CODEC = Codec()
FEW = settings(max_examples=40, deadline=None)
TEXT = st.text(max_size=8)
NAME = st.text(min_size=1, max_size=8)
TIME = st.integers(0, (1 << 53) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
COUNT = st.integers(0, (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
MONEY = st.decimals(allow_nan=False, allow_infinity=False, places=12, min_value=-(10**20), max_value=10**20)
NARROW = {"attempt", "segment", "index", "minor", "sign", "partition", "cpus"}


def named(made: type[Any], /, **special: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A NamedTuple or dataclass: text, numbers and truth by annotation, the rest as given."""
    hints = made.__annotations__
    plain = {
        "str": TEXT,
        "bool": st.booleans(),
        "int": INT64,
        "int | None": st.none() | INT64,
        "Decimal": MONEY,
        "Decimal | None": st.none() | MONEY,
    }
    drawn = {}
    for name, hint in hints.items():
        text = hint if isinstance(hint, str) else getattr(hint, "__name__", "") if isinstance(hint, type) else str(hint)
        text = text.replace("decimal.", "")
        if name in special:
            drawn[name] = special[name]
        elif name == "sign":
            drawn[name] = st.integers(-128, 127)
        elif name in NARROW:
            drawn[name] = COUNT | st.none() if "None" in text else COUNT
        else:
            drawn[name] = plain[text]
    return st.builds(made, **drawn)


def through(subject: str, record: dict[str, Any]) -> dict[str, Any]:
    decoded = CODEC.decode(CODEC.encode(subject, record))
    assert decoded.subject == subject
    return decoded.record


@st.composite
def shares(draw: st.DrawFn) -> tuple[int, int]:
    den = draw(st.integers(1, (1 << 31) - 1))
    return draw(st.integers(1, den)), den


@st.composite
def spans(draw: st.DrawFn) -> tuple[int, int | None]:
    start = draw(TIME)
    return start, draw(st.none() | st.integers(start, (1 << 53) - 1))


def with_share(value: Any, share: tuple[int, int]) -> Any:
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    return type(value)(**{**parts, "share_num": share[0], "share_den": share[1]})


def with_span(value: Any, span: tuple[int, int | None]) -> Any:
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    return type(value)(**{**parts, "start_us": span[0], "end_us": span[1]})


CLAIMS = st.builds(with_share, named(Claim, node=NAME, device=NAME), shares())
INVENTORY = st.lists(named(InventoryDevice, device=NAME, slices=st.integers(1, 100)), max_size=3).map(tuple)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
ORIGINS = st.builds(Origin, COUNT, INT64, COUNT)
JOB_EVENTS = named(
    JobEvent, event_id=NAME, job=NAME, kind=st.sampled_from(JOB_EVENT_KINDS), at_us=TIME,
    claims=st.lists(CLAIMS, max_size=3).map(tuple),
)  # fmt: skip
NODE_EVENTS = st.builds(
    with_span,
    named(
        NodeEvent, event_id=NAME, node=NAME, kind=st.sampled_from(NODE_EVENT_KINDS), at_us=TIME, devices=INVENTORY,
        reserved_devices=TEXTS,
    ),
    spans() | st.tuples(st.none(), st.none() | TIME),
)  # fmt: skip
ALLOCATIONS = st.builds(
    with_share, st.builds(with_span, named(AllocationRevision, origin=ORIGINS, marks=TEXTS), spans()), shares()
)
NODE_REVISIONS = st.builds(
    with_span, named(NodeRevision, origin=ORIGINS, marks=TEXTS, devices=INVENTORY, reserved_devices=TEXTS), spans()
)
PRICES = st.builds(
    with_span, named(Price, kind=st.sampled_from(PRICE_KINDS), origin=ORIGINS, known_us=st.just(0)), spans()
)
GROUPS = named(
    Group, lines=st.lists(named(Line), max_size=2), totals=st.lists(named(DeviceTotal), max_size=2),
    discrepancies=st.lists(named(Discrepancy), max_size=2),
)  # fmt: skip


@FEW
@given(JOB_EVENTS)
def test_a_job_event_comes_back(event: JobEvent) -> None:
    assert mapping.from_wire_job_event(through("job_event", mapping.to_wire_job_event(event))) == event


@FEW
@given(NODE_EVENTS)
def test_a_node_event_comes_back(event: NodeEvent) -> None:
    assert mapping.from_wire_node_event(through("node_event", mapping.to_wire_node_event(event))) == event


@FEW
@given(st.builds(Tick, TIME, TEXTS))
def test_a_tick_comes_back(tick: Tick) -> None:
    assert mapping.from_wire_tick(through("tick", mapping.to_wire_tick(tick))) == tick


@FEW
@given(ALLOCATIONS)
def test_an_allocation_revision_comes_back(revision: AllocationRevision) -> None:
    record = through("allocation_revision", mapping.to_wire_allocation_revision(revision))
    assert mapping.from_wire_allocation_record("allocation_revision", record) == revision


@FEW
@given(NODE_REVISIONS)
def test_a_node_revision_comes_back(revision: NodeRevision) -> None:
    record = through("node_revision", mapping.to_wire_node_revision(revision))
    assert mapping.from_wire_allocation_record("node_revision", record) == revision


@FEW
@given(st.builds(Mark, ORIGINS, TIME, TEXTS))
def test_a_mark_comes_back(mark: Mark) -> None:
    record = through("mark", mapping.to_wire_mark(mark))
    assert mapping.from_wire_allocation_record("mark", record) == mark


@FEW
@given(PRICES, COUNT, st.integers(0, 1 << 40))
def test_a_price_comes_back_and_is_named_by_its_place(price: Price, partition: int, offset: int) -> None:
    record = through("price", mapping.to_wire_price(price))
    found = mapping.from_wire_price(record, partition, offset)
    kept = [field.name for field in fields(Price) if field.name not in ("revision_id", "origin", "known_us")]
    assert [getattr(found, name) for name in kept] == [getattr(price, name) for name in kept]
    assert found.origin == Origin(partition, offset)
    assert found.revision_id != mapping.from_wire_price(record, partition, offset + 1).revision_id


@FEW
@given(GROUPS)
def test_a_group_comes_back(group: Group) -> None:
    assert mapping.from_wire_usage_lines(through("usage_lines", mapping.to_wire_usage_lines(group))) == group


@FEW
@given(st.lists(named(CostRow), max_size=3))
def test_cost_rows_come_back_with_every_digit_and_without_a_cost(rows: list[CostRow]) -> None:
    record = through("tenant_cost", mapping.to_wire_tenant_cost("acme", 0, 900, rows))
    assert mapping.from_wire_tenant_cost(deepcopy(record)) == rows
    digits = [[None if value is None else f"{value:f}" for value in (row.rate, row.pue, row.cost)] for row in rows]
    assert [[record["rows"][i][name] for name in ("rate", "pue", "cost")] for i in range(len(rows))] == digits


@FEW
@given(named(ThresholdEvent))
def test_a_threshold_event_comes_back(event: ThresholdEvent) -> None:
    record = through("threshold_event", to_wire_threshold_event(event))
    assert from_wire_threshold_event(record) == event


def _column(rng: np.random.Generator, shape: tuple[int, ...], top: int) -> tuple[Any, Any]:
    return rng.integers(0, top, shape), rng.random(shape) < rng.choice([0.0, 0.5, 1.0])


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Batches with resets, holes, columns that are all invalid, activity columns of both kinds."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    d, n = draw(st.integers(1, 4)), draw(st.integers(2, 40))
    ticks = draw(st.integers(0, 1 << 50)) + np.cumsum(rng.integers(1, 10**9, n))
    devices = tuple(
        SampledDevice(
            f"GPU-{i}", i, draw(TEXT), i, "H100", "570", draw(TEXT), "mig", "epoch", draw(st.integers(0, n)),
            draw(st.none() | st.integers(0, 10**6)), draw(st.integers(1, 8)),
            tuple(InstanceActivity(str(k), k + 1, *_column(rng, (n,), 10**6)) for k in range(draw(st.integers(0, 2)))),
            tuple(ProcessActivity("c", draw(TEXT), *_column(rng, (n,), 10**6)) for _ in range(draw(st.integers(0, 2)))),
        )
        for i in range(d)
    )  # fmt: skip
    power, counter, busy = (_column(rng, (d, n), top) for top in (1 << 31, 1 << 50, 10**6 + 1))
    return Batch("n1", "fra1", "a", "b", draw(st.integers(0, 1 << 40)), 10**6, ticks, devices, *power, *counter, *busy)


def same_cells(one: Any, one_valid: Any, other: Any, other_valid: Any) -> bool:
    """Same validity, and same values where valid."""
    return np.array_equal(one_valid, other_valid) and np.array_equal(one[one_valid], other[other_valid])


@FEW
@given(batches())
def test_a_batch_comes_back_in_every_valid_cell(batch: Batch) -> None:
    found = mapping.from_wire_batch(through("sample_batch", mapping.to_wire_batch(batch)))
    assert found.ticks_us.tolist() == batch.ticks_us.tolist()
    assert same_cells(found.power_mw, found.power_valid, batch.power_mw, batch.power_valid)
    assert same_cells(found.busy_ppm, found.busy_valid, batch.busy_ppm, batch.busy_valid)
    assert np.array_equal(found.counter_valid, batch.counter_valid)
    for d, (got, given_device) in enumerate(zip(found.devices, batch.devices, strict=True)):
        # counters come back relative to their first valid reading, as the core says
        valid = batch.counter_valid[d]
        readings = batch.counter_uj[d][valid]
        assert found.counter_uj[d][valid].tolist() == (readings - readings[:1]).tolist()
        names = [field.name for field in fields(SampledDevice) if field.name not in ("instances", "processes")]
        assert [getattr(got, name) for name in names] == [getattr(given_device, name) for name in names]
        for one, other in zip(got.instances, given_device.instances, strict=True):
            assert (one.gpu_instance, one.slices) == (other.gpu_instance, other.slices)
            assert same_cells(one.activity_ppm, one.valid, other.activity_ppm, other.valid)
        for mine, theirs in zip(got.processes, given_device.processes, strict=True):
            assert (mine.cluster, mine.job) == (theirs.cluster, theirs.job)
            assert same_cells(mine.sm_ppm, mine.valid, theirs.sm_ppm, theirs.valid)


def test_a_power_reading_beyond_the_column_becomes_invalid_not_an_error() -> None:
    power = np.array([[1 << 31, 5]])
    good, nothing = np.ones((1, 2), dtype=np.bool_), np.zeros((1, 2), dtype=np.int64)
    device = SampledDevice("GPU-0", 0, "", 0, "H100", "", "", "exclusive", "e", 0, None)
    given_batch = Batch("n", "", "", "", 0, 1, np.array([1, 2]), (device,), power, good, nothing, good, nothing, good)
    found = mapping.from_wire_batch(mapping.to_wire_batch(given_batch))
    assert found.power_valid.tolist() == [[False, True]]
