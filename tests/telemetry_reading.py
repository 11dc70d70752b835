"""Reads a telemetry file of a test's own making, and integrates traces as the core bills them."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wattledger_audit.assessment.trace_batches import BATCH_TICKS, trace_batches
from wattledger_audit.intake.importer import Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import DeviceTrace
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.source import open_source
from wattledger_core.curve import build_curves
from wattledger_core.policy import Policy

Seconds = int | float
Sample = tuple[Seconds, str]


class Told(NamedTuple):
    """What an importer gave: traces, and rejected rows as `(line, column, value, code)`."""

    traces: list[DeviceTrace]
    rejected: list[tuple[int, str, str, str]]

    def codes(self) -> list[str]:
        return [row[3] for row in self.rejected]


def read_file(importer: Importer, path: Path, options: ReadOptions | None = None) -> Told:
    """All that the importer makes of a file."""
    out = io.StringIO()
    source = open_source(path)
    traces: list[DeviceTrace] = []
    for record in importer.read(source, options or ReadOptions(), Rejections(out)):
        assert isinstance(record, DeviceTrace)
        traces.append(record)
    return Told(traces, rejected_rows(out))


def rejected_rows(out: io.StringIO) -> list[tuple[int, str, str, str]]:
    """What went to `rejected.csv`."""
    rows = csv.reader(io.StringIO(out.getvalue()))
    return [(int(line), column, value, reason.split(":", 1)[0]) for _, line, column, value, reason in rows]


def series(name: str, labels: Mapping[str, str], samples: Iterable[Sample]) -> dict[str, object]:
    """One series of a Prometheus range answer."""
    return {"metric": {"__name__": name, **labels}, "values": [[at, value] for at, value in samples]}


def answer(*all_series: Mapping[str, object]) -> dict[str, object]:
    """A whole range answer."""
    return {"status": "success", "data": {"resultType": "matrix", "result": list(all_series)}}


def written_json(folder: Path, *documents: object, name: str = "range.json") -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(document) for document in documents))
    return path


def energy_uj(traces: Sequence[DeviceTrace], batch_ticks: int = BATCH_TICKS) -> dict[str, int]:
    """Energy of each device over all its batches, by the core's curves."""
    total: dict[str, int] = {}
    for batch in trace_batches(traces, batch_ticks=batch_ticks):
        for device, part in zip(batch.devices, build_curves(batch, Policy()).whole(), strict=True):
            total[device.device] = total.get(device.device, 0) + part.energy_uj
    return total


def unknown_us(traces: Sequence[DeviceTrace]) -> dict[str, int]:
    """Time without energy of each device, by the core's curves."""
    total: dict[str, int] = {}
    for batch in trace_batches(traces):
        for device, part in zip(batch.devices, build_curves(batch, Policy()).whole(), strict=True):
            total[device.device] = total.get(device.device, 0) + part.unknown_us
    return total


def valid_values(trace: DeviceTrace, quantity: str) -> list[int | None]:
    """`power_mw`, `counter_uj` or `busy_ppm` with None where there is no reading."""
    values = getattr(trace, quantity).tolist()
    valid = getattr(trace, quantity.rsplit("_", 1)[0] + "_valid").tolist()
    return [value if known else None for value, known in zip(values, valid, strict=True)]
