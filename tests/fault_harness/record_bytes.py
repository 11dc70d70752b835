"""Plain records to wire bytes and back, from the schema files alone: an encoder and decoder of the harness's own."""

import json
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

import fastavro
import numpy as np
import yaml

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas" / "wattledger_schemas"
EVERY_PARTITION = "*"
"""As a `partition_key`: the record goes into every partition of its topic."""
NARROW, WIDE = 4, 8
Record = dict[str, Any]


@cache
def _ids() -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = yaml.safe_load((SCHEMAS / "catalogue.yaml").read_text())
    return found


@cache
def _schema(subject: str, version: int) -> Any:
    return fastavro.parse_schema(json.loads((SCHEMAS / "avro" / subject / f"v{version}.avsc").read_text()))


@cache
def _subjects() -> dict[int, tuple[str, int]]:
    return {number: (name, version) for name, versions in _ids().items() for version, number in versions.items()}


def header(schema_id: int) -> bytes:
    """Confluent's five bytes: zero, then the id."""
    return b"\0" + schema_id.to_bytes(4, "big")


def encode(subject: str, record: Record) -> bytes:
    """A record in wire format, by the newest version of its subject."""
    version = max(_ids()[subject])
    out = BytesIO()
    out.write(header(_ids()[subject][version]))
    fastavro.schemaless_writer(out, _schema(subject, version), record)
    return out.getvalue()


def decode(data: bytes) -> tuple[str, Record]:
    """Subject and record as they were written. Raises ValueError for what is not in the catalogue."""
    found = _subjects().get(int.from_bytes(data[1:5], "big")) if data[:1] == b"\0" else None
    if found is None:
        raise ValueError(f"no schema of ours: {data[:5]!r}")
    record: Any = fastavro.schemaless_reader(BytesIO(data[5:]), _schema(*found), None)
    return found[0], record


def column(values: Sequence[int | None], width: int) -> bytes:
    """A packed column: little-endian integers (0 where there is none), then the validity bitmap."""
    filled = np.array([0 if value is None else value for value in values], dtype=f"<i{width}")
    valid = np.array([value is not None for value in values], dtype=np.bool_)
    return filled.tobytes() + np.packbits(valid, bitorder="little").tobytes()


def stamps(ticks_us: Sequence[int]) -> bytes:
    """Tick times as the record carries them."""
    return np.array(ticks_us, dtype="<i8").tobytes()


def places(partition_key: str, partitions: int) -> list[int]:
    """The partitions that a record with this key goes to: one, by CRC-32 of the key, or every one."""
    if partition_key == EVERY_PARTITION:
        return list(range(partitions))
    return [crc32(partition_key.encode()) % partitions]
