"""Packed columns: little-endian integers, then a validity bitmap (bit i of byte i//8, least significant first)."""

from collections.abc import Sequence
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from wattledger_schemas.bad_record import BadRecord

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def column_bytes(ticks: int, width: int) -> int:
    """Length of a column of `ticks` integers of `width` bytes."""
    return ticks * width + (ticks + 7) // 8


def pack_column(values: Int64Array, valid: BoolArray, width: int) -> bytes:
    """Pack (n,) values; invalid cells are written as 0. Raises OverflowError when a value does not fit `width`."""
    limit = np.iinfo(f"<i{width}")
    clean = np.where(valid, values, 0)
    if clean.size and (clean.max() > limit.max or clean.min() < limit.min):
        raise OverflowError(f"{clean.max()} does not fit a column of {width * 8} bits")
    return bytes(clean.astype(f"<i{width}").tobytes()) + np.packbits(valid, bitorder="little").tobytes()


def unpack_columns(columns: Sequence[bytes], ticks: int, width: int, name: str) -> tuple[Int64Array, BoolArray]:
    """Unpack d columns of n ticks at once: (d, n) values and validity.

    Raises BadRecord `column_length` when a column is not exactly as long as its ticks need.
    """
    size = column_bytes(ticks, width)
    lengths = set(map(len, columns))
    if not lengths <= {size}:
        raise BadRecord("column_length", f"{name}: {sorted(lengths)} bytes where {ticks} ticks need {size}")
    table = np.frombuffer(b"".join(columns), dtype=np.uint8).reshape(len(columns), size)
    cut = ticks * width
    values = np.ascontiguousarray(table[:, :cut]).view(f"<i{width}").astype(np.int64)
    valid = np.unpackbits(table[:, cut:], axis=1, count=ticks, bitorder="little").view(np.bool_)
    return values, valid


def unpack_column(column: bytes, ticks: int, width: int, name: str = "column") -> tuple[Int64Array, BoolArray]:
    """Unpack one column of `ticks` integers of `width` bytes (4 or 8): (n,) values and validity.

    For readers in other languages: the layout is the field's doc; for ClickHouse see `unpack_sql`.
    """
    values, valid = unpack_columns([column], ticks, width, name)
    return values[0], valid[0]


def unpack_sql() -> str:
    """A ClickHouse query that unpacks a packed column of either width: parameters `column_hex` (the bytes as hex) and
    `ticks`."""
    return (files("wattledger_schemas") / "unpack_column.sql").read_text()
