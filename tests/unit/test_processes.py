"""Children: where their output goes, how they end, what they weigh."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
from wattledger_audit.processes import Child, ChildFailed, free_port, run, total_pss_bytes

GRANDCHILD = "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); {then}"


def python(name: str, code: str, folder: Path, env: dict[str, str] | None = None) -> Child:
    return Child(name, [sys.executable, "-c", code], folder / f"{name}.log", env)


def first_line(child: Child) -> str:
    """What the child wrote first; it writes at once or the test fails."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        if (text := child.log_tail()).strip():
            return text.splitlines()[0]
        time.sleep(0.02)
    raise AssertionError(f"{child.name} wrote nothing")


def gone(pid: int) -> bool:
    """No such process, or only its entry until its new parent has waited for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def soon_gone(pid: int) -> bool:
    until = time.monotonic() + 5
    while not gone(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return gone(pid)


def test_output_and_errors_go_to_the_log_and_a_second_start_appends(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getenv('WORD'), flush=True); sys.stderr.write('said\\n'); sys.exit(3)"
    child = python("talker", code, tmp_path, {"WORD": "heard"})
    for _ in range(2):
        child.start()
        until = time.monotonic() + 10
        while child.alive and time.monotonic() < until:
            time.sleep(0.02)
    assert child.exit_code == 3
    assert child.log_tail().splitlines() == ["heard", "said"] * 2


def test_a_child_that_ignores_sigterm_is_killed_at_the_deadline(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    child = python("stubborn", code, tmp_path).start()
    first_line(child)
    child.stop(within_s=0.3)
    assert child.exit_code == -signal.SIGKILL


@pytest.mark.parametrize("then", ["time.sleep(60)", "sys.exit(0)"], ids=["leader runs", "leader has ended"])
def test_stopping_a_child_ends_what_it_started(tmp_path: Path, then: str) -> None:
    child = python("parent", GRANDCHILD.format(then=then), tmp_path).start()
    grandchild = int(first_line(child))
    child.stop(within_s=5)
    assert not child.alive
    assert soon_gone(grandchild)


def test_a_failed_run_says_what_ended_how_and_what_it_wrote(tmp_path: Path) -> None:
    with pytest.raises(ChildFailed, match=r"ended with 4; .*run\.log:\nno luck"):
        run([sys.executable, "-c", "import sys; print('no luck'); sys.exit(4)"], tmp_path / "run.log")


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ChildFailed, match="/no/such/program: No such file"):
        Child("ghost", ["/no/such/program"], tmp_path / "ghost.log").start()


def test_a_free_port_can_be_bound() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))


def test_memory_counts_descendants_once_and_what_has_ended_as_nothing(tmp_path: Path) -> None:
    child = python("parent", "block = bytearray(40_000_000);" + GRANDCHILD.format(then="time.sleep(60)"), tmp_path)
    child.start()
    grandchild = int(first_line(child))
    alone, family = total_pss_bytes([grandchild]), total_pss_bytes([child.pid])
    assert alone > 0
    assert family > 40_000_000 + alone
    assert total_pss_bytes([os.getpid()]) > family, "this process is its ancestor"
    assert abs(total_pss_bytes([child.pid, grandchild, child.pid]) - family) < 2_000_000
    child.kill()
    assert total_pss_bytes([child.pid]) == 0
