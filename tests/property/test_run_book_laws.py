"""Laws of the run book: repeats, restarts and the order of sources change nothing; each start is ended at most once."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from wattledger_agent.run_book import RunBook
from wattledger_agent.watchers.run import BY_UNKNOWN, DeviceRef, Finding, Held, Run, Sighting

from tests.run_sightings import CARDS, S, held, sessions

SOURCES = {"slurm": False, "containers": True, "kubernetes": True}
HOLDS = (held("GPU-0"), held("GPU-1"), held("GPU-0", "GPU-1"), (Held(DeviceRef("uuid", "GPU-0"), 1, 4, "time_sliced"),))
CLOSING = ("end", "requeue")

Told = tuple[str, Sighting]


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, list[Sighting]]:
    """What really happened, as each source saw it at its own looks: its sightings in the order of time."""
    seen: dict[str, list[Sighting]] = {}
    for source, is_snapshot in SOURCES.items():
        jobs = [draw(_jobs(source, number)) for number in range(draw(st.integers(0, 3)))]
        looks = sorted(draw(st.sets(st.integers(1, 60), max_size=8)))
        before = 0
        seen[source] = []
        for look in looks:
            runs = tuple(run for job in jobs if (run := _seen(job, before, look)) is not None)
            finding = (Finding(source, "odd", f"at {look}"),) if look % 7 == 0 else ()
            seen[source].append(Sighting(look * S, runs, is_snapshot, look * S, finding))
            before = look
    return seen


@st.composite
def _jobs(draw: st.DrawFn, source: str, number: int) -> dict[str, Any]:
    start = draw(st.integers(1, 50))
    return {
        "source": source,
        "job": f"{source}-{number}",
        "start": start,
        "end": start + draw(st.integers(0, 40)),
        "suspended": draw(st.sets(st.integers(1, 60), max_size=3)),
        "hold": draw(st.sampled_from(HOLDS)),
        "moves_at": draw(st.integers(1, 60)),
        "hold_then": draw(st.sampled_from(HOLDS)),
        "tenant_from": draw(st.integers(1, 60)),
        "tells_end": draw(st.booleans()) or not SOURCES[source],
    }


def _seen(job: dict[str, Any], before: int, look: int) -> Run | None:
    ended = job["end"] if job["end"] <= look else None
    if job["start"] > look or (ended is not None and (ended <= before or not job["tells_end"])):
        return None
    return Run(
        job["source"], "c1", job["job"], 0, job["start"] * S,
        job["hold_then"] if look >= job["moves_at"] else job["hold"], None if ended is None else ended * S,
        is_suspended=ended is None and look in job["suspended"],
        outcome="" if ended is None else "COMPLETED", tenant="acme" if look >= job["tenant_from"] else "",
    )  # fmt: skip


def tell(order: list[Told], restarts: frozenset[int] = frozenset()) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Events and findings of a book that is told the sightings, and restarted before those of `restarts`."""
    book = RunBook("n1", "boot")
    events, findings = [], []
    for place, (source, sighting) in enumerate(order):
        if place in restarts:
            kept = book.dump()
            book = RunBook("n1")
            book.load(kept)
            assert book.booted("boot").events == []
        observed = book.observe(source, sighting, CARDS, sighting.at_us)
        events += observed.events
        findings += observed.findings
    return events, findings


def in_time(world: dict[str, list[Sighting]]) -> list[Told]:
    told = [(source, sighting) for source, sightings in world.items() for sighting in sightings]
    return sorted(told, key=lambda one: (one[1].at_us, one[0]))


