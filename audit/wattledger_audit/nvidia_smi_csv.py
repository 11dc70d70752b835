"""Reads `nvidia-smi --format=csv` traces: any column order, units in the header or in the cells, several devices."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np
from wattledger_core.batch import BoolArray, Int64Array

NULLS = frozenset(
    {"", "n/a", "[n/a]", "[not supported]", "[unknown error]", "[insufficient permissions]", "err!", "[gpu is lost]"}
    | {"[unknown]", "no data"}
)
"""nvidia-smi's words for no reading, in lower case."""
DEVICE_COLUMNS = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "index", "gpu_serial", "serial")
_Reading = tuple[int, int | None, int | None]
"""Stamp in µs, power in mW, busy share in ppm."""
_OFFSET = re.compile(r"^([+-])(\d{2}):?(\d{2})$")


class InputRefused(ValueError):
    """The file can't be read as asked; says where, which value, and what to do."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One device's readings in file order, stamps not falling: power in mW with validity, and what was dropped."""

    device: str
    ticks_us: Int64Array
    power_mw: Int64Array
    valid: BoolArray
    busy_ppm: Int64Array
    busy_valid: BoolArray
    repeated_stamps: int
    falling_stamps: int


def parse_offset(text: str) -> timezone:
    """`+01:00`, `-0530` or `Z` as a fixed offset; raises InputRefused."""
    if text in ("Z", "z", "UTC"):
        return UTC
    match = _OFFSET.match(text)
    if match is None:
        raise InputRefused(f"--utc-offset {text!r} is not an offset: write it as +01:00, -05:30 or Z")
    sign, hours, minutes = match.groups()
    span = timedelta(hours=int(hours), minutes=int(minutes))
    if span >= timedelta(days=1):
        raise InputRefused(f"--utc-offset {text!r} is a day or more: write it as +01:00, -05:30 or Z")
    return timezone(span if sign == "+" else -span)


def column_name(header: str) -> str:
    """`power.draw [W]` → `power.draw`."""
    return header.split("[", 1)[0].strip()


def _unit(header: str, cell: str) -> str:
    if "[" in header:
        return header.split("[", 1)[1].rstrip("] ").strip()
    parts = cell.split()
    return parts[1] if len(parts) > 1 else "W"


@dataclass(slots=True)
class _Columns:
    """Where the wanted columns are."""

    headers: list[str]
    stamp: int
    power: int
    device: int | None
    busy: int | None


def _find_columns(path: Path, headers: list[str], column: str) -> _Columns:
    names = [column_name(header) for header in headers]
    if "timestamp" not in names:
        raise InputRefused(
            f"{path}, line 1: no `timestamp` column; found: {', '.join(names)}. Ask nvidia-smi for timestamp"
        )
    if column not in names:
        power = [name for name in names if name.startswith("power.draw")]
        hint = f"this file has {', '.join(power)}" if power else "this file has no power column"
        raise InputRefused(f"{path}, line 1: no column {column!r}; {hint}: choose with --column")
    device = next((names.index(name) for name in DEVICE_COLUMNS if name in names), None)
    busy = names.index("utilization.gpu") if "utilization.gpu" in names else None
    return _Columns(headers, names.index("timestamp"), names.index(column), device, busy)


def read_nvidia_smi_csv(path: Path, column: str, offset: timezone | None) -> list[Trace]:
    """Every device's trace, in order of first row.

    Raises InputRefused for a missing column, a stamp without a zone and no offset given, a cell that is neither a
    number nor one of nvidia-smi's words for none, or a file that is no UTF-8 text.
    """
    try:
        gathered = _gather(path, column, offset)
    except UnicodeDecodeError as error:
        raise InputRefused(f"{path}: byte {error.start} is no UTF-8 text: convert the file to UTF-8 first") from None
    if not gathered:
        raise InputRefused(f"{path}: a header and no rows")
    return [_trace(device, readings) for device, readings in gathered.items()]


def _gather(path: Path, column: str, offset: timezone | None) -> dict[str, list[_Reading]]:
    gathered: dict[str, list[_Reading]] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file, skipinitialspace=True)
        headers = next(rows, None)
        if headers is None:
            raise InputRefused(f"{path}: the file is empty")
        columns = _find_columns(path, headers, column)
        for line, row in _data_rows(rows, columns.stamp):
            if len(row) < len(headers):
                raise InputRefused(
                    f"{path}, line {line}: {len(row)} cells where the header has {len(headers)}; cut short?"
                )
            device = row[columns.device].strip() if columns.device is not None else ""
            at_us = _stamp_us(path, line, row[columns.stamp].strip(), offset)
            power = _milli(path, line, headers[columns.power], row[columns.power].strip())
            busy = _percent_ppm(row[columns.busy].strip()) if columns.busy is not None else None
            gathered.setdefault(device, []).append((at_us, power, busy))
    return gathered


def _data_rows(rows: Iterator[list[str]], stamp: int) -> Iterator[tuple[int, list[str]]]:
    for line, row in enumerate(rows, start=2):
        # a restarted `nvidia-smi >> file` writes its header again
        if row and not (len(row) > stamp and row[stamp].strip() == "timestamp"):
            yield line, row


def _stamp_us(path: Path, line: int, text: str, offset: timezone | None) -> int:
    try:
        stamp = datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        raise InputRefused(f"{path}, line {line}: timestamp {text!r} is not like 2026/11/30 10:10:26.905") from None
    if stamp.tzinfo is None:
        if offset is None:
            raise InputRefused(f"{path}, line {line}: timestamp {text!r} names no zone: say --utc-offset, e.g. +01:00")
        stamp = stamp.replace(tzinfo=offset)
    return (stamp - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _milli(path: Path, line: int, header: str, cell: str) -> int | None:
    """A power cell in mW, None for nvidia-smi's words for none."""
    if cell.lower() in NULLS:
        return None
    unit = _unit(header, cell)
    factor = {"W": 1000, "mW": 1}.get(unit)
    if factor is None:
        raise InputRefused(f"{path}, line {line}: {column_name(header)} in {unit!r}: W and mW are understood")
    try:
        value = Decimal(cell.split()[0])
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        raise InputRefused(f"{path}, line {line}: {column_name(header)} is {cell!r}, which is no number")
    return int(value * factor) if value >= 0 else None


def _percent_ppm(cell: str) -> int | None:
    if cell.lower() in NULLS:
        return None
    try:
        percent = Decimal(cell.rstrip("%").strip())
    except InvalidOperation:
        return None
    return int(percent * 10_000) if percent.is_finite() and 0 <= percent <= 100 else None


def _trace(device: str, readings: Sequence[_Reading]) -> Trace:
    """Arrays with strictly rising stamps: of equal stamps the first stays, falling ones are dropped and counted."""
    kept: list[_Reading] = []
    repeated = falling = 0
    for reading in readings:
        if kept and reading[0] == kept[-1][0]:
            repeated += 1
        elif kept and reading[0] < kept[-1][0]:
            falling += 1
        else:
            kept.append(reading)

    def column(place: int) -> tuple[Int64Array, BoolArray]:
        values = [reading[place] for reading in kept]
        return (
            np.array([0 if value is None else value for value in values], dtype=np.int64),
            np.array([value is not None for value in values], dtype=np.bool_),
        )

    ticks = np.array([reading[0] for reading in kept], dtype=np.int64)
    return Trace(device, ticks, *column(1), *column(2), repeated, falling)
