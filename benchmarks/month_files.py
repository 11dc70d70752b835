"""Report and statement of a month over files, as `wattledger` makes them, beside a straight pandas script."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.audit import BIN, HERE, run
from benchmarks.sacct_month import write_month

TENANT, PERIOD = "acct01", "2026-10"


def report_of_files(rows: int, say: Callable[[str], None]) -> dict[str, object]:
    """Seconds and peak memory of `audit`, `statement` and pandas. The commands read files; tables are asked by SQL."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        files = write_month(folder, rows)
        inputs = [str(files.usage), str(files.billing), str(files.costs)]
        wattledger, out = str(BIN / "wattledger"), str(folder / "report")
        commands = {
            "audit": [wattledger, "audit", *inputs, "--period", PERIOD, "--out", out],
            "statement": [wattledger, "statement", *inputs, "--tenant", TENANT, "--period", PERIOD],
            "pandas": [sys.executable, str(HERE / "audit_pandas.py"), *inputs[:2], str(folder / "sums.json")],
        }
        result: dict[str, object] = {"rows": rows}
        for name, command in commands.items():
            took = run(command)
            result[name] = {"seconds": round(took.seconds, 1), "peak_mb": round(took.peak_mb)}
        say(f"files: {result}")
        return result
