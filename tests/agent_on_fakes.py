"""`python -m tests.agent_on_fakes COUNT SINCE_US CONFIG`: the agent as it runs, on a machine of fake cards whose
counters have grown with their power since SINCE_US, over kills and restarts too."""

import sys
import threading
import time
from pathlib import Path

from wattledger_agent.running import run_agent
from wattledger_agent.settings import load_settings

from tests.fake_nvml import FakeNvml, fake_fleet


def _live(fleet: FakeNvml, since_us: int) -> None:
    """Let time pass on the fake as it passes here."""
    passed_s = 0.0
    while True:
        now_s = time.time() - since_us / 1e6
        fleet.advance(now_s - passed_s)
        passed_s = now_s
        time.sleep(0.02)


def main(count: int, since_us: int, config: Path) -> None:
    """Run until SIGTERM."""
    from wattledger_agent.__main__ import _stop_on_signals

    fleet = fake_fleet(count)
    threading.Thread(target=_live, args=(fleet, since_us), daemon=True).start()
    with fleet.installed():
        run_agent(load_settings(config), _stop_on_signals())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
