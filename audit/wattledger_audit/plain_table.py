"""Tables for a terminal: cells are text as it is, made safe; no markup is read from names."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wattledger_audit.report.terminal_line import clean

Rows = Sequence[Sequence[str | None]]


def show_table(console: Console, title: str, headers: Sequence[str], rows: Rows, text_columns: int = 1) -> None:
    """A table under its title; the first `text_columns` columns are text, the others figures. None shows as a dash."""
    if title:
        console.print(plain_line(title), style="bold")
    table = Table(box=box.SIMPLE_HEAD, show_header=any(headers), pad_edge=False)
    for place, header in enumerate(headers):
        table.add_column(Text(clean(header)), justify="left" if place < text_columns else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text("–" if cell is None else clean(cell)) for cell in row))
    console.print(table)


def plain_line(text: str) -> Text:
    """One line of words."""
    return Text(clean(text))
