"""The prolog and epilog as slurmd runs them, under sh: what they drop, and that they never fail a job."""

import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from wattledger_agent.watchers.slurm_drop import READ_KEYS, drop_values
from wattledger_agent.watchers.slurm_fact import EPILOG, PROLOG
from wattledger_agent.watchers.slurm_folder import DropFolder

from tests.slurm_watch_case import SITE, T0, S, refs

SCRIPTS = Path(__file__).resolve().parents[2] / "infra" / "slurm"
ME = frozenset({os.geteuid()})
SHELLS = [shell for shell in ("sh", "dash", "bash", "busybox") if shutil.which(shell)]
LATER_US = 4_000_000_000 * S
JOB = {
    "SLURM_JOB_ID": "123", "SLURM_JOB_ACCOUNT": "acme", "SLURM_JOB_USER": "ann", "SLURM_JOB_UID": "1000",
    "SLURM_CLUSTER_NAME": "alpha", "SLURMD_NODENAME": "gpu01", "SLURM_JOB_GPUS": "0,1",
    "CUDA_VISIBLE_DEVICES": "0,1", "SLURM_JOB_START_TIME": f"{T0}", "SLURM_JOB_RESTART_COUNT": "2",
    "SLURM_JOB_END_TIME": f"{T0 + 999}", "SLURM_JOB_NAME": "secret", "SLURM_JOB_WORK_DIR": "/home/ann",
}  # fmt: skip


def started(
    folder: Path, name: str = "wattledger-prolog", shell: str = "sh", **changed: str
) -> "subprocess.Popen[bytes]":
    env = {"WATTLEDGER_SLURM_FOLDER": str(folder), **JOB, **changed}
    command = [shell, *(["sh"] if shell == "busybox" else []), str(SCRIPTS / name)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run(folder: Path, name: str = "wattledger-prolog", shell: str = "sh", **changed: str) -> None:
    """Run it to its end; it is silent and ends with 0."""
    process = started(folder, name, shell, **changed)
    said, _ = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, b"")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "slurm"
    path.mkdir(mode=0o700)
    return path


