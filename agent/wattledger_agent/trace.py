"""Traces: what a player plays. JSON lines, one item each, values as base64 of the wire format."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


class TraceRefused(ValueError):
    """A line of a trace file that can't be used: says the file, the line and what to do."""


@dataclass(frozen=True, slots=True)
class TraceItem:
    """One record and the event time at which it is emitted. `broadcast`: to every partition of the topic."""

    at_us: int
    topic: str
    key: str
    value: bytes
    broadcast: bool = False


def write_trace(path: Path, items: Iterable[TraceItem]) -> int:
    """Write items in order; how many."""
    count = 0
    with path.open("w") as file:
        for item in items:
            value = b64encode(item.value).decode()
            record = {
                "at_us": item.at_us,
                "topic": item.topic,
                "key": item.key,
                "value": value,
                "broadcast": item.broadcast,
            }
            file.write(json.dumps(record) + "\n")
            count += 1
    return count


def read_trace(path: Path) -> Iterator[TraceItem]:
    """Items of a trace file, in order; raises TraceRefused for a line that is not an item."""
    with path.open() as file:
        for number, line in enumerate(file, start=1):
            try:
                record = json.loads(line)
                value = b64decode(record["value"], validate=True)
                yield TraceItem(
                    int(record["at_us"]), record["topic"], record["key"], value, bool(record.get("broadcast"))
                )
            except (ValueError, KeyError, TypeError) as error:
                raise TraceRefused(
                    f"{path}, line {number}: {error!r}; each line needs at_us, topic, key, value (base64)"
                ) from None
