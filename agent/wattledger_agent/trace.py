"""Traces: what a player plays. One JSON object a line; the format is in the agent's README."""

import json
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from wattledger_schemas import BadRecord, Codec

BYTES_KEY = "$base64"


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


class _Line(BaseModel):
    """Either `value` (wire format, base64) or `subject` and `record`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    at_us: int
    topic: str
    key: str
    broadcast: bool = False
    value: str | None = None
    subject: str | None = None
    record: dict[str, Any] | None = None


def write_trace(path: Path, items: Iterable[TraceItem], codec: Codec | None = None) -> int:
    """Write items in order; how many. With a codec as readable records, otherwise as they go over the wire."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for item in items:
            line: dict[str, Any] = {"at_us": item.at_us, "topic": item.topic, "key": item.key}
            if item.broadcast:
                line["broadcast"] = True
            if codec is None:
                line["value"] = b64encode(item.value).decode()
            else:
                decoded = codec.decode(item.value)
                line |= {"subject": decoded.subject, "record": _to_json(decoded.record)}
            file.write(json.dumps(line) + "\n")
            count += 1
    return count


def read_trace(path: Path, codec: Codec | None = None) -> Iterator[TraceItem]:
    """Items of a trace file, in order, read as they are asked for. Raises TraceRefused for a line that is no item, and
    where time runs backwards."""
    used = codec or Codec()
    last_us = 0
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, start=1):
            try:
                item = _item(_Line.model_validate_json(text), used)
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(str(part) for part in first["loc"]) or "the line"
                raise TraceRefused(f"{path}, line {number}: {field}: {first['msg']}") from None
            except (BadRecord, BadBase64, ValueError) as error:
                raise TraceRefused(f"{path}, line {number}: {error}") from None
            if item.at_us < last_us:
                raise TraceRefused(
                    f"{path}, line {number}: at_us {item.at_us} is before {last_us}: sort the lines by at_us"
                )
            last_us = item.at_us
            yield item


def _item(line: _Line, codec: Codec) -> TraceItem:
    if line.value is not None and line.subject is None and line.record is None:
        return TraceItem(line.at_us, line.topic, line.key, b64decode(line.value, validate=True), line.broadcast)
    if line.value is None and line.subject is not None and line.record is not None:
        try:
            value = codec.encode(line.subject, _from_json(line.record))
        except KeyError:
            raise ValueError(f"subject {line.subject!r} has no schema") from None
        return TraceItem(line.at_us, line.topic, line.key, value, line.broadcast)
    raise ValueError("give either value (base64 of the wire format), or subject and record")


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {BYTES_KEY: b64encode(value).decode()}
    if isinstance(value, dict):
        return {name: _to_json(inner) for name, inner in value.items()}
    return [_to_json(inner) for inner in value] if isinstance(value, list) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {BYTES_KEY}:
            return b64decode(value[BYTES_KEY], validate=True)
        return {name: _from_json(inner) for name, inner in value.items()}
    return [_from_json(inner) for inner in value] if isinstance(value, list) else value
