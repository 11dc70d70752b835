"""Which file lost most of what it holds: lines that were refused though they say what was used or billed."""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from wattledger_audit.gathering import LOSES_NOTHING, FileTaken
from wattledger_audit.intake.record import BILLING, USAGE
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.report.amount_text import cents

NOTICED_PERCENT = 5
ANSWERED = LOSES_NOTHING | {"tax", "tax_row", "outside_period", "replaced_by_redelivery"}
"""Codes of lines whose use and money are counted elsewhere, or are none of this audit's."""


class LostLines(NamedTuple):
    """`lines` of `of` lines of a file were refused, most of them for `code`; `money` by currency."""

    file: str
    lines: int
    of: int
    code: str
    money: tuple[tuple[str, Decimal], ...]

    def asked(self) -> str:
        """The question that it raises, and where its answer is."""
        worth = ", ".join(f"{cents(amount)} {currency}".strip() for currency, amount in self.money)
        lines = f"{'was' if self.lines == 1 else 'were'} {self.lines:,} of {self.of:,} lines of {self.file}"
        return (
            f"Why {lines} not used{f' ({worth})' if worth else ''}? Most are {self.code}: rejected.csv says each one's "
            "reason; mend the file or export it again."
        )


def lost_lines(files: Sequence[FileTaken], rejections: Rejections) -> LostLines | None:
    """The usage or billing file with the largest share of refused lines, where that is worth a question."""
    found = [lost for file in files if file.role in (USAGE, BILLING) and (lost := _lost(file, rejections))]
    noticed = [lost for lost in found if lost.lines * 100 >= lost.of * NOTICED_PERCENT]
    return max(noticed, key=lambda lost: (lost.lines / lost.of, lost.file), default=None)


def _lost(file: FileTaken, rejections: Rejections) -> LostLines | None:
    name = file.path.name
    codes = {
        code: count
        for (of, code), count in rejections.counts.items()
        if of in (name, file.name) and code not in ANSWERED
    }
    if not codes:
        return None
    money: dict[str, Decimal] = {}
    for (of, code, currency), amount in rejections.money.items():
        if of in (name, file.name) and code in codes:
            money[currency] = money.get(currency, Decimal(0)) + amount
    lines = sum(codes.values())
    most = min(codes, key=lambda code: (-codes[code], code))
    return LostLines(file.name, lines, file.records + lines, most, tuple(sorted(money.items())))
