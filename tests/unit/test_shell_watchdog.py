"""The watchdog ends a worker whose loop no longer beats, and leaves one alone that does."""

import threading
import time

from wattledger_streams.crash import Watchdog

LIMIT_S = 0.4
GENEROUS_S = 20.0


def test_a_worker_that_does_not_beat_is_ended() -> None:
    ended = threading.Event()
    watchdog = Watchdog(LIMIT_S, ended.set)
    watchdog.start()
    assert ended.wait(GENEROUS_S)


def test_a_worker_that_beats_is_left_alone_until_it_stops_beating() -> None:
    ended = threading.Event()
    watchdog = Watchdog(30 * LIMIT_S, ended.set)
    watchdog.start()
    until_s = time.monotonic() + 5 * LIMIT_S
    while time.monotonic() < until_s:
        watchdog.beat()
        time.sleep(0.01)
    beaten = ended.is_set()
    assert not beaten
    assert ended.wait(GENEROUS_S + 30 * LIMIT_S)


def test_a_stopped_watchdog_ends_nothing() -> None:
    ended = threading.Event()
    watchdog = Watchdog(LIMIT_S, ended.set)
    watchdog.start()
    watchdog.stop()
    assert not ended.wait(3 * LIMIT_S)


def test_a_limit_of_zero_switches_it_off() -> None:
    ended = threading.Event()
    Watchdog(0, ended.set).start()
    assert not ended.wait(LIMIT_S)
