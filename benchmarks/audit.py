"""The offline audit over a month of `sacct` rows with invoices and costs, beside a straight pandas script.

    python benchmarks/audit.py [--rows 100000,300000,1000000] [--json]

Both run as processes of their own in one run, on the same files, and are given as ratios too: machines are noisy.
Peak memory is the process's resident maximum. The hours of both must agree, or the benchmark fails.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.sacct_month import MonthFiles, write_month  # noqa: E402

BIN = Path(sys.executable).parent


@dataclass(frozen=True, slots=True)
class Measured:
    """One process: wall time, CPU time, peak resident memory."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def run(command: list[str]) -> Measured:
    """Run a process to its end. Raises `RuntimeError` when it fails."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {said.decode()[-2000:]}")
    return Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def compare(files: MonthFiles, folder: Path) -> dict[str, object]:
    """Both over the same files; raises `RuntimeError` when their hours differ."""
    report, sums = folder / "report", folder / "pandas.json"
    pandas = run([sys.executable, str(HERE / "audit_pandas.py"), str(files.usage), str(files.billing), str(sums)])
    inputs = [str(files.usage), str(files.billing), str(files.costs)]
    ours = run([str(BIN / "wattledger"), "audit", *inputs, "--period", "2026-10", "--out", str(report)])
    _agree(report / "report.json", sums)
    return {
        "rows": files.rows,
        "wattledger": _figures(ours, files.rows),
        "pandas": _figures(pandas, files.rows),
        "time_ratio": round(ours.seconds / pandas.seconds, 2),
        "memory_ratio": round(ours.peak_mb / pandas.peak_mb, 2),
    }


def _figures(measured: Measured, rows: int) -> dict[str, float]:
    return {
        "seconds": round(measured.seconds, 1),
        "cpu_seconds": round(measured.cpu_seconds, 1),
        "rows_per_second": round(rows / measured.seconds),
        "peak_mb": round(measured.peak_mb),
    }


def _agree(report: Path, sums: Path) -> None:
    ours = {row["tenant"]: Decimal(row["gpu_hours"]) for row in json.loads(report.read_text())["tenants"]}
    theirs = {name: Decimal(str(row["gpu_hours"])) for name, row in json.loads(sums.read_text())["tenants"].items()}
    for name, hours in ours.items():
        if abs(hours - theirs[name]) > Decimal("0.0001"):
            raise RuntimeError(f"{name}: {hours} GPU-hours against pandas's {theirs[name]}")


def main() -> None:
    """Measure and print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="100000,300000,1000000")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as place:
        for rows in (int(part) for part in asked.rows.split(",")):
            folder = Path(place) / str(rows)
            results.append(compare(write_month(folder, rows), folder))
            if not asked.json:
                _show(results[-1])
    if asked.json:
        print(json.dumps(results, indent=1))


def _show(result: dict[str, object]) -> None:
    print(
        f"{result['rows']} rows: wattledger {result['wattledger']}, pandas {result['pandas']}, "
        f"time × {result['time_ratio']}, memory × {result['memory_ratio']}",
        flush=True,
    )


if __name__ == "__main__":
    main()
