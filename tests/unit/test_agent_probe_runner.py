"""Probes in threads of their own: one that hangs, raises or goes away costs its own readings and nobody else's."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from wattledger_agent.clock import SystemClock
from wattledger_agent.probe_runner import UNAVAILABLE, ProbeResult, ProbeRunner
from wattledger_agent.probes.device import Device, Inventory
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import TIMED_OUT, DeviceReading, ProbeTick, Reading

CARD = Device("GPU-a", "nvidia", "H100", "590")


class Scripted:
    """A probe whose reads do what the test says."""

    name = "scripted"

    def __init__(self) -> None:
        self.on_read: Callable[[], None] = lambda: None
        self.on_open: Callable[[], None] = lambda: None
        self.changed = False
        self.opened = self.closed = 0

    def open(self) -> None:
        self.on_open()
        self.opened += 1

    def inventory(self) -> Inventory:
        return Inventory((CARD,) * self.opened)

    def read(self) -> ProbeTick:
        self.on_read()
        return ProbeTick((DeviceReading("GPU-a", Reading(self.opened)),), inventory_changed=self.changed)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def probe() -> Scripted:
    return Scripted()


@pytest.fixture
def runner(probe: Scripted) -> Iterator[ProbeRunner]:
    runner = ProbeRunner(probe, SystemClock())
    yield runner
    runner.stop()


def tick(runner: ProbeRunner, wait_s: float = 2.0) -> ProbeResult:
    runner.ask()
    return runner.take(time.monotonic() + wait_s)


def test_a_read_comes_back_with_the_inventory(runner: ProbeRunner) -> None:
    result = tick(runner)
    assert result.tick is not None and result.inventory == Inventory((CARD,))


def test_a_read_that_hangs_is_timed_out_until_it_comes_back(probe: Scripted, runner: ProbeRunner) -> None:
    free = threading.Event()
    tick(runner)

    def hang() -> None:
        free.wait(10)

    probe.on_read = hang
    assert tick(runner, 0.05).reason == TIMED_OUT
    began_s = time.monotonic()
    assert tick(runner, 0.05).reason == TIMED_OUT
    assert time.monotonic() - began_s < 1
    free.set()
    probe.on_read = lambda: None
    results = [tick(runner).tick for _ in range(3)]
    assert results[-1] is not None


def test_what_a_read_of_an_earlier_tick_brings_back_is_the_reading_of_no_tick(
    probe: Scripted, runner: ProbeRunner
) -> None:
    free, reads = threading.Event(), iter(range(100, 200))

    def slow_read() -> ProbeTick:
        value = next(reads)
        if value == 101:
            free.wait(10)
        return ProbeTick((DeviceReading("GPU-a", Reading(value)),))

    probe.read = slow_read  # type: ignore[method-assign]
    assert tick(runner).tick == ProbeTick((DeviceReading("GPU-a", Reading(100)),))
    assert tick(runner, 0.05).reason == TIMED_OUT
    runner.ask()
    free.set()
    assert runner.take(time.monotonic() + 2).tick == ProbeTick((DeviceReading("GPU-a", Reading(102)),))


def test_a_library_that_goes_away_is_opened_again(probe: Scripted, runner: ProbeRunner) -> None:
    def fail() -> None:
        raise ProbeUnavailable("the driver is gone", "load it")

    tick(runner)
    probe.on_read = fail
    result = tick(runner)
    assert (result.tick, result.reason) == (None, UNAVAILABLE)
    assert result.inventory == Inventory((CARD,)), "what is installed is still known"
    assert runner.trouble == "the driver is gone: load it" and runner.lost_since_s is not None
    probe.on_read = lambda: None
    assert tick(runner).reason == UNAVAILABLE, "not tried again at once"
    time.sleep(1.1)
    assert tick(runner).tick == ProbeTick((DeviceReading("GPU-a", Reading(2)),))
    assert runner.trouble == "" and runner.lost_since_s is None


def test_hardware_that_is_not_here_is_no_fault(probe: Scripted, runner: ProbeRunner) -> None:
    def absent() -> None:
        raise ProbeUnavailable("no libnvidia-ml.so.1", absent=True)

    probe.on_open = absent
    assert tick(runner).inventory is None
    assert runner.absent and runner.lost_since_s is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_that_nobody_foresaw_ends_the_thread_and_a_new_one_opens_the_library_anew(
    probe: Scripted, runner: ProbeRunner
) -> None:
    def bug() -> None:
        raise ZeroDivisionError

    tick(runner)
    probe.on_read = bug
    assert tick(runner).reason == UNAVAILABLE
    probe.on_read = lambda: None
    assert tick(runner).tick == ProbeTick((DeviceReading("GPU-a", Reading(2)),))


def test_a_changed_inventory_is_asked_for_before_the_tick_is_used(probe: Scripted, runner: ProbeRunner) -> None:
    tick(runner)
    probe.opened = 3
    assert tick(runner).inventory == Inventory((CARD,)), "nothing said that it changed"
    probe.changed = True
    assert tick(runner).inventory == Inventory((CARD,) * 3)
