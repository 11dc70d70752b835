"""The player's pace, on a clock that only moves when slept on; delivery goes to the mock cluster."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.player import Pace, Player
from wattledger_agent.publisher import Publisher
from wattledger_agent.trace import TraceItem
from wattledger_agent.wal import Wal

from tests.unit.agent_mock_broker import MockBroker, mock_broker

S = 1_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[MockBroker]:
    with mock_broker() as found:
        yield found


class Stage:
    """A player whose clock tells when each item was asked for."""

    def __init__(self, folder: Path, broker: MockBroker, pace: Pace) -> None:
        self.clock = ManualClock()
        self.wal = Wal(folder / "a.wal")
        self.publisher = Publisher(self.wal, broker.kafka)
        self.player = Player(self.wal, self.publisher, self.clock, pace)
        self.asked_s: list[float] = []

    def items(self, *seconds: int) -> Iterator[TraceItem]:
        for second in seconds:
            yield TraceItem(second * S, "job-events", f"k{second}", b"%d;" % second)
            self.asked_s.append(self.clock.monotonic_s())


@pytest.mark.parametrize(
    ("speed", "expected_s"), [(1.0, [0, 10, 30]), (10.0, [0, 1, 3]), (None, [0, 0, 0])], ids=["real", "x10", "no limit"]
)
def test_event_time_over_wall_time_is_the_speed(
    tmp_path: Path, broker: MockBroker, speed: float | None, expected_s: list[float]
) -> None:
    stage = Stage(tmp_path, broker, Pace(speed))
    stage.publisher.start()
    played = stage.player.play(stage.items(100, 110, 130))
    assert stage.asked_s == pytest.approx(expected_s, abs=0.01)
    assert (played.records, played.last_at_us, stage.wal.count()) == (3, 130 * S, 0)


def test_everything_is_delivered_when_play_returns_and_offsets_say_where_it_ends(
    tmp_path: Path, broker: MockBroker
) -> None:
    before = {partition: len(values) for partition, values in broker.read("job-events").items()}
    stage = Stage(tmp_path, broker, Pace(None))
    stage.publisher.start()
    played = stage.player.play(stage.items(*range(1300)))
    after = {partition: len(values) for partition, values in broker.read("job-events").items()}
    assert sum(after.values()) - sum(before.values()) == 1300
    # partition 0 begins with a record of the mock itself
    assert {p: offset + (p > 0) for (_, p), offset in played.last_offset.items()} == after


def test_play_stays_within_the_lead_over_what_is_confirmed(tmp_path: Path, broker: MockBroker) -> None:
    confirmed = [None, None, 100 * S, 100 * S, 160 * S, 300 * S]
    seen: list[tuple[int, int]] = []
    stage = Stage(tmp_path, broker, Pace(None, lambda: confirmed[min(len(seen), 5)], 50 * S))

    def items() -> Iterator[TraceItem]:
        for item in stage.items(100, 140, 151, 200, 212, 340):
            yield item
            seen.append((item.at_us, max(confirmed[min(len(seen), 5)] or 0, 100 * S)))

    def move() -> None:
        # downstream marks on while the player waits
        while not stage.player.stop.wait(0.01):
            confirmed[:] = [(value or 100 * S) + 5 * S for value in confirmed]

    mover = threading.Thread(target=move)
    mover.start()
    stage.publisher.start()
    played = stage.player.play(items())
    stage.player.stop.set()
    mover.join()
    assert played.records == 6
    assert [at_us - confirmed_us for at_us, confirmed_us in seen if at_us - confirmed_us > 50 * S] == []
    assert stage.clock.now_us > 0


def test_a_wait_makes_what_was_taken_durable_within_the_group_time(tmp_path: Path, broker: MockBroker) -> None:
    stage = Stage(tmp_path, broker, Pace(1.0))
    kept: list[tuple[float, int]] = []
    sleep = stage.clock.sleep

    def watched(seconds: float) -> None:
        sleep(seconds)
        kept.append((stage.clock.monotonic_s(), stage.wal.count()))

    stage.clock.sleep = watched  # type: ignore[method-assign]
    stage.player.play(stage.items(0, 60))
    assert next(at_s for at_s, count in kept if count == 1) <= 0.71


def test_stopping_ends_play_early_and_delivers_what_was_taken(tmp_path: Path, broker: MockBroker) -> None:
    stage = Stage(tmp_path, broker, Pace(None))
    stage.publisher.start()

    def items() -> Iterator[TraceItem]:
        yield from stage.items(1, 2)
        stage.player.stop.set()
        yield from stage.items(3)

    assert stage.player.play(items()).records == 2
    assert stage.wal.count() == 0


def test_a_source_that_breaks_leaves_what_was_taken_in_the_log(tmp_path: Path, broker: MockBroker) -> None:
    stage = Stage(tmp_path, broker, Pace(1.0))

    def items() -> Iterator[TraceItem]:
        yield from stage.items(1, 3)
        raise ValueError("line 3")

    with pytest.raises(ValueError, match="line 3"):
        stage.player.play(items())
    assert stage.wal.count() == 1
