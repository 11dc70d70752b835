"""Restart to first row: a worker killed with SIGKILL under load, on Apache Kafka with a day of history behind it.

    python benchmarks/restart.py [--session-timeout 10,6] [--rounds 2] [--jobs 5000] [--json PATH] [--markdown PATH]

Each of sessions, meter and sink in turn: seconds from the kill to the first record it produces, or to the first row in
ClickHouse, and where they go. The stack's supervisor, which looks each half second, starts it again.
"""

import argparse
import json
import sys
import tempfile
import threading
from itertools import dropwhile, takewhile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from wattledger_audit.demo import play_into  # noqa: E402
from wattledger_audit.generated_fleet import demo_day  # noqa: E402
from wattledger_audit.generated_fleet.day import DAY_END_US  # noqa: E402
from wattledger_audit.stack import WORKERS, Stack, StackSettings  # noqa: E402

from benchmarks.month_clock import machine  # noqa: E402
from benchmarks.restart_jobs import with_jobs  # noqa: E402
from benchmarks.restart_table import markdown  # noqa: E402
from benchmarks.restart_watch import Restart, Watch, imports_s  # noqa: E402
from tests.fault_harness.stop_signal import leave_on_sigterm  # noqa: E402

LIBS = ROOT / ".cache" / "kafka" / "libs"
PARTITIONS = 2
FUTURE_LIMIT_S = 7200
LOAD_HOURS = 10
SPEED = 60.0
HOUR_US = 3_600_000_000


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def measure(folder: Path, timeout_s: float, rounds: int, jobs: int) -> dict[str, object]:
    """A stack of its own: history in and settled, the rest of the day played meanwhile, `rounds` kills a worker."""
    env = {"WATTLEDGER_SESSION_TIMEOUT_S": str(timeout_s)}
    settings = StackSettings(folder, LIBS, "kafka", PARTITIONS, future_limit_s=FUTURE_LIMIT_S, extra_env=env)
    cut_us = DAY_END_US - LOAD_HOURS * HOUR_US
    history = takewhile(lambda emission: emission.at_us < cut_us, with_jobs(demo_day(), jobs))
    rest = dropwhile(lambda emission: emission.at_us < cut_us, with_jobs(demo_day(), jobs))
    killed_all = threading.Event()
    going_on = takewhile(lambda _: not killed_all.is_set(), rest)
    with Stack(settings) as stack:
        play_into(stack, history, say)
        watch = Watch(stack)
        load = threading.Thread(target=lambda: play_into(stack, going_on, say, SPEED), daemon=True)
        load.start()
        watch.until_caught_up(900)
        records = watch.records()
        say(f"history: {records}")
        found: list[Restart] = []
        for name in WORKERS * rounds:
            if not load.is_alive():
                raise RuntimeError("the load ended before the kills: fewer rounds, or more LOAD_HOURS")
            found.append(watch.restart(name))
            say(str(found[-1]))
        killed_all.set()
        watch.close()
        load.join()
    return {"session_timeout_s": timeout_s, "records": records, "restarts": [one.as_json() for one in found]}


def main() -> None:
    """Measure for each session timeout, print the table, write JSON and Markdown where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--session-timeout", default="10,6", help="seconds, with commas; 10 is the product's default")
    parser.add_argument("--rounds", type=int, default=2, help="kills of each worker")
    parser.add_argument("--jobs", type=int, default=5000, help="more jobs of the day, on nodes without agents")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    asked = parser.parse_args()
    leave_on_sigterm()
    results: dict[str, object] = {"machine": machine(), "imports_s": imports_s(WORKERS), "runs": []}
    for timeout_s in map(float, asked.session_timeout.split(",")):
        with tempfile.TemporaryDirectory() as place:
            results["runs"].append(measure(Path(place), timeout_s, asked.rounds, asked.jobs))  # type: ignore[attr-defined]
    text = markdown(results)
    print(text)
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1) + "\n")
    if asked.markdown:
        asked.markdown.write_text(text)


if __name__ == "__main__":
    main()
