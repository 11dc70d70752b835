"""What the doctor says of folder, port and connection: right about each, and leaves nothing behind."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from wattledger_agent.broker_trouble import most_telling
from wattledger_agent.doctor import Check, check_folder, check_kafka, check_port, check_socket
from wattledger_agent.running import AgentRefused, AgentStopped, examine, refusing
from wattledger_agent.settings import load_settings
from wattledger_agent.wal_record import WalUnavailable


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("wattledger_agent.doctor._ANSWER_S", 1.0)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def states(checks: Iterator[Check]) -> list[tuple[str, str]]:
    return [(check.what, check.state) for check in checks]


def test_a_folder_that_is_yet_to_be_made_is_not_made_by_looking(tmp_path: Path) -> None:
    [check, *_] = check_folder(tmp_path / "a" / "b" / "agent.wal", 1)
    assert check.state == "ok" and "will be made" in check.detail
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_written_to_and_left_as_it_was(tmp_path: Path) -> None:
    [check, *_] = check_folder(tmp_path / "agent.wal", 1)
    assert check.state == "ok"
    assert not list(tmp_path.iterdir())


def test_a_log_that_may_outgrow_its_disk_is_a_note(tmp_path: Path) -> None:
    [check, *_] = check_folder(tmp_path / "agent.wal", 1 << 60)
    assert check.state == "note" and "wal.cap_bytes" in check.detail


def test_a_log_path_that_is_a_folder_is_wrong(tmp_path: Path) -> None:
    [check] = check_folder(tmp_path, 1)
    assert check.state == "wrong" and "is a folder: name a file in it" in check.detail


def test_a_file_in_place_of_the_folder_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    [check] = check_folder(tmp_path / "state" / "agent.wal", 1)
    assert (check.what, check.state) == ("log folder", "wrong")


def test_a_disk_that_is_full_when_the_trial_is_written_keeps_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    [check] = check_folder(tmp_path / "agent.wal", 1)
    assert check.state == "wrong" and "make room" in check.detail
    assert not list(tmp_path.iterdir())


def test_a_port_that_is_taken_may_be_the_agents(taken_port: int) -> None:
    [check] = check_port(load_settings(None, http_port=taken_port))
    assert check.state == "note" and f"http://127.0.0.1:{taken_port}/version" in check.detail


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_can_not_be_listened_on(host: str) -> None:
    assert states(check_port(load_settings(None, http_host=host))) == [("metrics", "wrong")]


def test_a_free_port_is_free_and_stays_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for _ in range(2):
        assert states(check_port(load_settings(None, http_port=port))) == [("metrics", "ok")]


def test_the_socket_of_a_running_agent_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "slurm.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        inode = path.stat().st_ino
        settings = load_settings(
            None, watchers=("slurm",), slurm={"drop_dir": "", "socket": path}, kafka={"bootstrap": "127.0.0.1:1"},
            http_port=0, wal={"path": tmp_path / "agent.wal"}, sampling={"probes": ()},
        )  # fmt: skip
        checks = {check.what: check.state for check in examine(settings)}
        assert checks["slurm.socket"] == "ok"
        assert path.stat().st_ino == inode
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(path))


def test_a_socket_in_a_folder_that_is_not_there_is_wrong(tmp_path: Path) -> None:
    assert states(check_socket(tmp_path / "none" / "slurm.sock")) == [("slurm.socket", "wrong")]


KAFKA: list[tuple[str, dict[str, Any], str]] = [
    ("no answer", {"bootstrap": "127.0.0.1:1"}, "is the broker up"),
    ("no password", {"bootstrap": "127.0.0.1:1", "security": "sasl_ssl", "username": "a"}, "kafka.password_file"),
    (
        "a password file that is not there",
        {"bootstrap": "127.0.0.1:1", "security": "sasl_ssl", "username": "a", "password_file": "/nope/password"},
        "can't read kafka.password_file /nope/password",
    ),
    ("no authority", {"security": "ssl", "ca_file": "/nope/ca"}, "can't read kafka.ca_file /nope/ca"),
    ("no certificate in it", {"security": "ssl", "ca_file": "/etc/passwd"}, "ssl.ca.location"),
]


@pytest.mark.parametrize(("kafka", "said"), [case[1:] for case in KAFKA], ids=[case[0] for case in KAFKA])
def test_why_the_broker_can_not_be_asked_is_said(kafka: dict[str, Any], said: str) -> None:
    [check] = check_kafka(load_settings(None, kafka=kafka))
    assert check.state == "wrong" and said in check.detail
    assert "KafkaError{" not in check.detail


def test_of_several_errors_the_one_that_says_most_is_told() -> None:
    down, refused = KafkaError(KafkaError._ALL_BROKERS_DOWN), KafkaError(KafkaError._AUTHENTICATION, "wrong password")
    transport = KafkaError(KafkaError._TRANSPORT, "connecting to a PLAINTEXT listener?")
    assert most_telling([down, refused, transport]) == (
        "wrong password", "the broker knows another user, password or mechanism",
    )  # fmt: skip
    assert most_telling([down, transport, KafkaError(KafkaError._TRANSPORT)])[0] == transport.str()


PASSING = [
    ("a log in use", WalUnavailable("in use"), AgentStopped),
    ("a full disk", OSError(28, "No space left on device", "/x"), AgentStopped),
    ("no right", PermissionError(13, "Permission denied", "/x"), AgentRefused),
    ("settings that contradict each other", ValueError("both"), AgentRefused),
]


@pytest.mark.parametrize(("error", "becomes"), [case[1:] for case in PASSING], ids=[case[0] for case in PASSING])
def test_what_may_pass_is_tried_again_and_what_may_not_is_refused(
    tmp_path: Path, error: Exception, becomes: type[Exception]
) -> None:
    settings = load_settings(None, wal={"path": tmp_path / "agent.wal"})
    with pytest.raises(becomes), refusing(settings):
        raise error
