"""Processors, the sink among them, killed with SIGKILL while they work: the facts are the same as without."""

import random
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from wattledger_audit.broker import Broker
from wattledger_audit.demo import play_into, read_client, settle, wait_fresh
from wattledger_audit.settling import Settling, partitions_of
from wattledger_audit.stack import WORKERS, Stack, StackSettings
from wattledger_sql.verify import verify

from tests.pipeline_check import assert_rows_equal_replay, difference, tables
from tests.pipeline_day import emissions

pytestmark = pytest.mark.kafka
KILLS = 10
SPEED = 160.0


def quiet(_: str) -> None:
    """Progress goes nowhere."""


def settings(tmp_path: Path, broker: Broker, prefix: str) -> StackSettings:
    """One partition, so that the order in which revisions come is the same in both runs, and with it every id."""
    return StackSettings(
        tmp_path / prefix, Path(), broker.bootstrap, 1, prefix, future_limit_s=7200, refresh_s=1,
        extra_env={"WATTLEDGER_SESSION_TIMEOUT_S": "2", "WATTLEDGER_TAKE_MAX": "16"},
    )  # fmt: skip


class Killer:
    """Kills workers at moments drawn from the seed, each only while there is work not yet acknowledged."""

    def __init__(self, stack: Stack, seed: int) -> None:
        self._stack = stack
        self._random = random.Random(seed)
        self.killed: list[str] = []
        self.idle_kills = 0
        self._settling = Settling(stack.kafka, stack.settings.topic_prefix, partitions_of(1))
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        # Each processor at least three times; the tenth is drawn too.
        order = [*WORKERS, *WORKERS, *WORKERS, self._random.choice(WORKERS)]
        self._random.shuffle(order)
        for name in order:
            time.sleep(self._random.uniform(0.3, 3.0))
            child = self._stack.workers[name]
            while not child.alive:
                time.sleep(0.05)
            if not self._settling.lag().behind:
                self.idle_kills += 1
            child.kill()
            self.killed.append(name)

    def join(self) -> None:
        self._thread.join()
        self._settling.close()


@pytest.mark.fault(11, f"{KILLS} SIGKILLs of workers at work, at random", "the same rows as without, one by one")
def test_ten_kills_change_no_row(broker: Broker, tmp_path: Path, seen: Callable[[str], None]) -> None:
    seed = secrets.randbelow(10**6)
    print(f"kill seed: {seed}")
    with Stack(settings(tmp_path, broker, "calm.")) as stack:
        play_into(stack, emissions(), quiet)
        settle(stack, quiet)
        client = read_client(stack)
        expected = tables(client)
        client.close()
    with Stack(settings(tmp_path, broker, "killed.")) as stack:
        killer = Killer(stack, seed)
        play_into(stack, emissions(), quiet, SPEED)
        killer.join()
        settle(stack, quiet)
        client = read_client(stack)
        wait_fresh(client)
        got = tables(client)
        assert_rows_equal_replay(stack, client)
        broken = [law for law in verify(client) if not law.ok]
        client.close()
        restarts = stack.restarts
    print(f"killed: {killer.killed}, while idle: {killer.idle_kills}, restarts: {restarts}")
    lines = len(expected["usage_lines"])
    seen(f"seed {seed}: {restarts} restarts, {lines} lines, different rows: {difference(expected, got)}")
    assert len(killer.killed) == KILLS
    assert set(killer.killed) == set(WORKERS)
    assert killer.idle_kills == 0, "a kill while nothing is at work shows nothing"
    assert restarts >= KILLS
    assert len(expected["usage_lines"]) > 2500
    assert difference(expected, got) == {}
    assert broken == []
