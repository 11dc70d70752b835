"""Reads `nvidia-smi --format=csv` traces: any column order, units in the header or in the cells, several devices.

Owns the format's words and units; `integrate` refuses a bad cell, an audit (intake/telemetry_nvidia_smi.py) lists it.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from wattledger_core.batch import BoolArray, Int64Array

from wattledger_audit.intake.refusal import InputRefused as InputRefused

NULLS = frozenset(
    {"", "n/a", "[n/a]", "[not supported]", "[unknown error]", "[insufficient permissions]", "err!", "[gpu is lost]"}
    | {"[unknown]", "no data"}
)
"""nvidia-smi's words for no reading, in lower case."""
DEVICE_COLUMNS = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "index", "gpu_serial", "serial")
POWER_COLUMNS = ("power.draw", "power.draw.average", "power.draw.instant")
BUSY_COLUMN = "utilization.gpu"
_COUNTER_COLUMNS = ("total_energy_consumption", "energy.total", "energy")
_NODE_COLUMNS = ("hostname", "host", "node", "nodename", "node_name")
_MODEL_COLUMNS = ("name", "gpu_name")
_MIG_COLUMNS = ("mig.mode.current", "mig_mode.current")
_MILLI = {"W": 1000, "mW": 1}
_MICRO = {"J": 1_000_000, "mJ": 1000, "uJ": 1}
_MOST_DIGITS = 15
_MOST_MINUTES = 100_000
_Reading = tuple[int, int | None, int | None]
"""Stamp in µs, power in mW, busy share in ppm."""
_OFFSET = re.compile(r"^([+-])(\d{2}):?(\d{2})$")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

OnBad = Callable[[int, str, str, str, str], None]
"""Told of a bad cell: line, column, value, reason code, words. Raises, or leaves the cell (or row) out."""


class SmiRow(NamedTuple):
    """One reading of one device. Power in mW, energy in µJ, busy in ppm: None where nvidia-smi had none.

    `gpu_index` -1, empty names: no such column. `power_column` is the one that was read."""

    line: int
    at_us: int
    device: str
    gpu_index: int
    node: str
    gpu_model: str
    driver: str
    mig: bool
    power_column: str
    power_mw: int | None
    busy_ppm: int | None
    counter_uj: int | None


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


class _Layout:
    """Where the wanted columns are. Raises InputRefused where what must be there is not."""

    def __init__(self, file: str, line: int, headers: list[str], column: str | None) -> None:
        self.headers = headers
        self.names = [column_name(header) for header in headers]
        self.units = [_unit_of(header) for header in headers]
        if "timestamp" not in self.names:
            raise InputRefused(
                f"{file}, line {line}: no `timestamp` column; found: {', '.join(self.names)}. "
                "Ask nvidia-smi for timestamp"
            )
        self.stamp = self.names.index("timestamp")
        self.counter = self._find(_COUNTER_COLUMNS)
        self.power = self._find(POWER_COLUMNS if column is None else (column,))
        if self.power is None and (column is not None or self.counter is None):
            power = [name for name in self.names if name.startswith("power.draw")]
            hint = (
                f"this file has {', '.join(power)}: choose with --column" if power else "this file has no power column"
            )
            raise InputRefused(f"{file}, line {line}: no column {column or POWER_COLUMNS[0]!r}; {hint}")
        self.device = self._find(DEVICE_COLUMNS)
        self.index = self._find(("index",))
        self.busy = self._find((BUSY_COLUMN,))
        self.node = self._find(_NODE_COLUMNS)
        self.model = self._find(_MODEL_COLUMNS)
        self.driver = self._find(("driver_version",))
        self.mig = self._find(_MIG_COLUMNS)

    def _find(self, wanted: Sequence[str]) -> int | None:
        return next((self.names.index(name) for name in wanted if name in self.names), None)


