"""An agent killed at every point of its loop, frozen and thawed, on a real broker: every durable tick arrives, in
batches that tile time, none of them twice."""

import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from wattledger_agent.wal import Wal
from wattledger_agent.wal_commands import OK, verify_answer
from wattledger_audit.broker import Broker
from wattledger_streams.topics import create_topics

from tests import agent_loop_driver
from tests.agent_delivery import Arrived, arrived
from tests.agent_loop_driver import FLUSH, POINTS, T0, S

pytestmark = [pytest.mark.kafka, pytest.mark.quick]
RANDOM_KILLS = 4
MOST_TICKS = 5000


@pytest.fixture
def kafka(broker: Broker, topic_prefix: str) -> dict[str, str]:
    found = {"bootstrap.servers": broker.bootstrap}
    create_topics(found, topic_prefix, partitions=1)
    return found


class Said:
    """What an agent said that is durable."""

    def __init__(self) -> None:
        self.ticks: set[int] = set()
        self.batches = 0
        self.ended = False

    def take(self, lines: str) -> None:
        for line in lines.splitlines(keepends=True):
            words = line.split()
            if line.endswith("\n") and words[0] == "T":
                self.ticks.add(int(words[1]))
            elif line.endswith("\n") and words[0] == "B":
                self.batches += 1
            elif line == "E\n":
                self.ended = True


def start(path: Path, kafka: dict[str, str], prefix: str, ticks: int, die_at: str = "-") -> "subprocess.Popen[str]":
    program = str(Path(agent_loop_driver.__file__))
    args = [sys.executable, program, str(path), kafka["bootstrap.servers"], prefix, str(ticks), die_at]
    return subprocess.Popen([*args, os.pathsep.join(sys.path)], stdout=subprocess.PIPE, text=True)


def assert_delivered(found: Arrived, said: Said, seed: int) -> None:
    """Every durable tick, each pair of neighbours in one batch only, and no gap record."""
    batches = sorted(found.batches(), key=lambda batch: bytes(batch["ticks_us"][:8][::-1]))
    times = [
        [int.from_bytes(batch["ticks_us"][n : n + 8], "little") for n in range(0, len(batch["ticks_us"]), 8)]
        for batch in batches
    ]
    for one, other in pairwise(times):
        assert other[0] == one[-1], f"seed {seed}: batches do not tile"
    pairs = [pair for one in times for pair in pairwise(one)]
    assert pairs == [(T0 + n * S, T0 + (n + 1) * S) for n in range(1, len(pairs) + 1)], f"seed {seed}: twice or missing"
    last_us = times[-1][-1]
    # what is younger than the last batch waits in the journal
    assert {at_us for at_us in said.ticks if at_us <= last_us} == {at_us for one in times for at_us in one}
    assert max(said.ticks) - last_us <= FLUSH * S
    assert found.gaps == []


@pytest.mark.fault(
    1,
    "agent SIGKILLed at every point of its loop and at random",
    "every durable tick arrives, in batches that tile time",
)
def test_killed_at_every_point_of_the_loop_no_durable_tick_is_missing_and_none_is_counted_twice(
    tmp_path: Path, kafka: dict[str, str], topic_prefix: str, seen: Callable[[str], None]
) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    path, said = tmp_path / "a.wal", Said()
    kills = [f"{point}:{rng.randint(1, 8)}" for point in POINTS] + ["-"] * RANDOM_KILLS
    rng.shuffle(kills)
    died = 0
    for die_at in kills:
        with start(path, kafka, topic_prefix, MOST_TICKS, die_at) as child:
            assert child.stdout is not None
            first = child.stdout.readline()
            if die_at == "-":
                time.sleep(rng.uniform(0, 0.3))
                child.send_signal(signal.SIGKILL)
            said.take(first + child.stdout.read())
        died += child.returncode == -signal.SIGKILL
        with_journal = Wal(path)
        open_us = [int(value) for _, value in with_journal.open_ticks()]
        with_journal.close()
        # a tick that is in the log though it was not yet said so: the kill came between
        said.ticks |= set(open_us)
        assert verify_answer(path).exit_code == OK, f"seed {seed}, {die_at}: {verify_answer(path).text}"
    assert died == len(kills), f"seed {seed}: {died} of {len(kills)} kills came in time"
    with start(path, kafka, topic_prefix, 3 * FLUSH) as child:
        said.take(child.communicate(timeout=60)[0])
    assert said.ended and said.batches > 10
    assert_delivered(arrived(kafka, topic_prefix, "gpu-samples"), said, seed)
    seen(f"seed {seed}: {died} kills, {len(said.ticks)} ticks durable, all of them delivered once")


@pytest.mark.fault(
    6, "agent stopped twice, a second agent started on its log", "the second is refused, no number is used twice"
)
def test_frozen_and_thawed_it_goes_on_where_it_was_and_a_second_agent_on_its_log_is_refused(
    tmp_path: Path, kafka: dict[str, str], topic_prefix: str, seen: Callable[[str], None]
) -> None:
    said = Said()
    with start(tmp_path / "a.wal", kafka, topic_prefix, 300) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        for _ in range(2):
            time.sleep(0.1)
            child.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            child.send_signal(signal.SIGCONT)
        child.send_signal(signal.SIGSTOP)
        second = start(tmp_path / "a.wal", kafka, topic_prefix, 10)
        assert second.communicate(timeout=30)[0] == "" and second.returncode != 0
        child.send_signal(signal.SIGCONT)
        said.take(first + child.stdout.read())
    assert said.ended and len(said.ticks) == 300
    assert_delivered(arrived(kafka, topic_prefix, "gpu-samples"), said, 0)
    seen(f"second agent ended with {second.returncode}; {len(said.ticks)} ticks of the first, all delivered once")
