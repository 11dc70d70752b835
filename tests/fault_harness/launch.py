"""`python -m tests.fault_harness.launch PROCESSOR`: the real worker, with the faults of HARNESS_FAULT injected.

HARNESS_FAULT is a comma-separated list of `action:point:n` (see `fault_point`; points below), of
`produce_fails:report:n` (the n-th record's delivery report says that the broker refused it), and of `plant:bug` (the
worker runs with that bug, from `planted`). Each fault strikes once a work folder, so the worker started again goes on.
"""

import os
import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import faust
from aiokafka import AIOKafkaConsumer
from confluent_kafka import KafkaError
from wattledger_streams import __main__ as worker
from wattledger_streams.outbox import Outbox
from wattledger_streams.ownership import Ownership

from tests.fault_harness.fault_point import ACTIONS, FaultPoints, read_faults, strike

POINTS = (
    "in_body",  # before a processor takes a batch (the meter: a record)
    "after_body",  # after it, with everything settled that it wrote (the meter: not yet settled)
    "before_insert", "after_insert",  # the sink's rows of one take, in the store's thread
    "before_table", "after_table",  # the rows of one table of it
    "before_produce",  # a record is about to be sent
    "after_produce",  # it, and all before it, are on the broker; what the batch has more is not
    "after_settle",  # everything sent is on the broker, nothing is acknowledged
    "before_ack", "after_ack",  # one event
    "before_commit", "after_commit",  # the consumer group's offsets
    "before_keep", "after_keep",  # the meter's places in its books, kept in its group
    "report",
)  # fmt: skip


def main() -> None:
    """Inject, then run as `python -m wattledger_streams` does."""
    asked = [part for part in os.environ.get("HARNESS_FAULT", "").split(",") if part]
    planted = [part.partition(":")[2] for part in asked if part.startswith("plant:")]
    rest = ",".join(part for part in asked if not part.startswith("plant:"))
    folder = Path(os.environ["WATTLEDGER_WORK_DIR"]) / "faults"
    inject(FaultPoints(read_faults(rest, POINTS, (*ACTIONS, "produce_fails")), folder), sys.argv[1])
    if planted:
        plant = import_module("tests.fault_harness.planted").plant
        for bug in planted:
            plant(bug)
    worker.main()


def inject(points: FaultPoints, processor: str) -> None:
    """Wrap what the processor calls, so that every call passes its points."""
    _wrap_async(faust.Stream, "ack", points, "before_ack", "after_ack")
    _wrap_async(AIOKafkaConsumer, "commit", points, "before_commit", "after_commit")
    _wrap_async(Ownership, "keep", points, "before_keep", "after_keep")
    _wrap_outbox(points)
    _wrap_bodies(points, processor)
    if processor == "sink":
        _wrap_inserts(points)


def _wrap(owner: Any, name: str, points: FaultPoints, before: str, after: str) -> None:
    call: Callable[..., Any] = getattr(owner, name)

    @wraps(call)
    def wrapped(*args: Any, **named: Any) -> Any:
        points.hit(before)
        result = call(*args, **named)
        points.hit(after)
        return result

    setattr(owner, name, wrapped)


def _wrap_async(owner: Any, name: str, points: FaultPoints, before: str, after: str) -> None:
    call: Callable[..., Any] = getattr(owner, name)

    @wraps(call)
    async def wrapped(*args: Any, **named: Any) -> Any:
        points.hit(before)
        result = await call(*args, **named)
        points.hit(after)
        return result

    setattr(owner, name, wrapped)


def _wrap_bodies(points: FaultPoints, processor: str) -> None:
    module = import_module(f"wattledger_streams.{processor}")
    _wrap_async(getattr(module, processor.title()), "take", points, "in_body", "after_body")


def _wrap_inserts(points: FaultPoints) -> None:
    import wattledger_sql.avro_insert
    import wattledger_sql.insert
    from wattledger_streams.sink_rows import Rows

    insert = Rows.insert

    @wraps(insert)
    def wrapped(self: Rows, client: Any) -> dict[str, int]:
        if self.empty:
            return insert(self, client)
        points.hit("before_insert")
        done = insert(self, client)
        points.hit("after_insert")
        return done

    Rows.insert = wrapped  # type: ignore[method-assign]
    _wrap(wattledger_sql.insert, "insert_rows", points, "before_table", "after_table")
    _wrap(wattledger_sql.avro_insert, "insert_staged", points, "before_table", "after_table")


def _wrap_outbox(points: FaultPoints) -> None:
    send, settle, delivered = Outbox.send, Outbox.settle, Outbox._delivered

    @wraps(send)
    def sending(self: Outbox, *args: Any, **named: Any) -> None:
        points.hit("before_produce")
        send(self, *args, **named)
        fault = points.due("after_produce")
        if fault is not None:
            self.settle_blocking()
            strike(fault)

    @wraps(settle)
    async def settling(self: Outbox) -> None:
        had = self.unsettled
        await settle(self)
        if had:
            points.hit("after_settle")

    @wraps(delivered)
    def reported(self: Outbox, error: KafkaError | None, message: Any) -> None:
        refused = points.due("report", "produce_fails") is not None
        delivered(self, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE) if refused else error, message)

    Outbox.send, Outbox.settle, Outbox._delivered = sending, settling, reported  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
