"""A file as a user has it, taken by content and read: what became of every line, for the tests of known cases."""

import csv
import io
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BillingLine, DeviceTrace, Record, UsageRun
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.registry import take

S = 1_000_000
UTC_ZONE = ZoneInfo("UTC")
PLAIN = ReadOptions()
UTC = ReadOptions(timezone=UTC_ZONE)
BERLIN = ReadOptions(timezone=ZoneInfo("Europe/Berlin"))


class Told(NamedTuple):
    """What a file gave. `rejected` is (line, column, value, reason code); `money` what was refused, by code."""

    taken_as: str
    records: list[Record]
    rejected: list[tuple[int, str, str, str]]
    money: dict[str, Decimal]

    @property
    def runs(self) -> list[UsageRun]:
        return [record for record in self.records if isinstance(record, UsageRun)]

    @property
    def lines(self) -> list[BillingLine]:
        return [record for record in self.records if isinstance(record, BillingLine)]

    @property
    def traces(self) -> list[DeviceTrace]:
        return [record for record in self.records if isinstance(record, DeviceTrace)]

    @property
    def codes(self) -> list[str]:
        return [code for _, _, _, code in self.rejected]

    def amounts(self) -> list[Decimal]:
        """Amounts of the billed lines in file order."""
        return [line.amount for line in self.lines]

    def total(self) -> Decimal:
        """Their sum."""
        return sum(self.amounts(), Decimal(0))

    def run(self) -> UsageRun:
        """The only run."""
        (run,) = self.runs
        return run


def read_case(
    folder: Path, name: str, content: str | bytes, options: ReadOptions = PLAIN, role: str | None = None
) -> Told:
    """Write the file and read it with whatever importer takes it. Raises InputRefused as the command would."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    taken = take(path, role, options.encoding)
    out = io.StringIO()
    rejections = Rejections(out)
    records = list(taken.importer.read(taken.source, options, rejections))
    rows = csv.reader(io.StringIO(out.getvalue()))
    rejected = [(int(line), column, value, reason.split(":")[0]) for _, line, column, value, reason in rows]
    return Told(
        taken.importer.name, records, rejected, {code: amount for (_, code, _), amount in rejections.money.items()}
    )


def gpu_seconds(run: UsageRun) -> Fraction | None:
    """GPUs × share × time held, in seconds; 0 for a run that never started, None where it is open or not counted."""
    if run.start_us is None:
        return Fraction(0)
    if run.end_us is None or run.gpus is None:
        return None
    held_us = run.end_us - run.start_us - run.suspended_us
    return Fraction(held_us, S) * run.gpus * Fraction(run.share_num, run.share_den)


def all_gpu_seconds(runs: Iterable[UsageRun]) -> Fraction:
    """Over all runs; every one of them must be counted and closed."""
    found = [gpu_seconds(run) for run in runs]
    assert None not in found
    return sum((each for each in found if each is not None), Fraction(0))


def at(text: str) -> int:
    """µs of an ISO stamp with its offset."""
    moment = datetime.fromisoformat(text)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC_ZONE)) // timedelta(microseconds=1)


def ids_in_words(tests: Mapping[str, object]) -> set[str]:
    """The case ids that the docstrings of a module's tests begin with."""
    words = [re.match(r"[ABCE]\d+\b", test.__doc__ or "") for name, test in tests.items() if name.startswith("test_")]
    return {word[0] for word in words if word}


def ids_of(*names: str) -> set[str]:
    """The case ids in front of parametrize ids: `A13-requeues-all-count` is A13."""
    return {name.split("-", 1)[0] for name in names}
