"""Reading processes: a fake tree, and the real one of this process."""

import os
from pathlib import Path

import pytest
from wattledger_agent.watchers.process_table import (
    GONE,
    HIDDEN,
    MALFORMED,
    NO_PERMISSION,
    Process,
    ProcessTable,
    Unread,
)

from tests.proc_tree import BOOT_ID, BOOT_S, HZ, ProcTree


def read(table: ProcessTable, pid: int) -> Process:
    found = table.read(pid)
    assert isinstance(found, Process)
    return found


@pytest.fixture
def proc(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path / "proc")


@pytest.fixture
def table(proc: ProcTree) -> ProcessTable:
    return ProcessTable(proc.root, ticks_per_s=HZ)


def test_a_process_is_known_by_pid_and_start_time(proc: ProcTree, table: ProcessTable) -> None:
    proc.add(4711, start_ticks=12345, uid=1000, inner=(77, 7), environ={"WATTLEDGER_TENANT": "acme"})
    found = read(table, 4711)
    assert found.key == "4711:12345"
    assert found.started_us == BOOT_S * 1_000_000 + 123_450_000
    assert (found.uid, found.namespace_pids, found.owner.kind) == (1000, (4711, 77, 7), "session")
    assert found.tags == (("WATTLEDGER_TENANT", "acme"),)
    assert found.unread == ()


def test_a_reused_pid_is_another_process(proc: ProcTree, table: ProcessTable) -> None:
    proc.add(4711, start_ticks=12345)
    before = read(table, 4711)
    proc.add(4711, start_ticks=99999)
    assert read(table, 4711).key != before.key


@pytest.mark.parametrize("comm", ["a b", "x) S 1 2 3", "((", ")", "nvidia-smi", ""])
def test_a_name_of_any_shape_does_not_shift_the_fields(proc: ProcTree, table: ProcessTable, comm: str) -> None:
    proc.add(5, start_ticks=321, comm=comm)
    assert table.start_ticks(5) == 321


def test_only_the_allow_listed_variables_are_taken(proc: ProcTree, table: ProcessTable) -> None:
    proc.add(5, environ={"WATTLEDGER_MODEL": "llama", "WATTLEDGER_TENANT": "a=b", "WATTLEDGER_OTHER": "x"})
    found = read(table, 5)
    assert found.tags == (("WATTLEDGER_MODEL", "llama"), ("WATTLEDGER_TENANT", "a=b"))
    assert "hunter2" not in repr(found)
    assert "python3" not in repr(found)
    none = ProcessTable(proc.root, variables=(), ticks_per_s=HZ)
    assert read(none, 5).tags == ()


def test_the_program_s_name_is_shown_only_where_that_is_allowed(proc: ProcTree) -> None:
    proc.add(5, comm="trainer")
    assert read(ProcessTable(proc.root, show_command=True, ticks_per_s=HZ), 5).command == "trainer"
    assert read(ProcessTable(proc.root, ticks_per_s=HZ), 5).command == ""


def test_of_a_variable_that_is_there_twice_the_first_counts(proc: ProcTree, table: ProcessTable) -> None:
    proc.add(5)
    (proc.root / "5/environ").write_bytes(b"WATTLEDGER_TENANT=a\0WATTLEDGER_TENANT=b\0noequals\0")
    assert read(table, 5).tags == (("WATTLEDGER_TENANT", "a"),)


def test_a_value_that_is_no_utf8_is_taken_with_marks(proc: ProcTree, table: ProcessTable) -> None:
    proc.add(5)
    (proc.root / "5/environ").write_bytes(b"WATTLEDGER_TENANT=f\xfcr\0")
    assert read(table, 5).tags == (("WATTLEDGER_TENANT", "f�r"),)


def test_what_ends_in_between_is_gone(proc: ProcTree, table: ProcessTable) -> None:
    proc.add(5)
    for name in ("environ", "cgroup", "status"):
        (proc.root / "5" / name).unlink()
    assert read(table, 5).unread == (("cgroup", GONE), ("environ", GONE), ("status", GONE))
    proc.remove(5)
    assert table.read(5) == Unread(5, GONE)
    assert table.start_ticks(5) == Unread(5, GONE)


