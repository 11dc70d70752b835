"""Avro object container files (Avro 1.11 specification) of records that are already encoded, made so that ClickHouse
finds out what is wrong with them. Decodes nothing."""

import json
from collections.abc import Iterable
from secrets import token_bytes
from typing import Any

END_BYTES = 16
_SYNC_BYTES = 16
PLACED: tuple[dict[str, str], ...] = (
    {"name": "source_partition", "type": "int"},
    {"name": "source_offset", "type": "long"},
)
UNUSED = "boolean"
"""A branch that no record has, added to every union: the index of a union of two is not looked at by ClickHouse, which
takes whatever is not the value for null; of a union of three every index is."""
_PLAIN = {"string": "String", "long": "Int64", "int": "Int32", "boolean": "Bool"}


def wrapper_schema(schema: dict[str, Any]) -> bytes:
    """The schema, as JSON, of records {source_partition, source_offset, value, end} of which `value` has this one."""
    end = {"name": "end", "type": {"type": "fixed", "name": "End", "size": END_BYTES}}
    value = {"name": "value", "type": strict(schema)}
    return json.dumps({"type": "record", "name": "Placed", "fields": [*PLACED, value, end]}).encode()


def strict(schema: Any) -> Any:
    """The schema with `UNUSED` in every union: what was written with the one reads the same with the other."""
    if isinstance(schema, list):
        return [*schema, UNUSED]
    if isinstance(schema, str):
        return schema
    if schema["type"] == "array":
        return {**schema, "items": strict(schema["items"])}
    return {**schema, "fields": [{**field, "type": strict(field["type"])} for field in schema["fields"]]}


def container(schema_json: bytes, records: Iterable[tuple[tuple[int, int], bytes | memoryview]], end: bytes) -> bytes:
    """Records as ((partition, offset), body) in one file of a `wrapper_schema`.

    Each is a block of its own, so that a broken one can't reach into the next. `end` are `END_BYTES` that no writer
    of a body can know: a reader that finds them as the field `end` has read neither more nor less than the body.
    """
    sync = token_bytes(_SYNC_BYTES)
    meta = _bytes(b"avro.schema") + _bytes(schema_json) + _bytes(b"avro.codec") + _bytes(b"null")
    parts: list[bytes | memoryview] = [b"Obj\x01", _long(2), meta, _long(0), sync]
    closing, one = end + sync, _long(1)
    for (partition, offset), body in records:
        place = _long(partition) + _long(offset)
        parts += (one, _long(len(place) + len(body) + END_BYTES), place, body, closing)
    return b"".join(parts)


def clickhouse_type(schema: Any) -> str:
    """The type that ClickHouse reads a strict schema into. Raises KeyError for what it has no exact type for."""
    if isinstance(schema, list):
        return f"Variant({', '.join(sorted(_PLAIN[kind] for kind in schema if kind != 'null'))})"
    if isinstance(schema, str):
        return _PLAIN[schema]
    if schema["type"] == "array":
        return f"Array({clickhouse_type(schema['items'])})"
    if schema["type"] != "record":
        raise KeyError(schema["type"])
    fields = ", ".join(f"`{field['name']}` {clickhouse_type(field['type'])}" for field in schema["fields"])
    return f"Tuple({fields})"


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _long(number: int) -> bytes:
    """Zigzag, then seven bits a byte, the lowest first."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
