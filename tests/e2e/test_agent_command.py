"""`wattledger-agent` as an operator runs it: a recorded machine in place of cards, real processes, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from wattledger_agent.trace import TraceItem, write_trace
from wattledger_schemas import Codec

from tests.unit.agent_batches import wire_batch

CODEC = Codec()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a recorded machine of two cards and a configuration that reads it."""
    item = TraceItem(wire_batch_end(), "gpu-samples", "n1", CODEC.encode("sample_batch", wire_batch()))
    write_trace(tmp_path / "machine.jsonl", [item])
    (tmp_path / "agent.toml").write_text(
        f"""
node = "n1"
site = "fra1"
http_port = 0
[kafka]
bootstrap = "127.0.0.1:1"
[wal]
path = "{tmp_path / "state" / "agent.wal"}"
[sampling]
probes = ["trace"]
trace_file = "{tmp_path / "machine.jsonl"}"
period_ms = 100
flush_s = 1
"""
    )
    return tmp_path


def wire_batch_end() -> int:
    return int.from_bytes(wire_batch()["ticks_us"][-8:], "little")


def agent(*args: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wattledger_agent", *map(str, args)],
        capture_output=True, text=True, timeout=90, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "100", **(env or {})},
    )  # fmt: skip


def test_probe_says_each_reading_with_its_unit_or_its_reason(folder: Path) -> None:
    found = agent("probe", "--once", "--json", "--config", folder / "agent.toml")
    assert found.returncode == 0, found.stderr
    [document] = json.loads(found.stdout)
    assert (document["probe"], document["format"], document["available"]) == ("trace", 1, True)
    assert {one["device"] for one in document["devices"]} == {"GPU-0", "GPU-1"}
    text = agent("probe", "--config", folder / "agent.toml").stdout
    assert "GPU-0" in text and max(map(len, text.splitlines())) <= 100


def test_a_recording_plays_back_what_the_machine_said(folder: Path) -> None:
    out = folder / "recorded.jsonl"
    found = agent("record", out, "--duration-s", 4, "--config", folder / "agent.toml")
    assert found.returncode == 0, found.stderr
    items = [json.loads(line) for line in out.read_text().splitlines()]
    assert {"gpu-samples", "job-events"} <= {item["topic"] for item in items}
    assert not list(folder.glob("recorded.jsonl.recording*")), "the log that held it is gone"
    again = agent("record", out, "--config", folder / "agent.toml")
    assert again.returncode == 4 and "is there already" in again.stderr


def test_the_log_is_looked_into_exported_and_verified(folder: Path) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "wattledger_agent", "run", "--config", str(folder / "agent.toml")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    log = folder / "state" / "agent.wal"
    try:
        until_s = time.monotonic() + 30
        while time.monotonic() < until_s:
            found = agent("wal", "status", log, "--json") if log.exists() else None
            if found is not None and found.returncode == 0 and json.loads(found.stdout)["records"] >= 3:
                break
            time.sleep(0.3)
        second = agent("run", "--config", folder / "agent.toml")
        assert second.returncode == 4 and "in use" in second.stderr, "one agent to a log"
    finally:
        started.send_signal(signal.SIGTERM)
        said = started.communicate(timeout=30)[0].decode()
    assert started.returncode == 0, said
    verified = agent("wal", "verify", log)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    exported = agent("wal", "export", log, folder / "kept.jsonl")
    assert exported.returncode == 0, exported.stderr
    subjects = {CODEC.decode(_value(item)).subject for item in _items(folder / "kept.jsonl")}
    assert {"sample_batch", "node_event"} <= subjects


def _items(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _value(item: dict[str, Any]) -> bytes:
    from base64 import b64decode

    return b64decode(item["value"])


def test_doctor_finds_what_is_wrong_and_says_what_to_do(folder: Path) -> None:
    found = agent("doctor", "--json", "--config", folder / "agent.toml")
    assert found.returncode == 1, found.stderr
    checks = {(check["what"], check["state"]): check["detail"] for check in json.loads(found.stdout)["checks"]}
    assert {("probe trace", "ok"), ("log folder", "ok"), ("watchers", "note"), ("kafka", "wrong")} <= set(checks)
    assert "127.0.0.1:1" in checks["kafka", "wrong"]


def test_health_is_served_while_the_broker_is_away(folder: Path) -> None:
    port = 18_000 + os.getpid() % 10_000
    started = subprocess.Popen(
        [sys.executable, "-m", "wattledger_agent", "run", "--config", str(folder / "agent.toml")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "WATTLEDGER_AGENT_HTTP_PORT": str(port)},
    )  # fmt: skip
    try:
        bodies: dict[str, str] = {}
        until_s = time.monotonic() + 30
        while time.monotonic() < until_s and "ready" not in bodies:
            try:
                for page in ("healthy", "ready"):
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/{page}", timeout=5) as answer:
                        bodies[page] = answer.read().decode()
            except OSError:
                time.sleep(0.2)
        assert bodies == {"healthy": "healthy\n", "ready": "ready\n"}
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            metrics = answer.read().decode()
        assert 'wattledger_agent_probe_up{probe="trace"} 1.0' in metrics
        assert "wattledger_agent_last_success_timestamp_seconds" in metrics
    finally:
        started.send_signal(signal.SIGTERM)
        assert started.wait(30) == 0


REFUSED = [
    ("an unknown setting", "nod = 'n1'\n", {}, 4, "nod"),
    ("a wrong value", "[sampling]\nperiod_ms = 10\n", {}, 4, "sampling.period_ms"),
    ("no TOML", "node = \n", {}, 4, "agent.toml"),
    ("a wrong variable", "", {"WATTLEDGER_AGENT_HTTP_PORT": "x"}, 4, "http_port"),
    ("a trace that is not named", "[sampling]\nprobes = ['trace']\n", {}, 4, "trace_file"),
]


@pytest.mark.parametrize(("text", "env", "code", "said"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_is_configured_wrongly_is_refused_by_name(
    tmp_path: Path, text: str, env: dict[str, str], code: int, said: str
) -> None:
    config = tmp_path / "agent.toml"
    config.write_text(text)
    found = agent("run", "--config", config, env={"WATTLEDGER_AGENT_WAL__PATH": str(tmp_path / "a.wal"), **env})
    assert (found.returncode, said in found.stderr) == (code, True), found.stderr
    assert "Traceback" not in found.stderr