@settings(max_examples=150, deadline=None)
@given(worlds(), st.data())
def test_repeats_restarts_and_the_order_of_sources_give_the_same_events(
    world: dict[str, list[Sighting]], data: st.DataObject
) -> None:
    expected, _ = tell(in_time(world))
    queues = {source: list(sightings) for source, sightings in world.items()}
    order: list[Told] = []
    while any(queues.values()):
        source = data.draw(st.sampled_from([name for name, queue in queues.items() if queue]))
        order.append((source, queues[source].pop(0)))
        if data.draw(st.booleans()):
            order.append(data.draw(st.sampled_from(order)))
    restarts = data.draw(st.frozensets(st.integers(0, max(len(order), 1))))
    events, findings = tell(order, restarts)
    assert {e["event_id"]: e for e in events} == {e["event_id"]: e for e in expected}
    assert len(events) == len(expected)
    assert [f for f in findings if f.reason == "odd"].count(Finding("slurm", "odd", "at 7")) <= 1


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_a_run_s_events_are_in_order_and_what_sessions_hold_is_what_happened(world: dict[str, list[Sighting]]) -> None:
    events, _ = tell(in_time(world))
    by_run: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_run.setdefault(event["job"], []).append(event)
    for mine in by_run.values():
        news = [e for e in mine if e["kind"] != "start" or e is mine[0]]
        assert news[0]["kind"] == "start"
        assert [e["at_us"] for e in news] == sorted(e["at_us"] for e in news)
        assert [e["kind"] for e in news].count("end") <= 1
        assert all(e["kind"] != "end" for e in news[:-1])
        assert all(e["at_us"] == mine[0]["at_us"] for e in mine if e["kind"] == "start")
    for allocation in sessions(events):
        mine = by_run[allocation.job]
        tenants = [e["tenant"] for e in mine if e["kind"] == "start"]
        ends = [e["at_us"] for e in mine if e["kind"] == "end"]
        assert allocation.tenant == tenants[-1]
        assert mine[0]["at_us"] <= allocation.start_us
        assert allocation.end_us is not None or not ends
        assert allocation.end_us is None or not ends or allocation.end_us <= ends[0]


def _anything(source: str) -> st.SearchStrategy[Told]:
    """Sightings that contradict themselves and one another."""
    runs = st.builds(
        Run,
        source=st.just(source),
        cluster=st.just("c1"),
        job=st.sampled_from(["1", "2"]),
        attempt=st.integers(0, 2),
        started_us=st.integers(-1, 60).map(lambda s: s * S),
        held=st.sampled_from([*HOLDS, (), held("GPU-9"), (Held(DeviceRef(BY_UNKNOWN, "0")),)]),
        ended_us=st.none() | st.integers(0, 900).map(lambda s: s * S),
        stop_requested_us=st.none() | st.integers(0, 60).map(lambda s: s * S),
        released_us=st.none() | st.integers(0, 60).map(lambda s: s * S),
        is_suspended=st.booleans(),
        outcome=st.sampled_from(["", "REQUEUED", "FAILED"]),
        tenant=st.sampled_from(["", "a", "b"]),
    )
    at_us = st.integers(1, 60).map(lambda s: s * S)
    return st.tuples(st.just(source), st.builds(Sighting, at_us, st.lists(runs, max_size=4).map(tuple), st.booleans()))


LIES = st.lists(_anything("slurm") | _anything("containers"), max_size=10)


@settings(max_examples=1500, deadline=None)
@given(LIES, st.frozensets(st.integers(0, 10)))
def test_whatever_sources_say_each_start_is_said_first_and_ended_at_most_once(
    told: list[Told], restarts: frozenset[int]
) -> None:
    events, _ = tell(told, restarts)
    starts: dict[tuple[str, str, int], int] = {}
    ended: set[tuple[str, str, int]] = set()
    for event in events:
        key = (event["source"], event["job"], event["attempt"])
        if event["kind"] == "start":
            assert key not in ended
            assert starts.setdefault(key, event["at_us"]) == event["at_us"]
        assert key in starts
        assert event["at_us"] >= starts[key]
        if event["kind"] in CLOSING and not event["event_id"].startswith("0001-"):
            assert key not in ended
            ended.add(key)
        elif event["kind"] in CLOSING:
            assert key in ended and event["outcome"], "said again with its outcome only"
    assert len({e["event_id"] for e in events}) == len(events)
    assert tell(told)[0] == events
    for source in ("slurm", "containers"):
        sessions([event for event in events if event["source"] == source])
