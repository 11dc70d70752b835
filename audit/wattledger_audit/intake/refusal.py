"""What an importer can't accept: a whole file (InputRefused), or one row of it (Rejections)."""

import csv
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TextIO

from wattledger_audit.intake.safe_cell import safe_cell


class InputRefused(ValueError):
    """The file can't be read as asked; the message says where, which value, and which flag or change settles it."""


class Rejection(NamedTuple):
    """One line that was not used. `reason` is `code: words`; the code (before the colon) is what is counted."""

    file: str
    line: int
    column: str
    value: str
    reason: str


COLUMNS = Rejection._fields


@dataclass(slots=True)
class Rejections:
    """Writes every unused line to `rejected.csv` as it comes, and keeps counts and money by file and reason code.

    Written at once, so a million of them need no memory. `money` is the amount of refused billing lines, by
    (file, code, currency): money never disappears silently.
    """

    out: TextIO
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    money: dict[tuple[str, str, str], Decimal] = field(default_factory=dict)

    @classmethod
    def into(cls, path: Path) -> "Rejections":
        """A collector that writes to a new file, header included."""
        out = path.open("w", newline="", encoding="utf-8")
        csv.writer(out, lineterminator="\n").writerow(COLUMNS)
        return cls(out)

    def add(
        self,
        file: str,
        line: int,
        column: str,
        value: str,
        reason: str,
        amount: Decimal | None = None,
        currency: str = "",
    ) -> None:
        """One unused line; `reason` is `code: words`."""
        code = reason.split(":", 1)[0]
        self.counts[file, code] += 1
        if amount is not None:
            key = (file, code, currency)
            self.money[key] = self.money.get(key, Decimal(0)) + amount
        cells = [safe_cell(file), str(line), safe_cell(column), safe_cell(value[:500]), safe_cell(reason)]
        csv.writer(self.out, lineterminator="\n").writerow(cells)

    def __enter__(self) -> "Rejections":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.out.close()
