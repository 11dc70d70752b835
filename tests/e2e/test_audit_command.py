"""The `wattledger audit` command as a process: what it writes, what it says where, and what it exits with."""

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from tests.audit_runner import BILLING_HEADER, USAGE_HEADER

COMMAND = Path(sys.executable).parent / "wattledger"
USAGE = USAGE_HEADER + (
    "j1,0,acme,p,n1,,H100,8,1,1,2026-10-01T00:00:00Z,2026-10-11T00:00:00Z,COMPLETED,,\n"
    "j2,0,bravo,p,n2,,H100,4,1,1,2026-10-12T00:00:00Z,2026-10-22T12:00:00Z,COMPLETED,,\n"
    'j3,0,"=HYPERLINK(""http://x"")",p,n2,,H100,1,1,1,2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,COMPLETED,,\n'
    "j4,0,acme,p,n1,,H100,8,1,1,2026-10-11T00:00:00Z,2026-10-10T00:00:00Z,COMPLETED,,\n"
)
BILLING = BILLING_HEADER + (
    "I1,acme,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,H100 on-demand,1920,GPU-hours,1920.00,USD\n"
    "I2,bravo,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,H100 on-demand,1008,GPU-hours,5040.00,USD\n"
)
COSTS = """currency: USD
timezone: UTC
fleet:
  - {node: "n[1-2]", gpu_model: H100, gpus: 8}
compute:
  - {gpu_model: H100, per_gpu_hour: 1.50}
idle: separate
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), "audit", *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    for name, text in (("usage.csv", USAGE), ("invoices.csv", BILLING), ("costs.yaml", COSTS)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_an_audit_writes_every_output_and_a_verdict_of_twenty_lines(inputs: Path) -> None:
    done = run(inputs, "usage.csv", "invoices.csv", "costs.yaml", "--period", "2026-10", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) <= 20
    out = inputs / "out"
    written = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert {"report.html", "report.json", "report.xlsx", "rejected.csv", "manifest.json", "tables/tenants.csv",
            "tables/tenants.parquet", "tables/runs.csv"} <= written  # fmt: skip
    report = json.loads((out / "report.json").read_text())
    acme = next(row for row in report["tenants"] if row["tenant"] == "acme")
    assert (acme["gpu_hours"], acme["cost_total"], acme["billed"], acme["margin"]) == (
        "1920.000000", "2880.00", "1920.00", "-960.00",
    )  # fmt: skip
    assert acme["below_cost"] is True
    rejected = (out / "rejected.csv").read_text().splitlines()
    assert rejected[0] == "file,line,column,value,reason"
    assert len(rejected) == 2
    assert rejected[1].startswith("usage.csv,5,end,2026-10-10T00:00:00Z,end_before_start")


def test_formulas_of_the_inputs_are_text_in_every_table(inputs: Path) -> None:
    run(inputs, "usage.csv", "invoices.csv", "--period", "2026-10", "--out", "out")
    for name in ("tenants", "runs", "bridge_evidence"):
        for line in (inputs / "out" / "tables" / f"{name}.csv").read_text().splitlines():
            assert not any(cell.lstrip('"').startswith("=") for cell in line.split(",")), line


def test_json_is_on_stdout_and_the_rest_on_stderr(inputs: Path) -> None:
    done = run(inputs, "usage.csv", "invoices.csv", "--json", "--period", "2026-10", "--out", "out")
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads((inputs / "out" / "report.json").read_text())
    assert "Bridge" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["usage.csv", "invoices.csv", "costs.yaml", "--fail-on", "below-cost"], 1, "below-cost is 2"),
        (["usage.csv", "invoices.csv", "costs.yaml", "--fail-on", "idle>20%"], 1, "idle is"),
        (["usage.csv", "invoices.csv", "costs.yaml", "--fail-on", "idle>90%"], 0, ""),
        (["usage.csv", "invoices.csv", "--fail-on", "nonsense"], 2, "use one of"),
        ([], 2, "give a usage log"),
        (["usage.csv", "--period", "October"], 2, "2026-10"),
        (["usage.csv", "--timezone", "Mars/Base"], 2, "IANA"),
        (["broken.bin"], 3, "broken.bin"),
        (["ambiguous.csv"], 3, "--decimal"),
        (["usage.csv", "missing.csv"], 2, "missing.csv"),
        (["usage.csv", "bad.yaml"], 4, "bad.yaml:4"),
    ],
)
def test_exit_codes_tell_what_went_wrong_and_the_message_what_to_do(
    inputs: Path, arguments: list[str], code: int, said: str
) -> None:
    (inputs / "broken.bin").write_bytes(bytes(range(256)) * 40)
    ambiguous = BILLING_HEADER + "I1,acme,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,H100,1,GPU-hours,1.000,USD\n"
    (inputs / "ambiguous.csv").write_text(ambiguous)
    (inputs / "bad.yaml").write_text(
        "currency: USD\ntimezone: UTC\ncompute:\n  - {gpu_model: H100, per_gpu_houer: 2}\n"
    )
    done = run(inputs, *arguments, "--out", "out")
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_same_inputs_give_the_same_bytes_wherever_they_lie(inputs: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "deep"
    other.mkdir(parents=True)
    for name in ("usage.csv", "invoices.csv", "costs.yaml"):
        (other / name).write_bytes((inputs / name).read_bytes())
    arguments = ("usage.csv", "invoices.csv", "costs.yaml", "--period", "2026-10", "--out", "out")
    run(inputs, *arguments)
    run(other, *arguments)
    first, second = inputs / "out", other / "out"
    names = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(second) for path in second.rglob("*") if path.is_file())
    for path in names:
        assert (first / path).read_bytes() == (second / path).read_bytes(), path


def test_costs_of_all_rows_sum_to_what_the_fleet_costs(inputs: Path) -> None:
    run(inputs, "usage.csv", "invoices.csv", "costs.yaml", "--period", "2026-10", "--out", "out")
    report = json.loads((inputs / "out" / "report.json").read_text())
    whole = Decimal(16 * 744) * Decimal("1.50")
    own = sum(Decimal(row["cost_own"]) for row in report["tenants"])
    idle = sum(Decimal(row["cost"]) for row in report["idle"])
    assert own + idle == whole
    assert all(tie["residual"] == "0" for tie in report["tie_out"]), report["tie_out"]
