"""When a worker counts as stalled: by tables of what it did and what the broker shows, look after look."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
from wattledger_streams.guard import longest
from wattledger_streams.progress import Jump, Progress, Seen
from wattledger_streams.stall import COMMIT, FETCH, BrokerView, Stall, StallRule, Unowned

PLACE = ("job-events", 0)
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class At:
    """One look: the worker's next offsets, and the broker's view."""

    now_s: float
    received: int | None = None
    acknowledged: int | None = None
    committed: int | None = None
    end: int = 0
    idle_s: float = 0.0
    generation: int = 1
    owned: bool = True
    start: int = 0


def stalls(*looks: At | None) -> list[Stall]:
    """What a rule says after these looks; None is a look at which the broker did not answer."""
    rule, found = StallRule(LIMIT_S), []
    for at in looks:
        if at is None:
            rule.broker_away()
            continue
        seen = Seen(
            at.generation,
            frozenset({PLACE} if at.owned else ()),
            {} if at.received is None else {PLACE: at.received},
            {} if at.acknowledged is None else {PLACE: at.acknowledged},
            at.idle_s,
        )
        found += rule.stalls(rule.waits(at.now_s, seen, {PLACE: BrokerView(at.committed, at.start, at.end)}))
    return found


ACKED = At(0, received=10, acknowledged=10, committed=4, end=10)
BEHIND = At(0, received=10, acknowledged=10, committed=10, end=15)


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        pytest.param([ACKED, replace(ACKED, now_s=61)], (COMMIT, 10), id="acknowledged and never committed"),
        pytest.param(
            [replace(ACKED, committed=None), replace(ACKED, now_s=61, committed=None)], (COMMIT, 10), id="new"
        ),
        pytest.param([ACKED, replace(ACKED, now_s=59)], None, id="not for so long"),
        pytest.param(
            [ACKED, replace(ACKED, now_s=30, committed=10), replace(ACKED, now_s=61)], None, id="committed once"
        ),
        pytest.param(
            [ACKED, replace(ACKED, now_s=30, acknowledged=20, committed=10), replace(ACKED, now_s=61, acknowledged=30)],
            None,
            id="commits arrive, always a little behind",
        ),
        pytest.param(
            [ACKED, replace(ACKED, now_s=30, acknowledged=20), replace(ACKED, now_s=61, acknowledged=30)],
            (COMMIT, 10),
            id="acknowledging more does not hide that the first is not committed",
        ),
        pytest.param([ACKED, None, replace(ACKED, now_s=61)], None, id="the broker was away between"),
        pytest.param([ACKED, replace(ACKED, now_s=61, generation=2)], None, id="a rebalance between"),
        pytest.param([ACKED, replace(ACKED, now_s=61, owned=False)], None, id="no longer this worker's"),
        pytest.param([ACKED, replace(ACKED, now_s=61, acknowledged=6)], None, id="read again from before"),
        pytest.param([BEHIND, replace(BEHIND, now_s=70, idle_s=61)], (FETCH, 10), id="there and not delivered"),
        pytest.param(
            [
                replace(BEHIND, received=None, acknowledged=None, committed=None, end=5),
                replace(BEHIND, now_s=70, idle_s=61, received=None, acknowledged=None, committed=None, end=5),
            ],
            (FETCH, 0),
            id="nothing was ever delivered",
        ),
        pytest.param(
            [replace(BEHIND, start=12), replace(BEHIND, start=12, idle_s=61)], (FETCH, 12), id="what is kept of it"
        ),
        pytest.param([BEHIND, replace(BEHIND, now_s=70, idle_s=59)], None, id="busy: it did not ask for so long"),
        pytest.param(
            [replace(BEHIND, acknowledged=9), replace(BEHIND, now_s=70, acknowledged=9, committed=9, idle_s=61)],
            None,
            id="it holds one: waits for marks, or for ClickHouse",
        ),
        pytest.param([replace(BEHIND, end=10), replace(BEHIND, end=10, idle_s=999)], None, id="an idle topic"),
        pytest.param(
            [replace(BEHIND, end=10, idle_s=500), replace(BEHIND, idle_s=900), replace(BEHIND, idle_s=910)],
            None,
            id="idle for long, then a record just came",
        ),
        pytest.param(
            [BEHIND, replace(BEHIND, received=12, acknowledged=12, idle_s=40), replace(BEHIND, received=12, idle_s=90)],
            None,
            id="one came between",
        ),
        pytest.param([BEHIND, None, replace(BEHIND, idle_s=61)], None, id="the broker was away"),
        pytest.param([BEHIND, replace(BEHIND, idle_s=61, owned=False)], None, id="another worker's"),
        pytest.param([replace(BEHIND, end=3), replace(BEHIND, end=3, idle_s=99)], None, id="a broker whose ends lag"),
    ],
)
def test_a_stall_is_told_from_a_wait(looks: list[At | None], expected: tuple[str, int] | None) -> None:
    found = [(stall.kind, stall.offset) for stall in stalls(*looks)]
    assert found == ([] if expected is None else [expected])


def test_the_longest_wait_of_each_kind_is_what_the_metric_shows() -> None:
    waits = [Stall(COMMIT, PLACE, 3, 4.0), Stall(COMMIT, PLACE, 3, 9.0)]
    assert longest(waits) == {COMMIT: 9.0, FETCH: 0.0}
    assert longest([]) == {COMMIT: 0.0, FETCH: 0.0}


def message(offset: int, generation: int = 1, partition: int = 0) -> SimpleNamespace:
    return SimpleNamespace(topic="job-events", partition=partition, offset=offset, generation_id=generation)


def test_the_first_record_of_a_generation_and_every_discontinuity_are_jumps() -> None:
    progress = Progress()
    progress.assigned(1, {PLACE})
    assert progress.received([message(7), message(8), message(9)], 0) == [Jump(PLACE, None, 7)]
    assert progress.received([message(10)], 0) == []
    assert progress.received([message(15), message(16)], 0) == [Jump(PLACE, 11, 15)]
    assert progress.received([message(40, generation=2)], 0) == [Jump(PLACE, None, 40)]
    assert progress.received([message(3, generation=2, partition=1)], 0) == [Jump(("job-events", 1), None, 3)]


def test_a_rebalance_forgets_what_was_received_and_what_an_older_generation_acknowledges() -> None:
    progress = Progress()
    progress.assigned(1, {PLACE})
    progress.received([message(5)], 0)
    progress.acknowledged([message(5)])
    assert (progress.seen(0).received, progress.seen(0).acknowledged) == ({PLACE: 6}, {PLACE: 6})
    progress.revoked()
    assert progress.seen(0).owned == frozenset()
    progress.assigned(2, {PLACE})
    progress.acknowledged([message(5)])
    assert (progress.seen(0).received, progress.seen(0).acknowledged) == ({}, {})


def test_only_long_waits_for_a_take_count_as_idle() -> None:
    progress = Progress()
    assert progress.seen(100).idle_s == 0
    for begin in (100, 102):
        progress.asks(begin)
        progress.received([message(begin)], begin + 0.9)
    assert progress.seen(500).idle_s == 0
    progress.asks(500)
    assert progress.seen(531).idle_s == 30
    progress.received([message(3)], 541)
    assert progress.seen(900).idle_s == 40


def test_a_worker_without_a_partition_waits_from_when_it_lost_the_last_while_the_broker_answers() -> None:
    unowned = Unowned()
    assert [unowned.waited_s(now, owns=False) for now in (100, 130, 161)] == [0, 30, 61]
    assert unowned.waited_s(162, owns=True) == 0
    assert [unowned.waited_s(now, owns=False) for now in (170, 175)] == [0, 5]
    unowned.broker_away()
    assert unowned.waited_s(400, owns=False) == 0
