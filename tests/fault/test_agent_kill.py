"""The agent killed with SIGKILL while it appends: every group that it reported as appended is in the log."""

import random
import secrets
import subprocess
import sys
import time
from pathlib import Path

from wattledger_agent.wal import Wal

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import sys
from pathlib import Path
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import WalRecord
wal = Wal(Path(sys.argv[1]))
first = int(sys.argv[2])
for group in range(first, first + 100_000):
    wal.append([WalRecord("gpu-samples", f"{group}/{i}", bytes(300)) for i in range(7)])
    print(group, flush=True)
"""
KILLS = 8


def test_no_appended_group_is_missing_after_kills(tmp_path: Path) -> None:
    seed = secrets.randbelow(10**6)
    print(f"kill seed: {seed}")
    draw = random.Random(seed)
    reported: list[int] = []
    for _ in range(KILLS):
        start = reported[-1] + 1 if reported else 0
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path / "wal"), str(start)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        assert child.stdout is not None
        time.sleep(draw.uniform(0.25, 0.6))
        child.kill()
        reported += [int(line) for line in child.stdout.read().split()]
        child.wait()
        child.stdout.close()
    wal = Wal(tmp_path / "wal")
    found = {kept.record.key for kept in wal.pending(0, 10**7)}
    assert len(reported) > 20
    assert {f"{group}/{i}" for group in reported for i in range(7)} <= found
    groups = {key.split("/")[0] for key in found}
    assert all(f"{group}/6" in found for group in groups), "a group is there whole or not at all"
    assert (wal.files_put_aside, wal.records_damaged) == (0, 0)
