"""The worst tenants as aligned lines for a terminal: verdict, margin, break-even → suggested price, one action each."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from rich.cells import cell_len

from wattledger_audit.report.cell_text import places_of
from wattledger_audit.report.model import Report, Row
from wattledger_audit.report.shown import number_text
from wattledger_audit.report.terminal_line import WIDTH, clean, cut, padded

WORST = 5
LEAKAGE = "leakage"
_TEXT_COLUMNS = 24
_SHORTER = {"covers cash, not capital": "covers cash only", "depends on the idle policy": "depends on idle"}


def worst_first(rows: Sequence[Row]) -> list[Row]:
    """Lowest margin first; those without one last, in the report's order."""
    known = [(Decimal(row.margin), row) for row in rows if row.margin is not None]
    return [row for _, row in sorted(known, key=lambda pair: pair[0])] + [row for row in rows if row.margin is None]


def worst_lines(report: Report, spare: int) -> list[str]:
    """A heading and a line a tenant, of at most WORST. Where an action does not fit, verdicts are shortened; then the
    action has a line of its own while there are `spare` ones, and is cut after that."""
    rows = worst_first(report.tenants)[:WORST]
    if not rows:
        return ["No tenant used or was billed anything in this period."]
    title = f"Worst {len(rows)} of {len(report.tenants)}"
    show = _leakage if report.stage == LEAKAGE else _judged
    places = places_of(report.price_step)
    actions = ["action", *(clean(row.action) for row in rows)]
    left = _aligned(*show(title, rows, places, {}))
    if not all(_fits(line, action) for line, action in zip(left, actions, strict=True)):
        left = _aligned(*show(title, rows, places, _SHORTER))
    lines = []
    for line, action in zip(left, actions, strict=True):
        if spare > 0 and not _fits(line, action):
            lines += [cut(line.rstrip()), cut(f"    {action}")]
            spare -= 1
        else:
            lines.append(cut(f"{line}  {action}".rstrip()))
    return lines


def _fits(line: str, action: str) -> bool:
    return cell_len(line) + 2 + cell_len(action) <= WIDTH


def _aligned(table: Sequence[Sequence[str]], texts: int) -> list[str]:
    """Columns of one width each: the first `texts` are cut where they are long, numbers never."""
    widths = [max(cell_len(line[place]) for line in table) for place in range(len(table[0]))]
    widths[:texts] = [min(width, _TEXT_COLUMNS) for width in widths[:texts]]
    return ["  ".join(padded(cell, widths[place], place >= texts) for place, cell in enumerate(line)) for line in table]


def _name(row: Row) -> str:
    return clean(f"{row.tenant} ({row.plan})" if row.plan else row.tenant)


def _leakage(title: str, rows: Sequence[Row], places: int, _: Mapping[str, str]) -> tuple[list[list[str]], int]:
    """Without costs: what was used beside what was billed."""
    heading = [title, "billable GPU-h", "billed GPU-h", "billed", "per GPU-h"]
    cells = [
        [
            _name(row),
            *map(number_text, (row.billable_gpu_hours, row.billed_gpu_hours, row.billed)),
            number_text(row.effective_rate_per_gpu_hour, places),
        ]
        for row in rows
    ]
    return [heading, *cells], 1


def _judged(title: str, rows: Sequence[Row], places: int, shorter: Mapping[str, str]) -> tuple[list[list[str]], int]:
    heading = [title, "verdict", "margin", "break-even → ask"]
    cells = [
        [_name(row), shorter.get(row.verdict, clean(row.verdict)), number_text(row.margin), _prices(row, places)]
        for row in rows
    ]
    return [heading, *cells], 2


def _prices(row: Row, places: int) -> str:
    prices = (row.break_even_per_gpu_hour, row.suggested_price_per_gpu_hour)
    return " → ".join("none" if price is None else number_text(price, places) for price in prices)
