"""The systemd units: hardened by systemd's own measure, and in agreement with the package that installs them."""

import os
import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.architecture.layout import ROOT

SYSTEMD = ROOT / "infra" / "systemd"
UNITS = ("wattledger-agent.service", "wattledger-ticker.service")
MOST_TENTHS = 25
"""An exposure of 2.5; systemd calls what is below 4 OK."""
NO_PROGRAM = re.compile(r"\S+: Command /usr/bin/wattledger-agent is not executable: No such file or directory")
WEAKENED = ["CapabilityBoundingSet=", "SystemCallFilter=", "ProtectSystem=strict", "RestrictNamespaces=yes", "User="]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """A systemd tool, offline. Missing: a failure in CI, where `.ci/run` installs it."""
    if shutil.which(command[0]) is None:
        if os.environ.get("CI"):
            pytest.fail(f"{command[0]} is missing: apt-get install systemd")
        pytest.skip(f"{command[0]} is not on this machine")
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def exposure_is_accepted(unit: Path) -> subprocess.CompletedProcess[str]:
    return run("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_TENTHS}", "--no-pager", str(unit))


def sections(unit: str) -> list[tuple[str, str]]:
    """Directives in order; a name may come more than once."""
    lines = [line for line in (SYSTEMD / unit).read_text().splitlines() if "=" in line and not line.startswith("#")]
    return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


def values(unit: str, name: str) -> list[str]:
    return [value for key, value in sections(unit) if key == name]


@pytest.mark.parametrize("unit", UNITS)
def test_exposure_is_at_most_2_5(unit: str) -> None:
    done = exposure_is_accepted(SYSTEMD / unit)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Overall exposure level for \S+: \d\.\d OK", done.stdout), done.stdout


def test_the_measure_finds_a_unit_that_was_opened(tmp_path: Path) -> None:
    text = (SYSTEMD / UNITS[0]).read_text()
    kept = [line for line in text.splitlines() if not line.startswith(tuple(WEAKENED))]
    weak = tmp_path / UNITS[0]
    weak.write_text("\n".join(kept))
    assert exposure_is_accepted(weak).returncode != 0


def test_exposure_stays_accepted_with_every_drop_in(tmp_path: Path) -> None:
    unit = tmp_path / UNITS[0]
    shutil.copy(SYSTEMD / UNITS[0], unit)
    shutil.copytree(SYSTEMD / "drop-ins", tmp_path / f"{UNITS[0]}.d")
    done = exposure_is_accepted(unit)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CAP_SYS_PTRACE" in re.sub(r"✓.*", "", done.stdout), "the drop-ins were not read"


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_nothing_wrong_but_the_program_that_is_not_installed(unit: str) -> None:
    done = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(SYSTEMD / unit))
    said = [line for line in (done.stdout + done.stderr).splitlines() if not NO_PROGRAM.fullmatch(line)]
    assert said == []


def test_systemd_finds_a_directive_that_does_not_exist(tmp_path: Path) -> None:
    wrong = tmp_path / UNITS[0]
    wrong.write_text((SYSTEMD / UNITS[0]).read_text().replace("ProtectHome=yes", "ProtectHomes=yes"))
    done = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(wrong))
    assert "ProtectHomes" in done.stdout + done.stderr


def test_devices_are_a_closed_list_with_the_names_of_old_and_new_drivers() -> None:
    agent, ticker = UNITS
    names = {value.split()[0] for value in values(agent, "DeviceAllow")}
    assert values(agent, "DevicePolicy") == ["closed"]
    assert names == {
        "char-nvidia", "char-nvidiactl", "char-nvidia-frontend", "char-nvidia-uvm", "char-nvidia-caps", "char-kfd",
        "char-drm",
    }  # fmt: skip
    assert (values(ticker, "DeviceAllow"), values(ticker, "PrivateDevices")) == ([], ["yes"])


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_holds_no_capability_and_ends_for_good_on_a_refused_configuration(unit: str) -> None:
    assert (values(unit, "CapabilityBoundingSet"), values(unit, "AmbientCapabilities")) == ([""], [""])
    # 2: a command line that is wrong; 4: a configuration that is refused
    assert values(unit, "RestartPreventExitStatus") == ["2 4"]


