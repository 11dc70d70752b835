"""`report.html`: one file that needs no network, written from the report's values. The same report, the same bytes."""

from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from wattledger_audit.report import cell_text, chart, embedded, switched_rows, table_columns
from wattledger_audit.report.model import Report

SCRIPTS = ("decimal.js", "cells.js", "sorting.js", "switches.js", "choosers.js", "reading.js")
_TEMPLATES = "templates"
_VERDICT_MARKS = {
    "loses cash": ("loses", "▼", 0),
    "covers cash, not capital": ("covers", "◐", 1),
    "depends on the idle policy": ("depends", "◆", 2),
    "healthy": ("healthy", "▲", 3),
    "insufficient data": ("insufficient", "?", 4),
    switched_rows.NOT_A_VERDICT: ("none", "–", 5),
}
"""Class, sign and rank of each verdict: told by word and sign, never by colour alone."""


def write_page(report: Report, path: Path) -> None:
    """Writes the report as one HTML file, UTF-8."""
    path.write_bytes(page_text(report).encode())


def page_text(report: Report) -> str:
    """The whole page. Every text of the report is escaped; styles and scripts run by their hash alone."""
    environment = _environment(cell_text.places_of(report.price_step))
    style = environment.get_template("style/page.css.j2").render().strip()
    script = _script()
    shape = table_columns.shape_of(report)
    columns = table_columns.columns(shape)
    candidates = switched_rows.repricing_candidates(report)
    return environment.get_template("page.html.j2").render(
        report=report,
        shape=shape,
        columns=columns,
        column_groups=table_columns.groups(columns),
        repricing_columns=table_columns.repricing_columns(shape),
        candidates=candidates,
        bridge_bars=chart.drawn(chart.bridge_bars(report.bridge)),
        capacity_bars=chart.drawn(chart.capacity_bars(report.waterfall)),
        share_bar=chart.share_bar,
        policy=embedded.policy((style,), (script,)),
        style=Markup(style),
        script=Markup(script),
        report_json=embedded.script_json(report.model_dump(mode="json")),
        page_json=embedded.script_json(_page_data(report, shape)),
    )


def _page_data(report: Report, shape: table_columns.Shape) -> dict[str, object]:
    """What the page's script needs beside the report itself."""
    return {
        "energy_only": switched_rows.energy_only_rows(report),
        "marks": _VERDICT_MARKS,
        "not_a_verdict": switched_rows.NOT_A_VERDICT,
        "not_a_price": switched_rows.NOT_A_PRICE,
        "policies": shape.policies,
        "price_places": cell_text.places_of(report.price_step),
    }


def _script() -> str:
    """The page's program: its parts, in order, in one scope of their own."""
    folder = files("wattledger_audit.report") / _TEMPLATES / "script"
    parts = [(folder / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return '(function () {\n"use strict";\n' + "\n".join(parts) + "})();"


def _environment(price_places: int) -> Environment:
    environment = Environment(
        loader=PackageLoader("wattledger_audit.report", _TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters["shown"] = cell_text.shown
    environment.filters["percent"] = cell_text.percent
    environment.filters["price"] = lambda text: cell_text.shown(text, price_places)
    environment.filters["short_percent"] = cell_text.short_percent
    environment.filters["trimmed"] = cell_text.trimmed
    environment.filters["moment"] = cell_text.moment
    environment.globals["verdict_marks"] = _VERDICT_MARKS
    return environment
