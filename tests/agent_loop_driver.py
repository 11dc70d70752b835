"""A small agent for fault tests, run as a program: notes ticks, closes batches, publishes, and dies where told to.

It says on standard output what is durable, each line after the fact: `T at_us` a tick, `B first_us last_us` a batch.
Arguments: log, bootstrap servers, topic prefix, ticks to take, `point:n` to die at the n-th pass of a point (or `-`).
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

S = 1_000_000
T0 = 1_767_225_600 * S
FLUSH = 5
POINTS = (
    "note.before", "note.in_transaction", "note.after", "append.before", "append.in_transaction", "append.after",
    "produce.before", "settle.before", "settle.after",
)  # fmt: skip


def main(path: Path, bootstrap: str, prefix: str, ticks: int, die_at: str) -> None:
    from wattledger_agent import wal_ticks
    from wattledger_agent.publisher import Publisher
    from wattledger_agent.wal import Wal

    from tests.unit.agent_bare_batches import batch_of

    passes = dict.fromkeys(POINTS, 0)

    def reach(point: str) -> None:
        passes[point] += 1
        if die_at == f"{point}:{passes[point]}":
            os.kill(os.getpid(), signal.SIGKILL)

    def after(point: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **named: Any) -> Any:
            found = work(*args, **named)
            reach(point)
            return found

        return wrapped

    def before(point: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **named: Any) -> Any:
            reach(point)
            return work(*args, **named)

        return wrapped

    wal_ticks.note = after("note.in_transaction", wal_ticks.note)
    wal_ticks.drop_before = after("append.in_transaction", wal_ticks.drop_before)
    wal = Wal(path)
    run = int.from_bytes(wal.state("run") or b"", "big") + 1
    wal.append([], state={"run": run.to_bytes(4, "big")})
    wal.settle = before("settle.before", after("settle.after", wal.settle))  # type: ignore[method-assign]
    publisher = Publisher(wal, {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200}, prefix)
    publisher._produce = before("produce.before", publisher._produce)  # type: ignore[method-assign]
    publisher.start()
    open_ticks = [(number, int(value)) for number, value in wal.open_ticks()]
    seq = 0
    for _ in range(ticks):
        at_us = (open_ticks[-1][1] if open_ticks else T0) + S
        reach("note.before")
        number = wal.note_tick(b"%d" % at_us, at_us)
        os.write(1, b"T %d\n" % at_us)
        reach("note.after")
        open_ticks.append((number, at_us))
        if len(open_ticks) > FLUSH:
            times = [at for _, at in open_ticks]
            reach("append.before")
            wal.append([batch_of(times, seq, f"run-{run}")], ticks_before=number)
            os.write(1, b"B %d %d\n" % (times[0], times[-1]))
            reach("append.after")
            open_ticks, seq = open_ticks[-1:], seq + 1
        time.sleep(0.002)
    publisher.stop()
    wal.close()
    os.write(1, b"E\n")


if __name__ == "__main__":
    sys.path[:0] = sys.argv[6].split(os.pathsep)
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
