"""Margin, idle burn, refresh, live cost, insert rate and report over a month of 1,000 GPUs in ClickHouse's engine.

    python benchmarks/month.py [--gpus 1000] [--days 30] [--flush 300] [--growth 60,120] [--growth-days 3,10]
        [--json PATH] [--markdown PATH]

The tables are the product's own (chDB, its migrations), filled by INSERT SELECT and held against the laws first. A full
run takes about a quarter of an hour on two quiet cores, 5 GB of disk and 6 GB of memory.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from wattledger_sql.migrate import migrate
from wattledger_sql.verify import verify

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.month_ask import ask, named, same_answers  # noqa: E402
from benchmarks.month_clock import machine, peak_mb, timed  # noqa: E402
from benchmarks.month_files import report_of_files  # noqa: E402
from benchmarks.month_fleet import Fleet, fill  # noqa: E402
from benchmarks.month_refresh import first_build, steps, stop_views  # noqa: E402
from benchmarks.month_sink import sink_rates  # noqa: E402
from benchmarks.month_table import markdown  # noqa: E402
from tests.fault_harness.stop_signal import leave_on_sigterm  # noqa: E402

Say = Callable[[str], None]
_SIZES = (
    "SELECT table, sum(rows), sum(bytes_on_disk), count() FROM system.parts WHERE active"
    " AND database = currentDatabase() AND table IN ('usage_lines', 'device_totals', 'cost_rows') GROUP BY table"
)


def open_engine(folder: Path) -> Client:
    """An engine of its own with the product's tables, and its views at rest."""
    client = clickhouse_connect.get_client(interface="chdb", path=str(folder))
    client.command("CREATE DATABASE wattledger")
    client.database = "wattledger"
    migrate(client)
    stop_views(client)
    return client


def hold_to_laws(client: Client) -> dict[str, object]:
    """Raises `RuntimeError` naming the laws that the rows break."""
    results = []
    took = timed(lambda: results.extend(verify(client)))
    broken = [f"{law.name}: {law.violations}, such as {law.rows[:1]}" for law in results if not law.ok]
    if broken:
        raise RuntimeError("the ledger breaks laws: " + "; ".join(broken))
    return {"laws": len(results), **took.as_json()}


def measure(fleet: Fleet, folder: Path, say: Say, short: bool) -> dict[str, object]:
    """Everything over one month; `short` leaves out the laws, the insert rate and the named queries."""
    client = open_engine(folder)
    made = timed(lambda: fill(client, fleet, say))
    sizes = client.query(_SIZES).result_rows
    result: dict[str, object] = {
        "gpus": fleet.gpus, "days": fleet.days, "tenants": fleet.tenants, "flush_s": fleet.flush_s,
        "made": made.as_json(),
        "tables": {name: {"rows": rows, "mb": round(size / 1e6), "parts": parts} for name, rows, size, parts in sizes},
    }  # fmt: skip
    say(str(result))
    result["first_build"] = first_build(client, say)
    if not short:
        result["verified"] = hold_to_laws(client)
        say(str(result["verified"]))
        same_answers(client)
    result["questions"] = ask(client, say)
    result["refresh"] = steps(client, fleet, say)
    if not short:
        result["named"] = named(client, say)
        stop_views(client)
        result["sink"] = sink_rates(client, say)
    result["peak_mb"] = peak_mb()
    client.close()
    return result


def grown(fleet: Fleet, flush_s: int, days: int, say: Say) -> dict[str, object]:
    """The same fleet with a flush over fewer days, in a process of its own: a process has one engine."""
    say(f"flush of {flush_s} s over {days} days")
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "one.json"
        sizes = ["--gpus", str(fleet.gpus), "--tenants", str(fleet.tenants), "--days", str(days)]
        command = [sys.executable, __file__, *sizes, "--flush", str(flush_s), "--short", "--json", str(out)]
        subprocess.run(command, check=True)
        found: dict[str, object] = json.loads(out.read_text())["month"]
        return found


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def main() -> None:
    """Measure, print the table, and write JSON and Markdown where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=1000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--tenants", type=int, default=300)
    parser.add_argument("--flush", type=int, default=300, help="seconds of a sample batch; divides 900")
    parser.add_argument("--growth", default="", help="flushes to compare over each of --growth-days, such as 300,60,30")
    parser.add_argument("--growth-days", default="3", help="days of history, such as 3,10")
    parser.add_argument("--rows", type=int, default=100_000, help="sacct rows of the report over files; 0: none")
    parser.add_argument("--short", action="store_true", help="no laws, insert rate, named queries or report")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    asked = parser.parse_args()
    leave_on_sigterm()
    if 900 % asked.flush:
        parser.error(f"--flush {asked.flush} does not divide a quarter-hour of 900 s")
    fleet = Fleet(asked.gpus, asked.days, asked.tenants, asked.flush)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    results: dict[str, object] = {"machine": machine()}
    if asked.rows and not asked.short:
        # First: a child's peak begins at what this process holds when it is started.
        results["files"] = report_of_files(asked.rows, say)
    with tempfile.TemporaryDirectory() as place:
        results["month"] = measure(fleet, Path(place) / "clickhouse", say, asked.short)
    flushes, histories = numbers(asked.growth), numbers(asked.growth_days)
    results["growth"] = [grown(fleet, flush_s, days, say) for flush_s in flushes for days in histories]
    text = markdown(results)
    print(text)
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1) + "\n")
    if asked.markdown:
        asked.markdown.write_text(text)


if __name__ == "__main__":
    main()
