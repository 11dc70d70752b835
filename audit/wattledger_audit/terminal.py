"""The demo's summary for people: tables on the terminal. Owns layout only."""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

Rows = Sequence[Sequence[str]]


def _table(title: str, headers: Sequence[str], rows: Rows, text_columns: int = 1) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for place, header in enumerate(headers):
        table.add_column(header, justify="left" if place < text_columns else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _short(amount: str | None, places: int = 2) -> str:
    return "-" if amount is None else f"{float(amount):,.{places}f}"


def show(console: Console, summary: dict[str, Any]) -> None:
    """Tenants worst first, the capacity waterfall, idle burn, what is unknown, discrepancies, corrections, laws."""
    console.print(
        _table(
            "Tenants, worst margin first (EUR; full cost has the tenant's share of idle, weighted)",
            (
                "tenant",
                "verdict",
                "GPU-h",
                "kWh",
                "energy only",
                "true cost",
                "billed",
                "margin",
                "break-even",
                "suggested",
            ),
            [
                (
                    t["tenant"] + (f" ({t['plan']})" if t["plan"] else ""),
                    t["verdict"],
                    _short(t["gpu_hours"], 1),
                    _short(t["energy_kwh"], 1),
                    _short(t["cost_energy"]),
                    _short(t["cost_total"]),
                    _short(t["billed"]),
                    _short(t["margin"]),
                    _short(t["break_even_per_gpu_hour"], 3),
                    _short(t["suggested_price_per_gpu_hour"]),
                )
                for t in summary["tenants"]
            ],
            2,
        )
    )
    fleet = summary["fleet"]
    console.print(
        _table(
            "Where every installed hour went (GPU-hours)",
            tuple(fleet),
            [[_short(hours, 2) for hours in fleet.values()]],
            0,
        )
    )
    console.print(
        _table(
            "Idle burn by node (EUR)",
            ("node", "idle ratio", "cost", "kWh"),
            [(i["node"], i["idle_ratio"], _short(i["cost"]), _short(i["energy_kwh"], 1)) for i in summary["idle"]],
        )
    )
    coverage, rows = summary["coverage"], summary["rows"]
    console.print(
        f"Not measured: {100 - 100 * float(coverage['measured_ratio']):.1f} % of in-service time has no energy reading "
        f"({coverage['unmeasured_rows']} rows); not priced: {coverage['unpriced_rows']} rows."
    )
    console.print(
        _table(
            "Discrepancies",
            ("kind", "nodes", "count"),
            [(d["kind"], d["nodes"], str(d["count"])) for d in summary["discrepancies"]],
            2,
        )
    )
    console.print(
        f"Rows: {rows['usage_lines']} usage lines, {rows['cost_rows']} cost rows; {rows['reversals']} reversals, "
        f"{rows['corrections']} corrections; {rows['dead_letters']} dead letters."
    )
    console.print(
        _table(
            "Laws, as SQL on the tables",
            ("law", "holds", "residual", "unit"),
            [(v["law"], "yes" if v["ok"] else "NO", v["residual"], v["unit"]) for v in summary["verify"]],
            2,
        )
    )
