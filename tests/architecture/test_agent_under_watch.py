"""The whole agent runs under watch and does nothing but read: by Python's audit events, by the vendor's functions that
it looks up, and by a kernel that would kill it for a child process. Each watch is shown to see what it is for."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from wattledger_schemas import Codec

from tests.architecture.agent_watch import can_forbid_processes
from tests.architecture.layout import PACKAGES, ROOT
from tests.kube_pod_resources_server import container, devices, kubelet_socket, pod
from tests.slurm_watch_case import drop_text, put_drop
from tests.unit.agent_mock_broker import MockBroker, mock_broker

FAKE_SOURCE = ROOT / "benchmarks" / "agent_fake_nvml.c"
CODEC = Codec()
WITHIN_S = 90
AT_WORK = {"symbol", "change:open", "change:os.chmod", "change:os.remove", "change:sqlite3.connect", "socket.bind"}
"""What the watch sees of an agent that reads cards, keeps a log, tidies the folder of drops and listens."""
PLANTED = {
    "subprocess": "import subprocess; subprocess.Popen(['true'])",
    "a shell": "import os; os.system('true')",
    "fork": "import os; os.fork()",
    "exec": "import os; os.execv('/bin/true', ['true'])",
    "spawn": "import os; os.posix_spawn('/bin/true', ['true'], {})",
    "multiprocessing": "import multiprocessing as m; m.get_context('fork').Process(target=print).start()",
    "a signal to another": "import os; os.kill(os.getppid(), 0)",
    "a device's control": "import fcntl, sys; fcntl.ioctl(sys.stdin, 0x5401)",
    "a file elsewhere": "open(FOLDER.parent / 'x', 'w')",
    "a file above": "(FOLDER / '..' / 'x').write_text('')",
    "a file through a link": "(FOLDER / 'link' / 'x').write_text('')",
    "a number elsewhere": "import os; os.open(FOLDER.parent / 'x', os.O_CREAT | os.O_WRONLY)",
    "a folder elsewhere": "(FOLDER.parent / 'x').mkdir()",
    "a removal elsewhere": "import os; os.remove(FOLDER.parent / 'x')",
    "a file carried out": "(FOLDER / 'own').rename(FOLDER.parent / 'x')",
    "a database elsewhere": "import sqlite3; sqlite3.connect(FOLDER.parent / 'x')",
    "another port": "import socket; socket.socket().bind(('127.0.0.1', 0))",
    "every address": "import socket; socket.socket().bind(('0.0.0.0', PORT))",
    "another library": "import ctypes; ctypes.CDLL('libm.so.6')",
    "a function of libc": "import ctypes; ctypes.CDLL(None).kill",
    "a setter": "WATCH.symbol('nvmlDeviceSetPowerManagementLimit')",
    "an AMD setter": "WATCH.symbol('amdsmi_set_power_cap')",
}
ALLOWED = """
import ctypes, os, socket, sqlite3
open('/dev/null').close()
(FOLDER / 'own').write_text('x')
(FOLDER / 'own').rename(FOLDER / 'mine')
os.remove(FOLDER / 'mine')
sqlite3.connect(FOLDER / 'log').close()
sqlite3.connect(f'file://{FOLDER}/log?mode=ro', uri=True).close()
socket.socket().bind(('127.0.0.1', PORT))
socket.socket(socket.AF_UNIX).bind(f'{FOLDER}/s')
WATCH.symbol('nvmlDeviceGetPowerUsage')
import threading
threading.Thread(target=print).start()
"""


def python(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter: an audit hook or a filter can't be taken back. Writes no byte code."""
    roots = os.pathsep.join([str(ROOT), *(str(folder.parent) for folder in PACKAGES.values())])
    env = {**os.environ, "PYTHONPATH": roots, **more}
    command = [sys.executable, "-B", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=WITHIN_S)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def own() -> Iterator[Path]:
    """The agent's folder. Its path is short: unix sockets lie in it."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve() / "own"
        folder.mkdir()
        (folder / "link").symlink_to(folder.parent)
        yield folder


def under_watch(own: Path, code: str) -> subprocess.CompletedProcess[str]:
    begun = f"""
