"""A disk that takes no more: the log says so, keeps what it had, and takes records again when there is room."""

import subprocess
import sys
from pathlib import Path

from wattledger_agent.wal import Wal

ROOT = Path(__file__).resolve().parents[2]
# A limit on the size of files is a full disk for one process: writes beyond it fail with EFBIG, at COMMIT too.
CHILD = """
import resource, sys
from pathlib import Path
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import WalRecord, WalUnavailable

def group(number):
    return [WalRecord("job-events", f"{number}/{i}", bytes(3000)) for i in range(3)]

wal = Wal(Path(sys.argv[1]))
ceiling = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
number = 0
for limit in (200_000, 400_000, 900_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, ceiling))
    refused = 0
    while refused < 3:
        try:
            wal.append(group(number))
            print("kept", number)
        except WalUnavailable:
            refused += 1
            print("refused", number)
        number += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (ceiling, ceiling))
    wal.append(group(number))
    print("kept", number)
    number += 1
print("bytes", wal.kept_bytes)
"""


def test_a_full_disk_refuses_whole_groups_and_recovers_when_there_is_room(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "wal")], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert child.returncode == 0, child.stderr[-2000:]
    said = [line.split() for line in child.stdout.splitlines() if line.startswith(("kept", "refused", "bytes"))]
    kept = [int(number) for word, number in said if word == "kept"]
    assert len([word for word, _ in said if word == "refused"]) == 9
    wal = Wal(tmp_path / "wal")
    found = [record.record.key for record in wal.pending(0, 10**6)]
    assert found == [f"{number}/{i}" for number in kept for i in range(3)]
    assert int(said[-1][1]) == wal.kept_bytes
    assert (wal.files_put_aside, wal.records_damaged) == (0, 0)
