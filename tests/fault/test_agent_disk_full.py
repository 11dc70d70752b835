"""The agent's log on a file system that is really full: a small tmpfs in a mount namespace of the test's own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_FILL = """
import os, sys
sys.path[:0] = sys.argv[3].split(os.pathsep)
from pathlib import Path
from tests.unit.agent_records import gaps, numbers, read_all, records
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import WalUnavailable
wal, taken, refused = Wal(Path(sys.argv[1]), when_full=sys.argv[2]), 0, 0
for _ in range(400):
    try:
        wal.append(records(taken, taken + 20, size_bytes=3000))
        taken += 20
    except WalUnavailable:
        refused += 1
kept = read_all(wal)
lost = set(range(taken)) - set(numbers(kept))
named = sum(gap["count"] for gap in gaps(kept))
# the broker has them: the full disk must not keep them from being deleted
wal.settle([one.seq for one in kept])
wal.append(records(taken, taken + 20, size_bytes=3000))
recovered = numbers(read_all(wal)) == list(range(taken, taken + 20))
print("RESULT", taken, refused, len(lost), named, int(recovered))
"""


def can_mount() -> bool:
    """Whether this machine lets the test mount a file system that nobody else sees."""
    if shutil.which("unshare") is None:
        return False
    tried = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def fill(folder: Path, policy: str) -> list[int]:
    """Taken, refused, lost, named in gap records, whether it recovered."""
    folder.mkdir()
    script = f'mount -t tmpfs -o size=20m tmpfs {folder} && exec {sys.executable} -c "$0" {folder}/a.wal {policy} "$1"'
    args = ["unshare", "-m", "sh", "-c", script, _FILL, os.pathsep.join(sys.path)]
    found = subprocess.run(args, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr
    [line] = [line for line in found.stdout.splitlines() if line.startswith("RESULT")]
    return [int(word) for word in line.split()[1:]]


@pytest.mark.quick
@pytest.mark.fault(3, "a file system of 20 MB filled", "policy holds, gap records match, delivery frees it")
@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a tmpfs (root, and unshare)")
def test_on_a_full_disk_the_policy_holds_gap_records_match_and_delivery_frees_it(
    tmp_path: Path, seen: Callable[[str], None]
) -> None:
    taken, refused, lost, named, recovered = fill(tmp_path / "drop", "drop_oldest")
    seen(f"drop_oldest: {taken} taken, {lost} given up, {named} named")
    assert (taken, refused, recovered) == (8000, 0, 1)
    assert lost == named > 0
    taken, refused, lost, named, recovered = fill(tmp_path / "block", "block")
    seen(f"block: {taken} taken, {refused} groups refused, {lost} lost")
    assert refused > 0 and taken > 0
    assert (lost, named, recovered) == (0, 0, 1)
