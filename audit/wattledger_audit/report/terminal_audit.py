"""The verdict of an audit on a terminal: twenty lines of a hundred columns. Owns layout only."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from wattledger_audit.report.amount_text import counted
from wattledger_audit.report.model import FileUsed, Report, Step
from wattledger_audit.report.shown import number_text, percent_text, share_text
from wattledger_audit.report.terminal_line import WIDTH, clean, cut, packed, wrapped
from wattledger_audit.report.terminal_worst import worst_lines

LINES = 20
FILES = 6
_NAME_COLUMNS = 24
_BRIDGE_LINES = 3


def show_audit(console: Console, report: Report, out: Path | None = None) -> None:
    """Print the verdict: files, bridge, worst tenants with an action each, capacity, coverage, the next answer.

    At most LINES lines of WIDTH columns whatever the report holds: what does not fit is cut with `…` or counted; only
    the path of the report is never cut. `out` is the folder that it was written to.
    """
    headline, following = clean(report.headline or report.title), clean(report.next_answer)
    first = wrapped("", headline, 2)
    after = wrapped("Next: ", following, 2) if following else []
    files, bridge, worst = _files(report, FILES), _bridge(report), worst_lines(report, 0)
    # Three more lines are there: capacity, coverage, and where the report is.
    spare = LINES - len(first) - len(after) - len(files) - len(bridge) - len(worst) - 3
    if spare < 0:
        files = _files(report, len(files) + spare)
        spare = 0
    _print(console, first, "bold")
    _print(console, [*files, *bridge, *worst_lines(report, spare), _capacity(report), _coverage(report)])
    _print(console, after, "bold")
    _print(console, [_where(report, out)])


def _print(console: Console, lines: Sequence[str], style: str = "") -> None:
    """As they are: no markup is read from names, and nothing is wrapped again."""
    for line in lines:
        console.print(Text(line, style), soft_wrap=True, highlight=False)


def _files(report: Report, most: int) -> list[str]:
    """A line a file; of more than `most` the rest in one line: the verdict's sentences come before them."""
    shown = report.files if len(report.files) <= most else report.files[: most - 1]
    rest = report.files[len(shown) :]
    lines = [_file(one) for one in shown]
    if rest:
        records, rejected = sum(one.records for one in rest), sum(one.rejected for one in rest)
        lines.append(cut(f"{len(rest)} more files: {records:,} rows, {rejected:,} not used"))
    return lines or ["No file was used."]


def _file(one: FileUsed) -> str:
    known = [counted(one.records, "row")]
    if one.gpu_hours is not None:
        known.append(f"{number_text(one.gpu_hours)} GPU-h")
    known += [f"{number_text(amount)} {currency}" for currency, amount in one.money.items()]
    if one.rejected or one.refused_money:
        money = ", ".join(f"{number_text(amount)} {currency}" for currency, amount in one.refused_money.items())
        known.append(f"{one.rejected:,} not used" + (f" ({money})" if money else ""))
    # The figures are what the line is for: the format gives way to them, then the name.
    name = clean(one.name)
    figures = clean(f": {one.role}, {one.format}: {', '.join(known)}")
    if min(cell_len(name), _NAME_COLUMNS) + cell_len(figures) > WIDTH:
        figures = clean(f": {one.role}: {', '.join(known)}")
    return cut(cut(name, max(WIDTH - cell_len(figures), _NAME_COLUMNS // 2)) + figures)


def _bridge(report: Report) -> list[str]:
    if not report.bridge:
        return ["No bridge: it needs a usage log and a billing export."]
    lines = packed("Bridge: ", [*_steps(report.bridge), report.currency], WIDTH)
    if len(lines) >= _BRIDGE_LINES:
        moving = [step for step in report.bridge if step.kind == "total" or not _is_zero(step.amount)]
        lines = packed("Bridge: ", [*_steps(moving), report.currency], WIDTH)
    if len(lines) > _BRIDGE_LINES:
        # A chain that stops midway would not add up: then only its totals, and where the steps are.
        totals = [step for step in report.bridge if step.kind == "total"]
        left_out = f"{report.currency} ({len(report.bridge) - len(totals)} steps are in the report)"
        lines = packed("Bridge: ", [*_steps(totals), left_out], WIDTH)
    return [cut(line) for line in lines[:_BRIDGE_LINES]]


def _steps(bridge: Sequence[Step]) -> list[str]:
    """`expected 41,200.00`, `− unbilled 3,100.00`, …, `= billed 36,780.00`."""
    items = []
    for place, step in enumerate(bridge):
        name, amount = clean(step.step).replace("_x_", " × ").replace("_", " "), number_text(step.amount)
        if step.amount is None and step.hours is not None:
            amount = f"{number_text(step.hours)} GPU-h"
        if step.kind == "total":
            sign = "= " if place else ""
        elif step.amount is None:
            sign = "± "
        else:
            sign = "− " if amount.startswith("−") else "+ "
            amount = amount.removeprefix("−")
        items.append(f"{sign}{name} {amount}")
    return items


def _is_zero(amount: str | None) -> bool:
    return amount is not None and Decimal(amount) == 0


def _capacity(report: Report) -> str:
    """Billed ÷ installed, and what the rest was, largest first."""
    ratio, whole = report.billed_over_installed, report.waterfall[0].gpu_hours if report.waterfall else "0"
    if _is_zero(whole):
        return "Capacity: no machine is known."
    billed = f"{number_text(whole)} GPU-h installed"
    if ratio is not None:
        billed = f"billed ÷ installed {percent_text(ratio)} of {number_text(whole)} GPU-h"
    parts = [state for state in report.waterfall if state.kind == "part" and not _is_zero(state.gpu_hours)]
    parts.sort(key=lambda state: Decimal(state.gpu_hours), reverse=True)
    rest = ", ".join(f"{clean(state.label).partition(' (')[0]} {share_text(state.gpu_hours, whole)}" for state in parts)
    return cut(f"Capacity: {billed}" + (f"; {rest}" if rest else ""))


def _coverage(report: Report) -> str:
    seen = report.coverage
    matched = seen.billed_matched_ratio
    parts = [
        f"measured {percent_text(seen.measured_ratio)}",
        f"modelled {percent_text(seen.modelled_ratio)}",
        f"GPUs known {percent_text(seen.known_gpus_ratio)}",
        f"priced {percent_text(seen.priced_ratio)}",
        *([] if matched is None else [f"billing matched {percent_text(matched)}"]),
    ]
    return cut(f"Coverage: {', '.join(parts)}")


def _where(report: Report, out: Path | None) -> str:
    place = clean("report.html" if out is None else str(out / "report.html"))
    start, end = (clean(moment).partition("T00:00:00")[0] for moment in (report.period_start, report.period_end))
    line = f"Report: {place} ({start} to {end})"
    more = f"{line}; also report.json, tables/, rejected.csv"
    return more if cell_len(more) <= WIDTH else line if cell_len(line) <= WIDTH else f"Report: {place}"
