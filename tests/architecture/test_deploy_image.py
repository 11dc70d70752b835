"""The image: lint, what it starts as, and its health check against a real server. No engine builds it here."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.architecture.layout import ROOT

DOCKER = ROOT / "infra" / "docker"
HADOLINT = Path(sys.executable).parent / "hadolint"


def instructions() -> list[tuple[str, str]]:
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, rest in lines]


def last(name: str) -> str:
    return [rest for found, rest in instructions() if found == name][-1]


def lint(dockerfile: Path) -> subprocess.CompletedProcess[str]:
    command = [str(HADOLINT), "--no-color", "--failure-threshold", "info", str(dockerfile)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_hadolint_finds_nothing() -> None:
    done = lint(DOCKER / "Dockerfile")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_hadolint_finds_a_download_and_a_root_user(tmp_path: Path) -> None:
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python\nUSER root\nRUN pip install httpx\n")
    done = lint(bad)
    assert done.returncode != 0
    assert {"DL3006", "DL3002", "DL3013"} <= set(re.findall(r"DL\d+", done.stdout))


def test_it_runs_as_a_number_that_is_not_root_and_without_a_shell() -> None:
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last("USER"))
    assert json.loads(last("ENTRYPOINT")) == ["/usr/bin/wattledger-agent"]
    assert json.loads(last("CMD")) == ["run", "--config", "/etc/wattledger/agent.toml"]
    check = last("HEALTHCHECK")
    command = json.loads(check[check.index("CMD ") + 4 :])
    assert not {"sh", "bash", "curl", "wget"} & {Path(part).name for part in command}
    assert command[-1] == "/usr/lib/wattledger-healthcheck.py"


def test_the_final_stage_installs_nothing_and_takes_the_payload_that_the_packages_have() -> None:
    stages = [number for number, (name, _) in enumerate(instructions()) if name == "FROM"]
    built, final = instructions()[stages[0] : stages[1]], instructions()[stages[1] :]
    assert len(stages) == 2
    assert [rest for name, rest in final if name == "RUN"] == []
    assert any("infra/packages/payload /payload" in rest for name, rest in built if name == "RUN")
    assert ("COPY", "--from=build /payload/ /") in final


def test_what_is_copied_is_there_and_let_through_to_the_build() -> None:
    let_through = [
        line[1:] for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")
    ]
    for name, rest in instructions():
        if name != "COPY" or "--from=" in rest:
            continue
        source = rest.split()[-2]
        assert (ROOT / source).exists(), source
        assert any(allowed == source or Path(source) in Path(allowed).parents for allowed in let_through), source
    assert [path for path in let_through if not (ROOT / path).exists()] == []


def test_the_base_is_a_public_image_by_name_and_can_be_pinned() -> None:
    bases = [rest.split()[0] for name, rest in instructions() if name == "FROM"]
    assert bases == ["${BASE}", "${BASE}"]
    assert next(rest for name, rest in instructions() if name == "ARG") == "BASE=python:3.11-slim-bookworm"


class Answering(BaseHTTPRequestHandler):
    """`/-/healthy` is fine, `/-/ready` is not."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/-/healthy" else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answering) as found:
        threading.Thread(target=found.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [("/-/healthy", 0, ""), ("/-/ready", 1, "503"), (":no-port", 1, "nonnumeric port")],
)
def test_the_health_check_says_what_the_server_says(server: str, path: str, code: int, says: str) -> None:
    url = server + path if path.startswith("/") else "http://127.0.0.1" + path
    command = [sys.executable, "-IS", str(DOCKER / "healthcheck.py"), url]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=30, env={"http_proxy": "http://127.0.0.1:1"}
    )
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr
