"""Lines that were not used, counted by reason with one example each, for commands that write no `rejected.csv`."""

import io
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TextIO

from wattledger_audit.intake.refusal import Rejection, Rejections


class _Nowhere(io.StringIO):
    """Takes what is written and keeps nothing: a million refused lines need no memory."""

    def write(self, text: str, /) -> int:
        return len(text)


@dataclass(slots=True)
class RejectionExamples(Rejections):
    """Counts by file and reason code, and the first line of each."""

    out: TextIO = field(default_factory=_Nowhere)
    first: dict[tuple[str, str], Rejection] = field(default_factory=dict)

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
        self.first.setdefault((file, reason.split(":", 1)[0]), Rejection(file, line, column, value[:500], reason))
        Rejections.add(self, file, line, column, value, reason, amount, currency)

    def told(self) -> list[str]:
        """A sentence for each file: how many of its lines were not used, and why."""
        by_file: dict[str, list[str]] = {}
        for (file, code), count in sorted(self.counts.items()):
            by_file.setdefault(file, []).append(f"{count} {code}")
        return [
            f"{file}: lines not used: {', '.join(found)} (`wattledger inspect` shows one of each)"
            for file, found in by_file.items()
        ]