def records(folder: Path) -> list[dict[str, str]]:
    return [drop_values(path.read_bytes()) for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("shell", SHELLS)
def test_prolog_and_epilog_drop_what_the_watcher_reads(folder: Path, shell: str) -> None:
    before_us = time.time_ns() // 1000
    run(folder, shell=shell, SLURM_SCRIPT_CONTEXT="prolog_slurmd")
    run(folder, shell=shell, SLURM_SCRIPT_CONTEXT="epilog_slurmd")
    after_us = time.time_ns() // 1000
    (document,) = DropFolder(folder, SITE, ME).read(LATER_US)
    assert document.findings == ()
    assert [fact.kind for fact in document.facts] == [EPILOG, PROLOG]
    for fact in document.facts:
        assert (fact.job, fact.attempt, fact.start_us, fact.account) == ("123", 2, T0 * S, "acme")
        assert before_us <= fact.at_us <= after_us
        assert refs(fact.held) == ["minor:0", "minor:1"]
    assert document.facts[1].at_us < document.facts[0].at_us


def test_the_name_tells_what_it_is_where_slurm_does_not(folder: Path) -> None:
    run(folder, "wattledger-prolog")
    run(folder, "wattledger-epilog")
    assert sorted(path.name.split("-")[0] for path in folder.iterdir()) == ["epilog", "prolog"]


@pytest.mark.parametrize("context", ["prolog_slurmctld", "epilog_slurmctld", "prolog_task", "$(id)"])
def test_other_contexts_drop_nothing(folder: Path, context: str) -> None:
    run(folder, SLURM_SCRIPT_CONTEXT=context)
    assert list(folder.iterdir()) == []


def test_only_the_listed_variables_are_written(folder: Path) -> None:
    run(folder, AWS_SECRET_ACCESS_KEY="x", SLURM_JOB_PARTITION="gpu")
    (path,) = folder.iterdir()
    keys = {line.split("=")[0] for line in path.read_text().splitlines()}
    assert keys <= READ_KEYS
    assert "SLURM_JOB_NAME" not in keys and "SLURM_JOB_END_TIME" not in keys and "SLURM_JOB_PARTITION" in keys


def test_device_lists_are_passed_on_as_uuids_or_when_slurm_names_none(folder: Path) -> None:
    run(folder, SLURM_JOB_ID="1")
    run(folder, SLURM_JOB_ID="2", CUDA_VISIBLE_DEVICES="GPU-8a5f,GPU-11c2", ROCR_VISIBLE_DEVICES="1")
    run(folder, SLURM_JOB_ID="3", CUDA_VISIBLE_DEVICES="MIG-de2d")
    run(folder, SLURM_JOB_ID="4", SLURM_JOB_GPUS="", CUDA_VISIBLE_DEVICES="0")
    shown = [(one.get("CUDA_VISIBLE_DEVICES"), one.get("ROCR_VISIBLE_DEVICES")) for one in records(folder)]
    assert shown == [(None, None), ("GPU-8a5f,GPU-11c2", None), ("MIG-de2d", None), ("0", None)]


HOSTILE = {
    "a newline that plays a key": "x\nSLURM_JOB_ACCOUNT=rich\nWATTLEDGER_END=1",
    "commands": "$(touch {marker}) `touch {marker}` ; touch {marker} | & > {marker}",
    "quotes": "a'b\"c\\d $HOME ${HOME} %s %d %n \\n \\x41",
    "globs": "* ? [a-z] ~ !",
    "dashes": "-n -e --help",
    "control characters": "a\tb\rc\x1bd\x07",
    "other alphabets": "größe 名前 \u202e",
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_hostile_value_is_one_line_and_nothing_more(folder: Path, tmp_path: Path, case: str, shell: str) -> None:
    marker = tmp_path / "marker"
    value = HOSTILE[case].replace("{marker}", str(marker))
    run(folder, shell=shell, SLURM_JOB_COMMENT=value, SLURM_JOB_EXTRA=value, SLURM_JOB_PARTITION=value)
    (values,) = records(folder)
    assert values["SLURM_JOB_ACCOUNT"] == "acme"
    assert values["SLURM_JOB_COMMENT"].split() == "".join(c if c >= " " else " " for c in value).split()
    assert not marker.exists()


@pytest.mark.parametrize("value", ["x" * 65_536, "\n" * 65_536, "x" * 1025])
def test_what_is_too_long_is_left_out_and_named(folder: Path, value: str) -> None:
    run(folder, SLURM_JOB_COMMENT=value)
    (values,) = records(folder)
    assert "SLURM_JOB_COMMENT" not in values
    assert values["WATTLEDGER_LEFT_OUT"] == "SLURM_JOB_COMMENT"


@pytest.mark.parametrize(
    "changed",
    [
        {"SLURM_JOB_ID": ""},
        {"SLURM_JOB_ID": "../../etc/passwd"},
        {"SLURM_JOB_ID": "1\n2"},
        {"SLURM_JOB_ID": "12345678901"},
        {"SLURM_JOB_ID": "*"},
    ],
)
def test_what_is_no_job_id_names_no_file(folder: Path, tmp_path: Path, changed: dict[str, str]) -> None:
    run(folder, **changed)
    assert list(folder.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["slurm"]


@pytest.mark.parametrize("restarts", ["", "-1", "../x", "99999999"])
def test_odd_restart_counts_are_zero_in_the_name(folder: Path, restarts: str) -> None:
    run(folder, SLURM_JOB_RESTART_COUNT=restarts)
    (path,) = folder.iterdir()
    assert path.name.startswith("prolog-123-0-")


def test_without_a_folder_it_does_nothing(tmp_path: Path) -> None:
    run(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    run(tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path)
    run(tmp_path / "link")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_a_folder_that_cannot_be_written_is_no_failure(folder: Path) -> None:
    if os.geteuid() == 0:
        run(Path("/proc/self/fdinfo"))  # nobody can make a file there
    else:
        folder.chmod(0o500)
        run(folder)
    assert list(folder.iterdir()) == []


def test_a_disk_that_is_full_leaves_no_half_record(folder: Path) -> None:
    """Every write to /dev/full fails with ENOSPC, as on a full disk."""
    script = (SCRIPTS / "wattledger-prolog").read_text()
    patched = folder.parent / "full-prolog"
    patched.write_text(script.replace('>"$new"; then', ">/dev/full; then"))
    assert patched.read_text() != script
    env = {"WATTLEDGER_SLURM_FOLDER": str(folder), **JOB}
    done = subprocess.run(["sh", str(patched)], env=env, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert list(folder.iterdir()) == []


def test_a_machine_without_date_and_mv_is_no_failure(folder: Path) -> None:
    script = (SCRIPTS / "wattledger-prolog").read_text()
    patched = folder.parent / "bare-prolog"
    patched.write_text(script.replace("PATH=/usr/bin:/bin:/usr/sbin:/sbin", "PATH=/nonexistent"))
    env = {"WATTLEDGER_SLURM_FOLDER": str(folder), **JOB}
    done = subprocess.run([shutil.which("sh") or "sh", str(patched)], env=env, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not [path for path in folder.iterdir() if not path.name.startswith(".")]


def test_a_date_without_nanoseconds_gives_whole_seconds(folder: Path) -> None:
    tools = folder.parent / "bin"
    tools.mkdir()
    date = tools / "date"
    date.write_text(f'#!/bin/sh\ncase $1 in *N*) echo "{T0}N" ;; *) echo {T0} ;; esac\n')
    date.chmod(0o755)
    patched = folder.parent / "old-prolog"
    script = (SCRIPTS / "wattledger-prolog").read_text()
    patched.write_text(script.replace("PATH=/usr/bin", f"PATH={tools}:/usr/bin"))
    env = {"WATTLEDGER_SLURM_FOLDER": str(folder), **JOB}
    assert subprocess.run(["sh", str(patched)], env=env, check=False).returncode == 0
    (path,) = folder.iterdir()
    assert path.name == f"prolog-123-2-{T0}000000000"
    os.utime(path, ns=(T0 * 10**9, T0 * 10**9 + 700_000_000))
    (document,) = DropFolder(folder, SITE, ME).read(LATER_US)
    assert [fact.at_us for fact in document.facts] == [T0 * S + 700_000]


def test_a_record_is_readable_to_nobody_else_unless_the_folder_hands_its_group_on(folder: Path) -> None:
    run(folder, SLURM_JOB_ID="1")
    folder.chmod(0o2770)
    run(folder, SLURM_JOB_ID="2")
    modes = [oct(path.stat().st_mode & 0o777) for path in sorted(folder.iterdir())]
    assert modes == ["0o600", "0o640"]


def test_200_at_once_drop_200_whole_records(folder: Path) -> None:
    def one(number: int) -> None:
        run(folder, SLURM_JOB_ID=f"{1000 + number}")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(one, range(200)))
    (document,) = DropFolder(folder, SITE, ME).read(LATER_US)
    assert document.findings == ()
    assert sorted(fact.job for fact in document.facts) == sorted(f"{1000 + n}" for n in range(200))


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_killed_at_any_point_it_leaves_a_whole_record_or_none(folder: Path, signal_number: int) -> None:
    for delay_ms in range(12):
        process = started(folder, SLURM_JOB_ID=f"{delay_ms + 1}")
        time.sleep(delay_ms / 1000)
        process.send_signal(signal_number)
        process.communicate(timeout=30)
        assert process.returncode in (0, -signal_number)
    (document,) = DropFolder(folder, SITE, ME).read(time.time_ns() // 1000)
    assert document.findings == ()
    for path in folder.iterdir():
        assert path.name.startswith(".new-") or drop_values(path.read_bytes())["SLURM_JOB_ACCOUNT"] == "acme"


def test_a_full_folder_gets_no_more(folder: Path) -> None:
    for number in range(10_000):
        (folder / f"x{number}").touch()
    run(folder)
    assert len(list(folder.iterdir())) == 10_000


def test_the_scripts_are_plain_sh_and_start_nothing_but_date_and_mv() -> None:
    text = (SCRIPTS / "wattledger-prolog").read_text()
    assert text.startswith("#!/bin/sh\n")
    assert text.rstrip().endswith("exit 0")
    for shell in SHELLS:
        command = [shell, *(["sh"] if shell == "busybox" else []), "-n", str(SCRIPTS / "wattledger-prolog")]
        assert subprocess.run(command, check=False).returncode == 0
    assert (SCRIPTS / "wattledger-epilog").read_text() == text
    assert os.access(SCRIPTS / "wattledger-epilog", os.X_OK)
