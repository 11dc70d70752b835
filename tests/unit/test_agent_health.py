"""Health pages over real HTTP, and what systemd is told over a real socket."""

import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.health import HealthServer, Pulse, answer
from wattledger_agent.notify import Notifier


@pytest.fixture
def served() -> Iterator[tuple[Pulse, ManualClock, int]]:
    clock = ManualClock(1_000_000_000)
    pulse = Pulse(clock, limit_s=30)
    server = HealthServer("127.0.0.1", 0, lambda path: answer(path, pulse, "9.9"))
    yield pulse, clock, server.port
    server.close()


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def test_it_is_healthy_while_the_loops_turn_whatever_they_read(served: tuple[Pulse, ManualClock, int]) -> None:
    pulse, clock, port = served
    pulse.beat("sampler")
    pulse.beat("watcher-slurm")
    clock.sleep(29)
    assert get(port, "/-/healthy") == (200, "healthy\n")
    pulse.beat("sampler")
    clock.sleep(2)
    assert get(port, "/healthz") == (503, "not turning: watcher-slurm\n")


def test_it_is_ready_when_a_tick_is_in_the_log(served: tuple[Pulse, ManualClock, int]) -> None:
    pulse, _, port = served
    assert get(port, "/-/ready")[0] == 503
    pulse.ready = True
    assert get(port, "/readyz") == (200, "ready\n")


def test_metrics_and_version_are_served_and_nothing_else(served: tuple[Pulse, ManualClock, int]) -> None:
    _, _, port = served
    status, text = get(port, "/metrics")
    assert status == 200 and "# TYPE wattledger_agent_ticks_total counter" in text
    assert get(port, "/version?x=1") == (200, '{"version": "9.9"}')
    assert get(port, "/../etc/passwd")[0] == 404


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told(tmp_path: Path, abstract: bool) -> None:
    name = f"@wattledger-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name[1:]}" if abstract else name)
        listener.settimeout(5)
        notifier = Notifier(name)
        notifier.ready()
        notifier.alive()
        notifier.status("8 devices")
        notifier.stopping()
        told = [listener.recv(200) for _ in range(4)]
    assert told == [b"READY=1", b"WATCHDOG=1", b"STATUS=8 devices", b"STOPPING=1"]


def test_without_systemd_nothing_is_told_and_nothing_fails(tmp_path: Path) -> None:
    Notifier("").ready()
    Notifier(str(tmp_path / "nobody")).ready()
