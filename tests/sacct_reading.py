"""Reads texts that a test writes with the SLURM importers: records, and what was rejected why."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wattledger_audit.intake.importer import Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import NodeState, Record, UsageRun
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.source import open_source

UTC = ReadOptions(timezone=ZoneInfo("UTC"))
BERLIN = ReadOptions(timezone=ZoneInfo("Europe/Berlin"))
S = 1_000_000


class Rejected(NamedTuple):
    """One rejection: line, column, value, reason code."""

    line: int
    column: str
    value: str
    code: str


class ReadBack(NamedTuple):
    """What an importer gave for a text."""

    records: list[Record]
    rejected: list[Rejected]

    @property
    def runs(self) -> list[UsageRun]:
        return [record for record in self.records if isinstance(record, UsageRun)]

    @property
    def states(self) -> list[NodeState]:
        return [record for record in self.records if isinstance(record, NodeState)]

    @property
    def codes(self) -> list[str]:
        return [rejection.code for rejection in self.rejected]

    def run(self) -> UsageRun:
        (run,) = self.runs
        return run


def read_file(importer: Importer, path: Path, options: ReadOptions = UTC) -> ReadBack:
    out = io.StringIO()
    rejections = Rejections(out)
    records = list(importer.read(open_source(path, options.encoding), options, rejections))
    rows = csv.reader(io.StringIO(out.getvalue()))
    rejected = [Rejected(int(line), column, value, reason.split(":")[0]) for _, line, column, value, reason in rows]
    return ReadBack(records, rejected)


def read_text(importer: Importer, folder: Path, text: str | bytes, options: ReadOptions = UTC) -> ReadBack:
    path = folder / "given.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_file(importer, path, options)


def read_lines(importer: Importer, folder: Path, lines: Iterable[str], options: ReadOptions = UTC) -> ReadBack:
    return read_text(importer, folder, "".join(f"{line}\n" for line in lines), options)
