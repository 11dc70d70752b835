"""Usage tables written and read back, for the tests of the canonical importer."""

import csv
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import UsageRun
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.source import open_source
from wattledger_audit.intake.usage_canonical import read

HEADER = "job_id,attempt,tenant,project,node,device,gpu_model,gpus,share_num,share_den,start,end,state,tokens"
EIGHT, NINE = "2026-10-01T08:00:00+00:00", "2026-10-01T09:00:00+00:00"
BERLIN = ReadOptions(timezone=ZoneInfo("Europe/Berlin"))
NONE = ReadOptions()
Read = tuple[list[UsageRun], list[dict[str, str]]]


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1_000_000


EIGHT_US, NINE_US = us(EIGHT), us(NINE)


def read_path(path: Path, options: ReadOptions = NONE) -> Read:
    rejected = path.parent / "rejected.csv"
    with Rejections.into(rejected) as rejections:
        runs = list(read(open_source(path), options, rejections))
    with rejected.open(newline="", encoding="utf-8") as file:
        return runs, list(csv.DictReader(file))


def read_text(folder: Path, *lines: str, options: ReadOptions = NONE, encoding: str = "utf-8") -> Read:
    path = folder / "usage.csv"
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return read_path(path, options)


def read_row(folder: Path, options: ReadOptions = NONE, **cells: str) -> UsageRun:
    """The run of one row, from its cells that matter to the test."""
    runs, rejected = read_cells(folder, options, **cells)
    assert rejected == []
    assert len(runs) == 1
    return runs[0]


def read_cells(folder: Path, options: ReadOptions = NONE, **cells: str) -> Read:
    row = {"job_id": "7", "tenant": "acme", "start": EIGHT, "end": NINE} | cells
    path = folder / "usage.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)
    return read_path(path, options)


def code_of(rejected: list[dict[str, str]]) -> list[str]:
    return [each["reason"].split(":")[0] for each in rejected]
