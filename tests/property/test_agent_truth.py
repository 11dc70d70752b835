"""The agent against the truth: a simulated machine on which everything goes wrong, and a judge that shares no rule with
it. No joule is said that was not drawn, none twice; what is not known is said to be so; holds begin and end when they
did. A failure names its seed: `Script(seed, folder)` is the same machine again."""

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog
from wattledger_agent.stamps import MOST_BRIDGED_US

from tests.agent_judge import Judge
from tests.agent_life import Lives
from tests.agent_script import Script
from tests.agent_world import DAY, T0, Card, Killed, Machine, S

SEEDS = 16
IN_ONE = 8
IN_KIND = 5
LONG_US = 8 * 3600 * S
EVERYTHING = (
    "kill", "kill_at", "stop", "hang", "away", "bug", "driver", "reset", "lose", "miss", "bad_read", "freeze", "mig",
    "reboot", "suspend", "step", "glitch", "slew", "disk", "broker", "flush", "watchers", "latency", "vanish", "absent",
)  # fmt: skip
KINDS = {
    "clocks": ("kill", "step", "glitch", "slew", "suspend", "reboot", "broker"),
    "deaths": ("kill", "kill_at", "stop", "disk", "broker", "absent", "vanish", "reboot"),
    "devices": ("kill", "lose", "miss", "mig", "driver", "reset", "bad_read", "hang", "away", "bug", "freeze"),
    "a damaged log": ("corrupt", "kill", "flush", "broker", "disk"),
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    yield
    structlog.configure(**before)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a file system: thousands of transactions, none of which has to last."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as name:
        yield Path(name)


def wrongs(seed: int, folder: Path, kinds: tuple[str, ...]) -> list[str]:
    """What the judge finds wrong with a seed, and the story that led to it."""
    place = folder / str(seed)
    place.mkdir()
    script = Script(seed, place, kinds)
    script.live()
    found = Judge(script).judge()
    return [f"seed {seed} of {kinds}", *script.lives.story.log, *found[:5]] if found else []


@pytest.mark.parametrize("first", range(0, SEEDS, IN_ONE))
def test_whatever_goes_wrong_what_arrives_is_true(first: int, folder: Path) -> None:
    assert [line for seed in range(first, first + IN_ONE) for line in wrongs(seed, folder, EVERYTHING)] == []


@pytest.mark.parametrize("what", list(KINDS))
def test_misfortunes_of_one_kind_upon_another_leave_what_arrives_true(what: str, folder: Path) -> None:
    first = 100_000
    assert [line for seed in range(first, first + IN_KIND) for line in wrongs(seed, folder, KINDS[what])] == []


class Week:
    """A machine that runs for long without a broker, at a tick each ten seconds; at times the agent is killed."""

    def __init__(self, folder: Path, cards: list[Card], cap_bytes: int) -> None:
        self.machine = Machine(cards, ["nvml"])
        self.lives = Lives(self.machine, folder, random.Random(1), 10_000, 60, cap_bytes)

    def live(self, for_us: int, killed_each_us: int) -> None:
        self.lives.broker_away_until_us = T0 + for_us
        for at_us in range(killed_each_us, for_us, killed_each_us):
            self.machine.after(at_us, self._kill)
        self.machine.after(for_us, self._stop)
        self.lives.live()

    def _kill(self) -> None:
        raise Killed

    def _stop(self) -> None:
        self.lives.is_over = self.lives.stop.is_asked = True


def test_hours_without_a_broker_stay_within_the_log_s_cap_and_leave_gaps(
    folder: Path,
) -> None:
    cap_bytes = 60_000
    week = Week(folder, [Card("GPU-0", [(T0 - 41 * DAY, 300_000)])], cap_bytes)
    week.live(LONG_US, 3100 * S)
    story = week.lives.story
    assert story.most_bytes <= cap_bytes + 20_000
    assert story.most_ticks < 20 and story.most_pending < 5
    sizes = [file.stat().st_size for file in folder.iterdir() if not file.name.endswith(".reserve")]
    assert sum(sizes) < 8 << 20
    batches = [one.record for one in story.arrived if one.record.topic == "gpu-samples"]
    assert 0 < len(batches) < LONG_US // (60 * S)
    assert any(one.record.topic == "dead-letters" for one in story.arrived)


def test_a_machine_without_devices_leaves_an_empty_log(folder: Path) -> None:
    card = Card("GPU-0", [(T0 - 41 * DAY, 300_000)], is_missing=True)
    week = Week(folder, [card], 1 << 30)
    week.live(LONG_US, MOST_BRIDGED_US)
    story = week.lives.story
    assert (story.arrived, story.most_ticks, story.most_bytes) == ([], 0, 0)