import sys
from pathlib import Path
from tests.architecture.agent_watch import Watch
FOLDER, PORT = Path({str(own)!r}), {free_port()}
WATCH = Watch(FOLDER, PORT)
WATCH.install()
"""
    return python("-c", begun + code)


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_the_watch_stops_what_is_more_than_reading(own: Path, planted: str) -> None:
    done = under_watch(own, planted)
    assert done.returncode != 0
    assert "NotReading" in done.stderr.splitlines()[-1], done.stderr
    assert not (own.parent / "x").exists()


def test_the_watch_lets_reading_pass(own: Path) -> None:
    done = under_watch(own, ALLOWED)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not can_forbid_processes(), reason="the filter is for x86-64 Linux")
@pytest.mark.parametrize(
    ("code", "ends"),
    [
        ("import ctypes; ctypes.CDLL(None).fork()", -signal.SIGSYS),
        ("import ctypes; ctypes.CDLL(None).system(b'true')", -signal.SIGSYS),
        ("import os; os.execv('/bin/true', ['true'])", -signal.SIGSYS),
        ("import subprocess; subprocess.run(['true'])", -signal.SIGSYS),
        ("import threading; t = threading.Thread(target=print); t.start(); t.join()", 0),
    ],
)
def test_the_kernel_ends_a_process_that_starts_another(code: str, ends: int) -> None:
    begun = "from tests.architecture.agent_watch import forbid_processes; forbid_processes()\n"
    assert python("-c", begun + code).returncode == ends


def settings(own: Path, port: int, bootstrap: str) -> Path:
    """All probes but the player, all watchers, on places in the folder."""
    (own / "drop").mkdir(mode=0o700)
    put_drop(own / "drop", drop_text(SLURM_JOB_GPUS="0"))
    text = f"""
node = "gpu01"
cluster = "alpha"
http_port = {port}
watch_s = 0.2
watchers = ["slurm", "kubernetes", "containers", "processes"]
[wal]
path = "{own}/state/agent.wal"
[sampling]
probes = ["nvml", "amdsmi", "rapl", "scrape"]
period_ms = 100
flush_s = 1
scrape_url = "http://127.0.0.1:9/metrics"
[kafka]
bootstrap = "{bootstrap}"
[slurm]
drop_dir = "{own}/drop"
files = ["{own}/sacct-*.txt"]
socket = "{own}/slurm.sock"
socket_uids = [{os.getuid()}]
[kubernetes]
pod_resources = "{own}/kubelet.sock"
api = false
[processes]
tag_uids = "all"
"""
    config = own / "agent.toml"
    config.write_text(text)
    return config


def compiled(folder: Path) -> dict[str, str]:
    """The environment in which the loader finds the benchmark's library as NVIDIA's."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("needs gcc")
    folder.mkdir()
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([gcc, "-O1", "-shared", "-fPIC", "-o", str(library), str(FAKE_SOURCE), "-lm"], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "FAKE_GPUS": "3", "FAKE_PIDS": str(os.getpid()), "FAKE_MIG": "1"}


def ask(port: int, path: str) -> str:
    """A page of the agent, as soon as it answers."""
    until_s = time.monotonic() + WITHIN_S
    while time.monotonic() < until_s:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return str(answer.read().decode())
        time.sleep(0.1)
    raise AssertionError(f"{path} does not answer")


@pytest.mark.parametrize("library", ["python", "c"])
def test_the_whole_agent_only_reads(own: Path, tmp_path: Path, library: str) -> None:
    more = compiled(tmp_path / "library") if library == "c" else {}
    port = free_port()
    with mock_broker() as broker, kubelet_socket(own) as kubelet, ThreadPoolExecutor(1) as asking:
        held = devices("nvidia.com/gpu", "GPU-00000000-0000-4000-8000-000000000002")
        kubelet.pods = [pod("ml", "train-0", container("main", held))]
        config = settings(own, port, broker.bootstrap)
        page = asking.submit(ask, port, "/metrics")
        done = python("-m", "tests.architecture.agent_watched", str(own), str(port), library, str(config), **more)
        assert done.returncode == 0, done.stderr[-3000:]
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        assert told["wrong"] == []
        assert AT_WORK - told["seen"].keys() == set()
        assert told["seen"]["symbol"] > 20
        assert (library == "python") or told["seen"]["ctypes.dlopen"]
        assert "wattledger_agent_ticks_total" in page.result(WITHIN_S)
        batches, events = records(broker, "gpu-samples"), records(broker, "job-events")
        assert {len(batch["devices"]) for batch in batches} == {3}
        assert {event["source"] for event in events} >= {"slurm", "kubernetes"}


def records(broker: MockBroker, topic: str) -> list[dict[str, Any]]:
    """What the agent published."""
    return [CODEC.decode(value).record for values in broker.read(topic).values() for value in values]