class SmiReader:
    """Rows of one file. `column` is the power column (None: the first of POWER_COLUMNS that is there); `zone` is what
    stamps without an offset are in, and `zone_flag` how a user says it."""

    def __init__(self, file: str, column: str | None, zone: tzinfo | None, zone_flag: str, on_bad: OnBad) -> None:
        self._file = file
        self._column = column
        self._zone = zone
        self._zone_flag = zone_flag
        self._on_bad = on_bad
        self._last_us: dict[tuple[str, str], int] = {}
        self._offsets_us: dict[str, int] = {}
        """UTC offset of a local minute that is no part of a clock change."""

    def rows(self, lines: Iterable[str], delimiter: str = ",") -> Iterator[SmiRow]:
        """Every row in file order. Raises InputRefused for what is wrong with the file as a whole."""
        rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        headers = next((row for row in rows if any(row)), None)
        if headers is None:
            raise InputRefused(f"{self._file}: the file is empty")
        layout = _Layout(self._file, rows.line_num, headers, self._column)
        for row in rows:
            if not any(row):
                continue
            if row == layout.headers or "timestamp" in row:
                # a restarted `nvidia-smi >> file` writes its header again, maybe of another query
                if row != layout.headers:
                    layout = _Layout(self._file, rows.line_num, row, self._column)
                continue
            if len(row) < len(layout.headers):
                words = f"{len(row)} cells where the header has {len(layout.headers)}; cut short?"
                self._on_bad(rows.line_num, "", ",".join(row), "row_cut_short", words)
                continue
            found = self._row(rows.line_num, layout, row)
            if found is not None:
                yield found

    def _row(self, line: int, layout: _Layout, row: list[str]) -> SmiRow | None:
        def cell(place: int | None) -> str:
            if place is None:
                return ""
            text = row[place].strip()
            return text if text[:1].isdigit() or text.lower() not in NULLS else ""

        device, node = cell(layout.device), cell(layout.node)
        at_us = self._stamp_us(line, row[layout.stamp].strip(), (node, device))
        if at_us is None:
            return None
        index = cell(layout.index)
        return SmiRow(
            line, at_us, device, int(index) if index.isdecimal() else -1, node, cell(layout.model),
            cell(layout.driver), cell(layout.mig).lower() == "enabled",
            layout.names[layout.power] if layout.power is not None else "",
            self._quantity(line, layout, layout.power, cell(layout.power), _MILLI, "W"),
            self._busy_ppm(line, cell(layout.busy)),
            self._quantity(line, layout, layout.counter, cell(layout.counter), _MICRO, "mJ"),
        )  # fmt: skip

    def _stamp_us(self, line: int, text: str, owner: tuple[str, str]) -> int | None:
        try:
            stamp = datetime.fromisoformat(text.replace("/", "-"))
        except ValueError:
            words = f"timestamp {text!r} is not like 2026/11/30 10:10:26.905"
            self._on_bad(line, "timestamp", text, "bad_time", words)
            return None
        if stamp.tzinfo is not None:
            return _epoch_us(stamp)
        if self._zone is None:
            raise InputRefused(f"{self._file}, line {line}: timestamp {text!r} names no zone: say {self._zone_flag}")
        minute, last_us = text[:16], self._last_us.get(owner)
        offset_us = self._offsets_us.get(minute)
        if offset_us is not None:
            at_us = _epoch_us(stamp.replace(tzinfo=UTC)) - offset_us
        else:
            at_us = self._settled_us(line, text, stamp.replace(tzinfo=self._zone), last_us)
        self._last_us[owner] = at_us
        return at_us

    def _settled_us(self, line: int, text: str, stamp: datetime, last_us: int | None) -> int:
        """A local stamp's time. In the repeated hour of a clock change, the order of the readings settles which."""
        at_us, second_us = _epoch_us(stamp), _epoch_us(stamp.replace(fold=1))
        if at_us == second_us:
            if len(self._offsets_us) > _MOST_MINUTES:
                self._offsets_us.clear()
            self._offsets_us[text[:16]] = _epoch_us(stamp.replace(tzinfo=UTC)) - at_us
        elif second_us > at_us and last_us is None:
            raise InputRefused(
                f"{self._file}, line {line}: the clocks of {self._zone} show {text} twice, and no reading before "
                "it tells which it is: give stamps with an offset, or a trace that starts earlier"
            )
        elif last_us is not None and at_us < last_us <= second_us:
            return second_us
        return at_us

    def _quantity(
        self, line: int, layout: _Layout, place: int | None, cell: str, factors: dict[str, int], default: str
    ) -> int | None:
        """A cell in mW or µJ, None for nvidia-smi's words for none."""
        if place is None or not cell:
            return None
        unit = layout.units[place] or _unit_in(cell) or default
        factor = factors.get(unit)
        name = layout.names[place]
        if factor is None:
            known = " and ".join(factors)
            raise InputRefused(f"{self._file}, line {line}: {name} in {unit!r}: {known} are understood")
        value = _number(cell.split(None, 1)[0])
        if value is None:
            self._on_bad(line, name, cell, "not_a_number", f"{name} is {cell!r}, which is no number")
            return None
        return int(value * factor) if value >= 0 and value.adjusted() < _MOST_DIGITS else None

    def _busy_ppm(self, line: int, cell: str) -> int | None:
        if not cell:
            return None
        percent = _number(cell.rstrip("%").strip())
        if percent is None:
            self._on_bad(line, BUSY_COLUMN, cell, "not_a_number", f"{BUSY_COLUMN} is {cell!r}, which is no number")
            return None
        return int(percent * 10_000) if 0 <= percent <= 100 else None


def _unit_of(header: str) -> str:
    return header.split("[", 1)[1].rstrip("] ").strip() if "[" in header else ""


def _unit_in(cell: str) -> str:
    parts = cell.split()
    return parts[1] if len(parts) > 1 else ""


@lru_cache(maxsize=8192)
def _number(text: str) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def _epoch_us(stamp: datetime) -> int:
    return (stamp - _EPOCH) // timedelta(microseconds=1)


def read_nvidia_smi_csv(path: Path, column: str, offset: timezone | None) -> list[Trace]:
    """Every device's trace, in order of first row.

    Raises InputRefused for a missing column, a stamp without a zone and no offset given, a cell that is neither a
    number nor one of nvidia-smi's words for none, or a file that is no UTF-8 text.
    """

    def refuse(line: int, bad_column: str, value: str, code: str, words: str) -> None:
        if bad_column != BUSY_COLUMN:
            raise InputRefused(f"{path}, line {line}: {words}")

    reader = SmiReader(str(path), column, offset, "--utc-offset, e.g. +01:00", refuse)
    gathered: dict[str, list[_Reading]] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for row in reader.rows(file):
                gathered.setdefault(row.device, []).append((row.at_us, row.power_mw, row.busy_ppm))
    except UnicodeDecodeError as error:
        raise InputRefused(f"{path}: byte {error.start} is no UTF-8 text: convert the file to UTF-8 first") from None
    if not gathered:
        raise InputRefused(f"{path}: a header and no rows")
    return [_trace(device, readings) for device, readings in gathered.items()]


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
