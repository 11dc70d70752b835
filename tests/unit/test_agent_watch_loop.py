"""Watchers over a real log: what they see is in it once, with the book's memory, whatever fails in between."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.metrics import WAITING_RUNS
from wattledger_agent.probes.device import Device, Inventory
from wattledger_agent.run_book import RunBook
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import WalUnavailable
from wattledger_agent.watch_loop import BOOK, WatchLog, WatchLoop
from wattledger_agent.watchers.run import BY_UUID, DeviceRef, Finding, Held, Run, Sighting
from wattledger_agent.watchers.watcher import WatcherUnavailable
from wattledger_schemas import Codec

T0 = 1_767_225_600_000_000
CODEC = Codec()
CARDS = Inventory((Device("GPU-a", "nvidia", "H100", "590"),))
RUN = Run("slurm", "c1", "7", 0, T0 - 5, (Held(DeviceRef(BY_UUID, "GPU-a")),), tenant="acme")


class Scripted:
    """A watcher that sees what the test gives it."""

    name = "slurm"

    def __init__(self) -> None:
        self.runs: tuple[Run, ...] = ()
        self.findings: tuple[Finding, ...] = ()
        self.trouble = ""
        self.looks = 0

    def look(self, now_us: int) -> Sighting:
        self.looks += 1
        if self.trouble:
            raise WatcherUnavailable(self.trouble)
        findings, self.findings = self.findings, ()
        return Sighting(now_us, self.runs, is_snapshot=True, findings=findings)

    def close(self) -> None:
        """Nothing to let go of."""


class Node:
    """A log, a book, a watcher; `restart` is what a kill leaves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock(T0)
        self.watcher = Scripted()
        self.start()

    def start(self) -> None:
        self.wal = Wal(self.path)
        book = RunBook("n1")
        kept = self.wal.state(BOOK)
        if kept is not None:
            book.load(kept)
        self.shared = WatchLog(self.wal, book, "n1", CODEC)
        self.loop = WatchLoop(self.watcher, self.shared, lambda: CARDS, self.clock)

    def restart(self) -> None:
        self.wal.close()
        self.start()

    def look(self, *runs: Run) -> float:
        self.watcher.runs = runs
        self.clock.sleep(1)
        return self.loop.step()

    def records(self) -> list[dict[str, Any]]:
        return [CODEC.decode(kept.record.value).record for kept in self.wal.pending(0, 100)]

    def told(self) -> list[str]:
        return [record.get("kind") or record["reason_code"] for record in self.records()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "w.wal")


def test_a_start_and_an_end_are_said_once_over_restarts(node: Node) -> None:
    node.look(RUN)
    node.look(RUN)
    node.restart()
    node.look(RUN)
    assert node.told() == ["start"]
    node.look()
    node.restart()
    node.look()
    assert node.told() == ["start", "end"]
    [start, end] = node.records()
    assert (start["node"], start["claims"][0]["device"], end["at_us"] > start["at_us"]) == ("n1", "GPU-a", True)


def test_a_source_that_does_not_answer_ends_nothing_and_is_asked_less_often(node: Node) -> None:
    node.look(RUN)
    node.watcher.trouble = "the kubelet's socket is gone"
    waits = [node.look() for _ in range(7)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    node.watcher.trouble = ""
    assert node.look(RUN) == 0.0
    assert node.told() == ["start"]


def test_what_the_log_does_not_take_waits_and_nothing_is_looked_at_meanwhile(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **more: object) -> None:
        raise WalUnavailable("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(node.wal, "append", refuse)
        node.look(RUN)
        looks = node.watcher.looks
        assert node.look() > 0 and node.watcher.looks == looks, "a watcher forgets what it told two looks ago"
    assert node.told() == []
    node.look()
    assert node.told() == ["start", "end"]


def test_a_finding_is_a_dead_letter_with_its_reason(node: Node) -> None:
    node.watcher.findings = (
        Finding("slurm", "torn_drop", "prolog-7: cut", b"WATTLEDGER_"),
        Finding("slurm", "no_account", "job 7: no account"),
    )
    node.look()
    letters = node.records()
    assert [(one["reason_code"], one["detail"], one["raw"]) for one in letters] == [
        ("torn_drop", "prolog-7: cut", b"WATTLEDGER_"),
        ("no_account", "job 7: no account", b""),
    ]
    assert {one["source_topic"] for one in letters} == {"agent/n1/slurm"}
    assert len({one["source_offset"] for one in letters}) == 2, "a table keyed by origin keeps both"


def test_a_quiet_node_writes_little(node: Node) -> None:
    node.look(RUN)
    before = node.wal.state(BOOK)
    for _ in range(8):
        node.look(RUN)
    assert node.wal.state(BOOK) == before
    for _ in range(3):
        node.look(RUN)
    assert node.wal.state(BOOK) != before


def test_after_the_clock_was_set_back_an_end_is_still_said(node: Node) -> None:
    node.look(RUN)
    node.clock.step(-3_600_000_000)
    node.look(RUN)
    node.look()
    assert node.told() == ["start", "end"]


def test_a_run_that_waits_for_a_device_is_counted_and_told_once(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = replace(RUN, job="8", held=(Held(DeviceRef(BY_UUID, "GPU-gone")),))
    for _ in range(3):
        node.look(RUN, elsewhere)
    assert node.told() == ["start"]
    assert WAITING_RUNS._value.get() == 1
    assert capsys.readouterr().out.count("runs_wait_for_devices") == 1