def test_the_agent_writes_to_its_state_and_to_the_drop_folder_only() -> None:
    agent = UNITS[0]
    assert values(agent, "ProtectSystem") == ["strict"]
    assert values(agent, "ReadWritePaths") == ["-/run/wattledger/slurm"]
    assert (values(agent, "StateDirectory"), values(agent, "StateDirectoryMode")) == (["wattledger-agent"], ["0700"])


def test_others_processes_stay_visible_and_their_owners_true() -> None:
    agent = UNITS[0]
    assert (values(agent, "ProtectProc"), values(agent, "ProcSubset")) == (["default"], ["all"])
    assert values(agent, "PrivateUsers") == []


def test_reading_environments_takes_both_capabilities_and_never_a_tracing_call() -> None:
    drop_in = ConfigParser()
    drop_in.optionxform = str  # type: ignore[assignment,method-assign]
    assert drop_in.read(SYSTEMD / "drop-ins" / "read-environ.conf")
    both = "CAP_SYS_PTRACE CAP_DAC_READ_SEARCH"
    assert dict(drop_in["Service"]) == {"CapabilityBoundingSet": both, "AmbientCapabilities": both}
    refused = values(UNITS[0], "SystemCallFilter")[-1]
    assert refused.startswith("~")
    assert {"@debug", "@privileged", "process_vm_readv", "process_vm_writev"} <= set(refused[1:].split())


def test_the_password_is_a_credential_that_the_agent_is_told_of() -> None:
    text = (SYSTEMD / "drop-ins" / "kafka-password.conf").read_text()
    [name] = re.findall(r"^LoadCredential=([\w-]+):/etc/wattledger/", text, re.MULTILINE)
    [path] = re.findall(r"^Environment=WATTLEDGER_AGENT_KAFKA__PASSWORD_FILE=(\S+)$", text, re.MULTILINE)
    assert path == f"/run/credentials/{UNITS[0]}/{name}"


def test_the_user_and_the_drop_folder_are_made_as_the_unit_needs_them(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    made = run("systemd-sysusers", f"--root={tmp_path}", str(SYSTEMD / "sysusers.conf"))
    assert made.returncode == 0, made.stderr
    user, _, uid, gid, _, home, shell = (tmp_path / "etc" / "passwd").read_text().split(":")
    assert (user, home, shell.strip()) == ("wattledger-agent", "/var/lib/wattledger-agent", "/usr/sbin/nologin")
    assert values(UNITS[0], "User") == values(UNITS[0], "Group") == [user]
    groups = {line.split(":")[0]: line.split(":")[3] for line in (tmp_path / "etc/group").read_text().splitlines()}
    assert groups == {"wattledger-agent": "", "video": user, "render": user}
    if os.geteuid() != 0:
        pytest.skip("only root can give folders away")
    made = run("systemd-tmpfiles", "--create", f"--root={tmp_path}", str(SYSTEMD / "tmpfiles.conf"))
    assert made.returncode == 0, made.stderr
    folder = (tmp_path / "run/wattledger/slurm").stat()
    assert (folder.st_mode & 0o7777, folder.st_uid, folder.st_gid) == (0o2770, 0, int(gid))
    assert int(uid) > 0


def test_the_udev_rule_gives_energy_to_the_agents_group_and_to_nobody_else() -> None:
    [rule] = [line for line in (SYSTEMD / "90-wattledger-rapl.rules").read_text().splitlines() if line[0] != "#"]
    assert 'SUBSYSTEM=="powercap"' in rule
    assert re.findall(r'RUN\+="([^"]+)"', rule) == [
        f"/bin/chgrp {values(UNITS[0], 'Group')[0]} /sys%p/energy_uj",
        "/bin/chmod 0440 /sys%p/energy_uj",
    ]
