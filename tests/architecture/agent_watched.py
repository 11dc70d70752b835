"""`python -B -m tests.architecture.agent_watched FOLDER PORT LIBRARY CONFIG`: the whole agent under watch, on fakes.

LIBRARY `python`: the tests' fake below the real binding; `c`: the libnvidia-ml.so.1 that the loader finds. Runs for a
while, then looks at everything as `doctor` and `probe` do; prints what was seen as JSON.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.architecture.agent_watch import Watch, can_forbid_processes, forbid_processes

RUN_S = 4.0
_STEP_S = 0.05


class _LookedAt:
    """A library whose functions are looked up under the watch."""

    def __init__(self, library: Any, watch: Watch) -> None:
        self._library, self._watch = library, watch

    def __getattr__(self, name: str) -> Any:
        self._watch.symbol(name)
        return getattr(self._library, name)


def _let_time_pass(fleet: Any) -> None:
    while True:
        time.sleep(_STEP_S)
        fleet.advance(_STEP_S)


@contextmanager
def _cards(watch: Watch) -> Iterator[None]:
    """Three cards: a plain one, one cut into instances, one that tells little; this process is on all of them."""
    import pynvml

    from tests import fake_nvml
    from tests.fake_nvml_card import FakeInstance, FakeProcess

    fleet = fake_nvml.fake_fleet(3)
    for gpu in fleet.gpus:
        gpu.processes = [FakeProcess(os.getpid(), sm=30)]
    fleet.gpus[1].mig_mode = 1
    fleet.gpus[1].instances = [FakeInstance(1, "3g.40gb", ("MIG-00000000-0000-4000-8000-000000000001",))]
    fleet.gpus[2].field_codes = {185: 3, 186: 3, 83: 3}
    threading.Thread(target=_let_time_pass, args=(fleet,), daemon=True).start()
    with fleet.installed():
        pynvml.nvmlLib = _LookedAt(pynvml.nvmlLib, watch)
        yield


def _use_all(config: Path) -> None:
    """Run; then everything else that only looks."""
    from wattledger_agent.build import build_probes
    from wattledger_agent.clock import SystemClock
    from wattledger_agent.probe_once import once_json
    from wattledger_agent.running import examine, run_agent
    from wattledger_agent.settings import load_settings
    from wattledger_agent.wal_commands import status_answer, verify_answer
    from wattledger_schemas import Codec

    settings, stop, clock = load_settings(config), threading.Event(), SystemClock()
    threading.Timer(RUN_S, stop.set).start()
    run_agent(settings, stop)
    examine(settings)
    once_json(build_probes(settings, clock, Codec()), clock)
    status_answer(settings.wal.path, True)
    verify_answer(settings.wal.path, None, True)


def main(folder: Path, port: int, library: str, config: Path) -> None:
    """Raises NotReading at the first thing that is more than reading."""
    if can_forbid_processes():
        forbid_processes()
    watch = Watch(folder, port)
    watch.install()
    if library == "c":
        _use_all(config)
    else:
        with _cards(watch):
            _use_all(config)
    print(json.dumps({"wrong": watch.wrong, "seen": watch.seen}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
