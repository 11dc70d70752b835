"""The agent's log under SIGKILL at moments drawn from a printed seed: nothing appended is lost, no group is torn."""

import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from wattledger_agent.wal import Wal

from tests.unit.agent_records import numbers, read_all

pytestmark = pytest.mark.quick
KILLS = 8
_WRITE = """
import os, random, sys
from pathlib import Path
sys.path[:0] = sys.argv[3].split(os.pathsep)
from tests.unit.agent_records import number_of, read_all, records
from wattledger_agent.wal import Wal
wal, rng = Wal(Path(sys.argv[1])), random.Random(int(sys.argv[2]))
first = int.from_bytes(wal.last_tick("n1") or b"", "big")
os.write(1, f"O {first}\\n".encode())
while True:
    last = first + rng.randint(1, 60)
    os.write(1, f"B {first} {last}\\n".encode())
    wal.append(records(first, last, size_bytes=rng.randint(10, 4000)), {"n1": last.to_bytes(8, "big")})
    os.write(1, f"A {first} {last}\\n".encode())
    first = last
    if rng.random() < 0.4:
        some = [kept for kept in wal.pending(0, rng.randint(1, 90)) if rng.random() < 0.9]
        # the broker has them from here on; the kill may come before they are deleted
        os.write(1, ("D " + " ".join(str(number_of(kept.record)) for kept in some) + "\\n").encode())
        wal.settle([kept.seq for kept in some])
"""


def run_and_kill(path: Path, rng: random.Random) -> list[list[int | str]]:
    """Let a child write until it is killed; the lines it said, as words."""
    args = [sys.executable, "-c", _WRITE, str(path), str(rng.randrange(1 << 30)), os.pathsep.join(sys.path)]
    with subprocess.Popen(args, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        opened = child.stdout.readline().decode()
        time.sleep(rng.uniform(0.0, 0.25))
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().decode()
    said = [line.split() for line in (opened + rest).splitlines(keepends=True) if line.endswith("\n")]
    return [[words[0], *map(int, words[1:])] for words in said]


@pytest.mark.fault(
    1, f"SIGKILL of a process that writes its log, {KILLS} times", "no appended record lost, no group torn"
)
def test_no_appended_record_is_lost_and_no_group_is_torn_over_kills(
    tmp_path: Path, seen: Callable[[str], None]
) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    path = tmp_path / "a.wal"
    acknowledged: set[int] = set()
    delivered: set[int] = set()
    for _ in range(KILLS):
        began: tuple[int, int] = (0, 0)
        for word, *values in run_and_kill(path, rng):
            if word == "B":
                began = (int(values[0]), int(values[1]))
            elif word == "A":
                acknowledged |= set(range(int(values[0]), int(values[1])))
            elif word == "D":
                delivered |= {int(value) for value in values}
        wal = Wal(path)
        kept = numbers(read_all(wal))
        unfinished = set(range(*began)) - acknowledged
        assert (wal.files_put_aside, wal.records_damaged) == (0, 0)
        assert acknowledged - delivered - set(kept) == set(), f"seed {seed}: lost"
        assert kept == sorted(set(kept)), f"seed {seed}: order or repetition"
        extra = set(kept) - acknowledged
        assert extra in (set(), unfinished), f"seed {seed}: a torn group"
        last = int.from_bytes(wal.last_tick("n1") or b"", "big")
        assert last == max(acknowledged | extra, default=-1) + 1, f"seed {seed}: last tick is not the last group's"
        acknowledged |= extra
        wal.close()
    seen(f"seed {seed}: {len(acknowledged)} records durable, {len(delivered)} delivered, none missing")
    assert len(acknowledged) > 500 and delivered
