"""The table of fault cases: what ran, what was seen, and what no case has shown."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fault_harness.fault_list import FAULTS, PROMISES
from tests.fault_harness.fault_report import FAILED, NOT_RUN, OK, Case, as_markdown
from tests.plugins_faults import mark_problem

ROOT = Path(__file__).resolve().parent.parent.parent
_CASES = """
import pytest

@pytest.mark.quick
@pytest.mark.fault((1, 2), "killed", "all there")
def test_good(seen):
    seen("12 kills")

@pytest.mark.quick
@pytest.mark.fault(3, "filled", "a gap | or none")
def test_bad(seen):
    seen("disk full")
    assert 1 == 2, "one missing"

@pytest.mark.fault((4, 1), "waited", "all there")
def test_long(seen):
    seen("an hour")
"""


def run(folder: Path, *options: str, cases: str = _CASES) -> tuple[str, Path]:
    """A pytest run of these cases alone, with the plugin of every run; its output and its `out` folder."""
    (folder / "test_some.py").write_text(cases)
    (folder / "pytest.ini").write_text("[pytest]\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    args = [sys.executable, "-m", "pytest", "-q", "-p", "tests.plugins_faults", "--rootdir", str(folder), *options]
    done = subprocess.run(args, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr, folder / "out"


def test_a_run_leaves_a_table_of_what_each_case_did_and_saw(tmp_path: Path) -> None:
    output, out = run(tmp_path)
    assert "fault cases: 2 ran, 1 failed" in output
    table = (out / "faults-quick.md").read_text()
    assert f"| 1 | {FAULTS[1]} | killed | all there | 12 kills | 0.0 | ok |" in table
    assert f"| 2 | {FAULTS[2]} | killed | all there | 12 kills | 0.0 | ok |" in table
    assert "disk full; AssertionError: one missing | 0.0 | FAILED |" in table and "a gap \\| or none" in table
    assert "| 4 |" in table and "not run" in table
    missing = table.split("Not shown in this run: ")[1]
    assert missing.startswith("4, 5, 6, ")
    cases = json.loads((out / "faults-quick.json").read_text())["cases"]
    assert [case["outcome"] for case in cases] == ["ok", "FAILED", "not run"]
    output, out = run(tmp_path, "--faults")
    assert "fault cases: 3 ran, 1 failed" in output and "an hour" in (out / "faults.md").read_text()


def test_a_mark_that_the_table_can_not_show_is_refused(tmp_path: Path) -> None:
    for values in ((31, "a", "b"), (1, "a"), (1, "", "b"), ((), "a", "b"), ((1, 31), "a", "b")):
        assert mark_problem(pytest.mark.fault(*values).mark), values
    assert mark_problem(pytest.mark.fault((1, 30), "a", "b").mark) == ""
    output, _ = run(tmp_path, cases='import pytest\n@pytest.mark.fault(1, "a")\ndef test_it(): pass\n')
    assert "say fault(number" in output


def test_every_fault_tests_a_promise_and_a_promise_is_as_good_as_its_worst_case() -> None:
    assert {number for promise in PROMISES for number in promise.faults} == set(FAULTS)
    one = Case((24,), "a", "done", "expected", "", 1.0, OK)
    table = as_markdown([one, Case((25,), "b", "done", "expected", "x", 1.0, FAILED)])
    [late] = [line for line in table.splitlines() if "24, 25, 26" in line]
    assert late.endswith("| 2 | FAILED |")
    [late] = [line for line in as_markdown([one]).splitlines() if "24, 25, 26" in line]
    assert late.endswith("| 1 | ok |")
    assert "(nothing recorded)" in as_markdown([one])
    idle = as_markdown([Case((26,), "c", "d", "e", "", 0.0, NOT_RUN)])
    assert any("24, 25, 26" in line and line.endswith("| 1 | not run |") for line in idle.splitlines())
