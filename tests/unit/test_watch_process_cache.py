"""What is remembered of processes between looks, and when it is read again."""

from pathlib import Path

import pytest
from wattledger_agent.watchers.process_cache import ProcessCache
from wattledger_agent.watchers.process_table import Process, ProcessTable, Unread

from tests.proc_tree import HZ, ProcTree

S = 1_000_000
JOB = "0::/system.slice/slurmstepd.scope/job_1/step_0\n"


@pytest.fixture
def proc(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path / "proc")


@pytest.fixture
def cache(proc: ProcTree) -> ProcessCache:
    return ProcessCache(ProcessTable(proc.root, ticks_per_s=HZ))


def kind(cache: ProcessCache, now_us: int) -> str:
    found = cache.read(5, now_us)
    assert isinstance(found, Process)
    return found.owner.kind


def test_a_young_process_is_read_again_after_two_seconds(proc: ProcTree, cache: ProcessCache) -> None:
    proc.add(5)
    assert kind(cache, 0) == "session"
    proc.add(5, cgroup=JOB)
    assert kind(cache, 2 * S - 1) == "session"
    assert kind(cache, 2 * S) == "slurm"


def test_an_old_process_is_read_again_every_30_seconds(proc: ProcTree, cache: ProcessCache) -> None:
    proc.add(5)
    for second in range(200):
        kind(cache, second * S)
    proc.add(5, cgroup=JOB)
    changed = [second for second in range(200, 240) if kind(cache, second * S) == "slurm"]
    assert len(changed) >= 10
    assert changed == list(range(changed[0], 240))


def test_another_start_time_is_seen_at_once(proc: ProcTree, cache: ProcessCache) -> None:
    proc.add(5, 100)
    kind(cache, 0)
    proc.add(5, 200, cgroup=JOB)
    assert kind(cache, 1) == "slurm"


def test_a_process_that_ended_is_gone_at_once_and_one_that_comes_is_there(proc: ProcTree, cache: ProcessCache) -> None:
    proc.add(5)
    kind(cache, 0)
    proc.remove(5)
    assert cache.read(5, 1) == Unread(5, "gone")
    proc.add(5)
    assert kind(cache, 2) == "session"


def test_within_one_instant_nothing_changes(proc: ProcTree, cache: ProcessCache) -> None:
    proc.add(5)
    before = cache.read(5, 7)
    proc.remove(5)
    assert cache.read(5, 7) is before


def test_a_clock_that_is_set_back_has_it_read_again(proc: ProcTree, cache: ProcessCache) -> None:
    proc.add(5)
    kind(cache, 100 * S)
    proc.add(5, cgroup=JOB)
    assert kind(cache, 50 * S) == "slurm"


def test_the_memory_is_bounded(proc: ProcTree, cache: ProcessCache) -> None:
    for pid in range(1, 6000):
        cache.read(pid, 0)
    assert len(cache._known) <= 4096
