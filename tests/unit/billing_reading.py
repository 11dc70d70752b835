"""Reads a billing file with one importer and says what came of it, for the tests of billing importers."""

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from wattledger_audit.intake.importer import Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BillingLine
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.source import open_source

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "billing"


class Reading(NamedTuple):
    """`lines` as read; `rejected` as (line, code, amount); `reasons` in full; `money` refused by code."""

    lines: list[BillingLine]
    rejected: list[tuple[int, str]]
    reasons: list[str]
    money: dict[str, Decimal]

    @property
    def total(self) -> Decimal:
        return sum((line.amount for line in self.lines), Decimal(0))

    def categories(self) -> list[str]:
        return [line.category for line in self.lines]


def read_file(path: Path, importers: Sequence[Importer], options: ReadOptions | None = None) -> Reading:
    """Reads with the importer that detects the file most surely."""
    source = open_source(path)
    found = [(detection.score, importer) for importer in importers if (detection := importer.detect(source))]
    assert found, f"no importer detects {path.name}"
    importer = max(found, key=lambda item: item[0])[1]
    rejections = Rejections(io.StringIO())
    lines: list[BillingLine] = []
    for record in importer.read(source, options or ReadOptions(), rejections):
        assert isinstance(record, BillingLine)
        lines.append(record)
    assert isinstance(rejections.out, io.StringIO)
    rows = list(csv.reader(io.StringIO(rejections.out.getvalue())))
    money = {code: amount for (_, code, _), amount in rejections.money.items()}
    rejected = [(int(row[1]), row[4].split(":")[0]) for row in rows]
    return Reading(lines, rejected, [row[4] for row in rows], money)


def read_text(
    folder: Path,
    text: str,
    importers: Sequence[Importer],
    options: ReadOptions | None = None,
    name: str = "billing.csv",
) -> Reading:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_file(path, importers, options)


def at(text: str) -> int:
    """µs of an ISO stamp, UTC."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


OCTOBER = (at("2026-10-01"), at("2026-11-01"))