@pytest.mark.parametrize("option", ["hidepid=2", "hidepid=invisible", "hidepid=1", "hidepid=ptraceable"])
def test_behind_hidepid_absence_proves_nothing(tmp_path: Path, option: str) -> None:
    proc = ProcTree(tmp_path / "proc", mounts=f"sysfs /sys sysfs rw 0 0\nproc /proc proc rw,{option} 0 0\n")
    assert ProcessTable(proc.root, ticks_per_s=HZ).read(5) == Unread(5, HIDDEN)


def test_hidepid_0_hides_nothing(tmp_path: Path) -> None:
    proc = ProcTree(tmp_path / "proc", mounts="proc /proc proc rw,hidepid=0 0 0\n")
    assert ProcessTable(proc.root, ticks_per_s=HZ).read(5) == Unread(5, GONE)


@pytest.mark.parametrize("text", ["", "5 python S", "5 (a) S 1 2", "5 (a) S " + "x " * 40])
def test_a_malformed_stat_is_no_process(proc: ProcTree, table: ProcessTable, text: str) -> None:
    proc.add(5)
    (proc.root / "5/stat").write_text(text)
    assert table.read(5) == Unread(5, MALFORMED)


@pytest.mark.parametrize("pid", [0, -1, 4_194_305, 4294967295, 6498025472])
def test_b07_what_can_be_no_pid_is_not_looked_up(table: ProcessTable, pid: int) -> None:
    assert table.read(pid) == Unread(pid, MALFORMED)


def test_kernel_threads_and_the_mps_server_are_told_apart(proc: ProcTree, table: ProcessTable) -> None:
    proc.add(2, comm="kthreadd", flags=0x00208040, cgroup="0::/\n")
    proc.add(3, comm="nvidia-cuda-mps", cgroup="0::/system.slice/mps.service\n")
    assert (read(table, 2).is_kernel_thread, read(table, 2).is_mps_server) == (True, False)
    assert (read(table, 3).is_kernel_thread, read(table, 3).is_mps_server) == (False, True)


def test_b11_processes_are_found_by_their_inner_pid(proc: ProcTree, table: ProcessTable) -> None:
    proc.add(645400, inner=(324,))
    proc.add(645401, inner=(325,))
    proc.add(645402, inner=(12, 325))
    proc.add(324)
    assert table.inner_pids() == {324: (645400,), 325: (645401, 645402), 12: (645402,)}


def test_the_host_s_pid_namespace_is_told_from_another(tmp_path: Path) -> None:
    assert ProcessTable(ProcTree(tmp_path / "a").root, ticks_per_s=HZ).is_host_namespace() is True
    inner = ProcTree(tmp_path / "b", namespace="pid:[4026532201]")
    assert ProcessTable(inner.root, ticks_per_s=HZ).is_host_namespace() is False
    assert ProcessTable(tmp_path / "nowhere", ticks_per_s=HZ).is_host_namespace() is None


def test_boot_is_told_once(proc: ProcTree, table: ProcessTable) -> None:
    assert table.boot_us() == BOOT_S * 1_000_000
    (proc.root / "stat").write_text(f"btime {BOOT_S + 1}\n")
    assert table.boot_us() == BOOT_S * 1_000_000
    assert table.boot_id() == BOOT_ID


def test_this_process_reads_itself() -> None:
    table = ProcessTable(show_command=True)
    found = read(table, os.getpid())
    assert found.uid == os.getuid()
    assert found.namespace_pids[0] == os.getpid()
    assert found.command
    assert found.unread == ()
    assert not found.is_kernel_thread
    boot_us = table.boot_us()
    assert boot_us > 1_500_000_000_000_000
    uptime_us = round(float(Path("/proc/uptime").read_text().split()[0]) * 1_000_000)
    assert boot_us < found.started_us <= boot_us + uptime_us + 2_000_000
    assert len(table.boot_id()) == 36
    assert isinstance(table.inner_pids(), dict)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not read another's environment")
def test_another_user_s_environment_is_not_readable_and_says_so() -> None:
    os.seteuid(65534)
    try:
        found = ProcessTable().read(1)
    finally:
        os.seteuid(0)
    assert isinstance(found, Process)
    assert found.why_unread("environ") == NO_PERMISSION
    assert found.tags == ()
    assert found.why_unread("cgroup") == ""
