"""What a running agent loads: nothing that its configuration does not need. Asked of fresh interpreters."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    # the server side of this project, and what only it needs
    "wattledger_core", "wattledger_streams", "wattledger_sql", "wattledger_audit", "faust", "mode", "aiokafka",
    "clickhouse_connect", "chdb", "pandas", "pyarrow", "openpyxl", "jinja2", "psutil",
    # what other configurations need
    "amdsmi", "grpc", "google.protobuf", "cryptography", "httpx", "httpcore", "anyio", "stamina", "tenacity",
    # what starts processes or belongs to development
    "multiprocessing", "concurrent.futures.process", "unittest", "doctest", "pdb", "pytest", "hypothesis",
}  # fmt: skip
"""rich is not here: structlog and typer import it where it is installed, and typer brings it."""
RUN = """
import sys, tempfile
from pathlib import Path
from wattledger_agent import __main__
from wattledger_agent import running
from wattledger_agent.build import build_agent
from wattledger_agent.clock import SystemClock
from wattledger_agent.settings import load_settings
from tests.fake_nvml import fake_fleet

with tempfile.TemporaryDirectory() as place, fake_fleet(2).installed():
    settings = load_settings(
        None, node="n", watchers=("processes", "containers"), wal={"path": Path(place) / "agent.wal"},
        sampling={"probes": ("nvml",)}, kafka={"bootstrap": "127.0.0.1:1"},
    )
    agent = build_agent(settings, SystemClock())
    daemon = agent.daemon()
    for _ in range(3):
        assert len(agent.sampler.step().devices) == 2
        for loop in agent.loops:
            loop.step()
    assert agent.sampler.flush()
    for runner in agent.runners:
        runner.stop()
    agent.wal.close()
"""


def loaded_by(code: str) -> set[str]:
    """The modules that are loaded after a program ran."""
    roots = ("agent", "audit", "schemas", "sql", "streams")
    path = os.pathsep.join([str(ROOT), *(str(ROOT / name) for name in roots)])
    command = [sys.executable, "-c", f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"]
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_running_agent_with_nvml_alone_loads_nothing_heavy() -> None:
    loaded = loaded_by(RUN)
    assert {"wattledger_agent.publisher", "confluent_kafka", "pynvml", "numpy", "fastavro"} <= loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize(
    ("code", "module"),
    [
        ("from wattledger_schemas import Codec; Codec.for_url('http://127.0.0.1:1')", "httpx"),
        ("from wattledger_agent.wal_cipher import WalCipher; WalCipher([bytes(32)]).seal(b'', b'')", "cryptography"),
    ],
)
def test_what_is_asked_for_is_loaded(code: str, module: str) -> None:
    # and so would be seen above
    assert module in loaded_by(code)


def test_a_codec_without_a_registry_loads_no_http_client() -> None:
    assert "httpx" not in loaded_by("from wattledger_schemas import Codec; Codec.for_url('')")


def test_the_log_is_looked_at_without_a_broker_client() -> None:
    code = "from wattledger_agent.wal_commands import status_answer; from pathlib import Path; status_answer(Path('x'))"
    assert loaded_by(code) & (HEAVY | {"confluent_kafka", "pynvml"}) == set()
