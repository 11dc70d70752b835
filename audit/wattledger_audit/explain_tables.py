"""Explanations on a terminal: figures with their formulas first, then the tables that they are summed from."""

from collections.abc import Sequence
from decimal import Decimal

from rich.console import Console

from wattledger_audit.explain_value import (
    BilledLine,
    Figure,
    IdleShare,
    JobExplained,
    PricedGroup,
    RowExplained,
    RunHeld,
    SpreadGroup,
    TenantExplained,
)
from wattledger_audit.plain_table import plain_line, show_table
from wattledger_audit.report.amount_text import money

SHOWN_RUNS = 10


def show_tenant(console: Console, one: TenantExplained) -> None:
    """Every row of a tenant, then the invoice lines that count in none."""
    console.print(plain_line(f"{one.tenant}, {one.period_start} to {one.period_end} ({one.timezone})"), style="bold")
    for row in one.rows:
        _show_row(console, row)
    if one.not_counted:
        show_table(console, "Invoice lines that do not count", _BILLED, [_billed(line) for line in one.not_counted], 6)


def show_job(console: Console, one: JobExplained) -> None:
    """Runs, cost rows by window, sums, and what the time should be billed at."""
    name = f"{one.cluster}/{one.job}" if one.cluster else one.job
    console.print(plain_line(f"Job {name} of {', '.join(one.tenants)}: {one.gpu_hours} GPU-hours"), style="bold")
    console.print(plain_line(f"{one.period_start} to {one.period_end} ({one.timezone})"))
    _show_runs(console, one.runs, 0)
    _show_priced(console, "What its time cost, by window and price", one.priced)
    _show_spread(console, one.spread)
    _show_figures(console, "Cost", one.costs)
    rows = [
        (short(each.start), short(each.end), each.sku, each.plan, each.basis, each.gpu_hours, money(each.rate),
         money(each.amount))
        for each in one.worth
    ]  # fmt: skip
    headers = ("from", "to", "SKU", "plan", "rate from", "GPU-hours", f"{one.currency}/GPU-h", one.currency)
    if rows:
        show_table(console, "What it should be billed at", headers, rows, 5)


def _show_row(console: Console, row: RowExplained) -> None:
    plan = f" ({row.plan})" if row.plan else ""
    reason = f": {row.reason}" if row.reason else ""
    console.print(plain_line(f"{row.tenant}{plan}: {row.verdict}{reason}. {row.action}"), style="bold")
    _show_figures(console, "", row.figures)
    _show_priced(console, "Cost by price: quantity × rate", row.priced)
    _show_spread(console, row.spread)
    for share in row.idle:
        _show_idle(console, share)
    if row.billed:
        show_table(console, "Invoice lines", _BILLED, [_billed(line) for line in row.billed], 6)
    _show_runs(console, row.runs, row.more_runs)


def _show_figures(console: Console, title: str, figures: Sequence[Figure]) -> None:
    if figures:
        rows = [(each.name, each.value, each.unit, each.formula) for each in figures]
        show_table(console, title, ("figure", "value", "unit", "formula"), rows, 4)


def _show_priced(console: Console, title: str, groups: Sequence[PricedGroup]) -> None:
    if not groups:
        return
    rows = [
        (
            each.component, _span(each), each.sku, f"{each.site} {each.gpu_model}".strip(),
            " ".join(part for part in (each.state, each.method) if part), each.formula + _rounding(each.rounding),
            _versions(each),
        )
        for each in groups
    ]  # fmt: skip
    headers = ("component", "window", "SKU", "where", "state", "quantity × rate = cost", "price version")
    if not any(row[1] for row in rows):
        headers, rows = (*headers[:1], *headers[2:]), [(*row[:1], *row[2:]) for row in rows]  # type: ignore[assignment,misc]
    show_table(console, title, headers, rows, len(headers))


def _versions(group: PricedGroup) -> str:
    """Where the price is written, its id and when it holds; of several versions, how many and their hull."""
    if not group.prices:
        return ""
    first, last = group.prices[0], group.prices[-1]
    named = f"{first.price_id[:12]}, " if len(group.prices) == 1 else f"{len(group.prices)} periods, "
    return f"{group.where}: {named}{short(first.start)} to {short(last.end)}".removeprefix(": ")


def _rounding(rounding: Decimal | None) -> str:
    return f" (rounded row by row: {rounding:+f})" if rounding else ""


def _show_spread(console: Console, groups: Sequence[SpreadGroup]) -> None:
    if not groups:
        return
    rows = [
        (each.component, f"{short(each.start)} to {short(each.end)}", each.driver, each.formula, each.share)
        for each in groups
    ]
    show_table(console, "Parts of amounts", ("component", "amount for", "driver", "how", "share"), rows, 4)


def _show_idle(console: Console, one: IdleShare) -> None:
    place = " ".join(part for part in (one.site, one.gpu_model) if part) or "all GPUs"
    title = f"Idle of {place}: {one.idle_gpu_hours} GPU-hours, {money(one.idle_cost)}, {one.policy}: {one.formula}"
    console.print(plain_line(title), style="bold")
    _show_priced(console, "What that idle time cost", one.priced)
    _show_spread(console, one.spread)


_BILLED = ("where", "invoice", "SKU", "kind", "period", "note", "amount", "counts")


def _billed(line: BilledLine) -> tuple[str | None, ...]:
    return (
        line.where, line.invoice_id, line.sku, line.category, f"{short(line.start)} to {short(line.end)}", line.note,
        f"{money(line.amount)} {line.currency}", money(line.counted),
    )  # fmt: skip


def _show_runs(console: Console, runs: Sequence[RunHeld], more: int) -> None:
    rows = [
        (
            run.where, f"{run.cluster}/{run.job}" if run.cluster else run.job, run.nodes,
            ("?" if run.gpus is None else str(run.gpus)) + (f" × {run.share}" if run.share else ""), short(run.start),
            short(run.end or "running"), f"{run.payer}: {run.why}", run.gpu_hours, run.energy_kwh,
        )
        for run in runs[:SHOWN_RUNS]
    ]  # fmt: skip
    headers = ("where", "job", "nodes", "GPUs", "start", "end", "who pays", "GPU-hours", "kWh")
    left = more + max(len(runs) - SHOWN_RUNS, 0)
    if rows:
        show_table(console, f"Runs, largest first ({left} more)" if left else "Runs", headers, rows, 7)


def _span(group: PricedGroup) -> str:
    return f"{short(group.start)} to {short(group.end)}" if group.end else ""


def short(moment: str) -> str:
    """A moment without seconds where they are 0."""
    return f"{moment[:16]}{moment[19:]}" if moment[16:19] == ":00" else moment
