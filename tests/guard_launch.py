"""`python -m tests.guard_launch PROCESSOR`: the real worker, whose commits or fetches stand still as GUARD_FAULT says.

`commit_hangs`: no commit of the group ever comes back, while the session stays alive. `fetch_silent:N`: after N records
no more arrive. `commit_lies`: commits report success and do nothing.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from wattledger_streams import __main__ as worker


def main() -> None:
    """Break the client, then run as `python -m wattledger_streams` does."""
    fault, _, number = os.environ["GUARD_FAULT"].partition(":")
    if fault == "commit_hangs":
        AIOKafkaConsumer.commit = _never
    elif fault == "commit_lies":
        AIOKafkaConsumer.commit = _nothing
    elif fault == "fetch_silent":
        _silence_after(int(number))
    else:
        raise ValueError(f"GUARD_FAULT {fault!r} is not known")
    worker.main()


async def _never(*_: Any, **__: Any) -> None:
    await asyncio.Event().wait()


async def _nothing(*_: Any, **__: Any) -> None:
    return


def _silence_after(most: int) -> None:
    fetch, seen = AIOKafkaConsumerThread._fetch_records, 0

    async def silent(self: Any, *args: Any, **named: Any) -> Mapping[Any, list[Any]]:
        nonlocal seen
        if seen >= most:
            await asyncio.sleep(0.2)
            return {}
        found = await fetch(self, *args, **named)
        seen += sum(len(records) for records in found.values())
        return found

    AIOKafkaConsumerThread._fetch_records = silent  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
