"""`wattledger-agent` as an operator runs it: a recorded machine in place of cards, real processes, exit codes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
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
    assert found.stdout == f"{len(items)} records written to {out}\n", "logs are no part of the answer"


def test_a_recording_without_a_record_is_no_recording(folder: Path) -> None:
    (folder / "machine.jsonl").write_text("")
    out = folder / "recorded.jsonl"
    found = agent("record", out, "--duration-s", 2, "--config", folder / "agent.toml")
    assert found.returncode == 1 and "nothing was recorded" in found.stderr
    assert not list(folder.glob("recorded.jsonl*"))
    away = agent("record", folder / "none" / "x.jsonl", "--config", folder / "agent.toml")
    assert away.returncode == 4 and "is no folder" in away.stderr and not (folder / "none").exists()


def test_a_trace_without_a_record_is_refused(folder: Path) -> None:
    (folder / "empty.jsonl").write_text("")
    found = agent("play", folder / "empty.jsonl", "--speed", 0, "--config", folder / "agent.toml")
    assert found.returncode == 3 and "holds no record" in found.stderr


def test_a_player_that_is_told_to_stop_says_where_the_rest_is(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "wattledger_agent", "play", str(folder / "machine.jsonl"), "--config",
         str(folder / "agent.toml")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, stderr=subprocess.PIPE, text=True,
    ) as started:  # fmt: skip
        until_s = time.monotonic() + 30
        while not (folder / "state" / "agent.wal").exists() and time.monotonic() < until_s:
            time.sleep(0.1)
        time.sleep(1)
        started.send_signal(signal.SIGTERM)
        said = started.communicate(timeout=30)[1]
    assert started.returncode == 130 and str(folder / "state" / "agent.wal") in said, said


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_that_asks_it_to_end_closes_the_open_batch(folder: Path, name: str) -> None:
    log = folder / "state" / "agent.wal"
    with subprocess.Popen(
        [sys.executable, "-m", "wattledger_agent", "run", "--config", str(folder / "agent.toml")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "WATTLEDGER_AGENT_SAMPLING__FLUSH_S": "300"},
        stderr=subprocess.PIPE, text=True,
    ) as started:  # fmt: skip
        until_s = time.monotonic() + 30
        while time.monotonic() < until_s and not _ticks(log):
            time.sleep(0.2)
        started.send_signal(signal.Signals[name])
        said = started.communicate(timeout=30)[1]
    assert started.returncode == 0, said
    events = [json.loads(line)["event"] for line in said.splitlines() if line.startswith("{")]
    assert events[-1] == "agent_stopped" and "agent_started" in events
    kept = {one["topic"] for one in json.loads(agent("wal", "status", log, "--json").stdout)["topics"]}
    assert "gpu-samples" in kept


def _ticks(log: Path) -> int:
    found = agent("wal", "status", log, "--json") if log.exists() else None
    return json.loads(found.stdout)["journal"]["count"] if found is not None and found.returncode == 0 else 0


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
        assert second.returncode == 5 and "in use" in second.stderr, "one agent to a log, and another may wait for it"
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
    ("an unknown setting", "nod = 'n1'\n", {}, 4, "agent.toml, line 1: nod is no setting (is node meant?)"),
    ("a wrong value", "[sampling]\nperiod_ms = 10\n", {}, 4, "line 2: sampling.period_ms is 10: must be at least 100"),
    ("no TOML", "node = \n", {}, 4, "agent.toml is no TOML"),
    ("a wrong variable", "", {"WATTLEDGER_AGENT_HTTP_PORT": "x"}, 4, "WATTLEDGER_AGENT_HTTP_PORT: http_port is 'x'"),
    ("a variable that is none", "", {"WATTLEDGER_AGENT_WAL_PATH": "x"}, 4, "is WATTLEDGER_AGENT_WAL__PATH meant?"),
    ("a trace that is not named", "[sampling]\nprobes = ['trace']\n", {}, 4, "trace_file"),
    ("a log that is a folder", "", {"WATTLEDGER_AGENT_WAL__PATH": "/tmp"}, 4, "/tmp is a folder: name a file in it"),
    ("another's address", "http_host = '192.0.2.1'\n", {}, 4, "192.0.2.1:9478 can't be listened on"),
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


@pytest.mark.parametrize("command", ["run", "doctor", "probe", "ticker", "settings"])
def test_a_configuration_that_is_not_there_is_refused_in_a_line(tmp_path: Path, command: str) -> None:
    found = agent(command, "--config", tmp_path / "none.toml")
    assert found.returncode == 4
    [line] = found.stderr.splitlines()
    assert f"{tmp_path / 'none.toml'}: No such file" in line


@pytest.mark.parametrize("command", ["doctor", "probe"])
def test_a_probe_that_can_not_be_built_is_no_traceback(tmp_path: Path, command: str) -> None:
    found = agent(command, env={"WATTLEDGER_AGENT_SAMPLING__PROBES": "trace"})
    assert found.returncode == 4 and "trace_file" in found.stderr and "Traceback" not in found.stderr


def test_the_settings_in_force_are_a_file_to_start_from(folder: Path) -> None:
    found = agent("settings", "--config", folder / "agent.toml")
    assert found.returncode == 0, found.stderr
    shown = tomllib.loads(found.stdout)
    assert (shown["node"], shown["sampling"]["period_ms"], shown["slurm"]) == ("n1", 100, {})


def test_the_version_is_said() -> None:
    found = agent("--version")
    assert found.returncode == 0 and re.fullmatch(r"wattledger-agent \d+\.\d+\.\S+\n", found.stdout)


def test_help_fits_a_terminal_of_eighty_columns() -> None:
    for command in ([], ["run"], ["doctor"], ["settings"], ["play"], ["record"], ["probe"], ["wal", "verify"]):
        found = agent(*command, "--help", env={"COLUMNS": "80"})
        assert found.returncode == 0 and max(map(len, found.stdout.splitlines())) <= 80


def test_a_port_that_another_has_is_waited_for_by_whoever_starts_it_again(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        found = agent("run", "--config", folder / "agent.toml", env={"WATTLEDGER_AGENT_HTTP_PORT": port})
    assert found.returncode == 5 and f"127.0.0.1:{port} can't be listened on" in found.stderr


def test_a_recording_leaves_what_slurm_dropped_to_the_agent(folder: Path) -> None:
    drops = folder / "slurm"
    drops.mkdir(mode=0o700)
    prolog = Path(__file__).resolve().parents[2] / "infra" / "slurm" / "wattledger-prolog"
    for context in ("prolog_slurmd", "epilog_slurmd"):
        told = {
            "SLURM_SCRIPT_CONTEXT": context,
            "SLURM_JOB_ID": "7",
            "SLURM_CLUSTER_NAME": "c1",
            "SLURMD_NODENAME": "n1",
            "SLURM_JOB_GPUS": "0",
            "SLURM_JOB_ACCOUNT": "acme",
            "WATTLEDGER_SLURM_FOLDER": str(drops),
        }
        subprocess.run(["/bin/sh", str(prolog)], env=told, check=True)
    before = sorted(file.name for file in drops.iterdir())
    config = folder / "agent.toml"
    config.write_text(f'watchers = ["slurm"]\nwatch_s = 0.2\n{config.read_text()}\n[slurm]\ndrop_dir = "{drops}"\n')
    found = agent("record", folder / "r.jsonl", "--duration-s", 3, "--config", config)
    assert found.returncode == 0, found.stderr
    assert len(before) == 2 and sorted(file.name for file in drops.iterdir()) == before
    kinds = {CODEC.decode(_value(item)).record.get("kind") for item in _items(folder / "r.jsonl")}
    assert {"start", "end"} <= kinds
