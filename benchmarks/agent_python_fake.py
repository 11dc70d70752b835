"""Runs a program on the tests' Python fake of NVML, where there is no gcc for `agent_fake_nvml.c`.

    python benchmarks/agent_python_fake.py PROGRAM [ARGUMENTS]
    python benchmarks/agent_python_fake.py --smi

FAKE_GPUS and FAKE_PIDS as there. The fake's own cost is in what is measured then.
"""

import os
import runpy
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), *(str(ROOT / name) for name in ("agent", "schemas"))]

from tests.fake_nvml import FakeNvml, fake_fleet  # noqa: E402
from tests.fake_nvml_card import FakeProcess  # noqa: E402

_STEP_S = 0.1


def fleet_of_environment() -> FakeNvml:
    """The machine that FAKE_GPUS and FAKE_PIDS describe."""
    fleet = fake_fleet(int(os.environ.get("FAKE_GPUS", "8")))
    pids = [int(pid) for pid in os.environ.get("FAKE_PIDS", "").split(",") if pid]
    for place, gpu in enumerate(fleet.gpus):
        gpu.processes = [FakeProcess(pid, sm=45) for pid in pids[2 * place : 2 * place + 2]]
    return fleet


def _live(fleet: FakeNvml) -> None:
    while True:
        time.sleep(_STEP_S)
        fleet.advance(_STEP_S)


def main() -> None:
    """Run the program, or print what nvidia-smi would."""
    fleet = fleet_of_environment()
    if sys.argv[1:] == ["--smi"]:
        for gpu in fleet.gpus:
            watts, used, total = gpu.power_mw / 1000, gpu.memory[2] >> 20, gpu.memory[0] >> 20
            print(f"{gpu.index}, {gpu.uuid}, {gpu.name}, {watts}, {watts}, 97, {used}, {total}, 45, 0x0")
        return
    threading.Thread(target=_live, args=(fleet,), daemon=True).start()
    sys.argv = sys.argv[1:]
    with fleet.installed():
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
