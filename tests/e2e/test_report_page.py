"""The report in a real browser: the switches change every figure to that of the report, and tables sort."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from wattledger_audit.report.cell_text import percent, shown
from wattledger_audit.report.model import IDLE_CHOICES, Report, Row
from wattledger_audit.report.switched_rows import NOT_A_PRICE, NOT_A_VERDICT, energy_only

from tests.e2e.report_browser import ENTER, SPACE, choose, chromium, needs_chromium, opened, press, run
from tests.report_sample import full_report

pytestmark = needs_chromium()
UNBILLED = "nothing billed was found for it"
# Every switched cell by the place of its row: text, and exact value as `name.title`.
FIGURES = """const out = {};
  for (const row of document.querySelectorAll(`tr[data-rows=${arguments[0]}]`)) {
    const cells = (out[row.dataset.index] = {});
    for (const cell of row.querySelectorAll("[data-figure]")) {
      cells[cell.dataset.figure] = cell.textContent;
      cells[cell.dataset.figure + ".title"] = cell.title;
    }
  }
  return out"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


def known(text: str | None, reason: str) -> str:
    return shown(text) if text is not None else f"– {reason}"


def ratio(text: str | None, reason: str) -> str:
    return percent(text) if text is not None else f"– {reason}"


def price(text: str | None, reason: str) -> str:
    return shown(text) if text is not None else f"–{reason}"


def at_true_cost(row: Row, policy: str) -> dict[str, str]:
    figures = row.by_policy[policy]
    return {
        "cost_total": shown(figures.cost_total),
        "cost_total.title": figures.cost_total or "",
        "idle_share": shown(figures.idle_share),
        "margin": known(figures.margin, UNBILLED),
        "margin_ratio": ratio(figures.margin_ratio, UNBILLED),
        "verdict": figures.verdict + figures.reason,
        "break_even_per_gpu_hour": price(figures.break_even_per_gpu_hour, figures.break_even_reason),
        "suggested_price_per_gpu_hour": price(figures.suggested_price_per_gpu_hour, figures.suggested_price_reason),
        "action": figures.action,
    }


def at_energy_only(row: Row) -> dict[str, str]:
    unknown = "energy is not known" if row.cost_energy is None else UNBILLED
    found = energy_only(row)
    return {
        "cost_total": known(row.cost_energy, unknown),
        "idle_share": "– energy only: no idle in it",
        "margin": known(found["margin"], unknown),
        "margin_ratio": ratio(found["margin_ratio"], unknown),
        "verdict": NOT_A_VERDICT,
        "break_even_per_gpu_hour": f"–{NOT_A_PRICE}",
        "suggested_price_per_gpu_hour": f"–{NOT_A_PRICE}",
        "action": "–",
    }


def assert_rows(browser: Any, name: str, rows: list[Row], expected: list[dict[str, str]]) -> None:
    """Every row shows what is expected, the sign before a verdict's word left off."""
    found = run(browser, FIGURES, name)
    assert len(found) == len(rows) > 0
    for place, wanted in enumerate(expected):
        got = found[str(place)] | {"verdict": found[str(place)]["verdict"].lstrip("▼◐◆▲?– ")}
        assert {key: got[key] for key in wanted} == wanted, (name, place, rows[place].tenant)


@pytest.mark.parametrize("policy", IDLE_CHOICES)
def test_true_cost_under_each_idle_policy_is_the_reports_in_every_row(
    browser: Any, tmp_path: Path, policy: str
) -> None:
    report = full_report()
    opened(browser, report, tmp_path)
    choose(browser, "true", policy)
    for name, rows in (("tenants", report.tenants), ("skus", report.skus), ("repricing", report.repricing)):
        wanted = [at_true_cost(row, policy) for row in rows]
        if name == "repricing":
            wanted = [{k: v for k, v in row.items() if k not in ("idle_share", "margin_ratio")} for row in wanted]
        assert_rows(browser, name, rows, wanted)
    assert policy in run(browser, "return document.getElementById('shown-now').textContent")


def test_energy_only_shows_the_cost_of_energy_and_no_verdict_and_no_price(browser: Any, tmp_path: Path) -> None:
    report = full_report()
    opened(browser, report, tmp_path)
    choose(browser, "energy", "even")
    for name, rows in (("tenants", report.tenants), ("skus", report.skus)):
        assert_rows(browser, name, rows, [at_energy_only(row) for row in rows])
    first = report.tenants[0]
    margin = Decimal(first.billed or "") - Decimal(first.cost_energy or "")
    assert run(browser, FIGURES, "tenants")["0"]["margin.title"] == str(margin)
    assert run(browser, "return document.getElementById('idle-policy').disabled")
    assert not run(browser, "return document.getElementById('repricing-energy').hidden")
    assert "Cost, energy only" in run(browser, "return document.querySelector('#tenants-table thead').textContent")


def test_going_back_restores_every_cell_as_it_was_written(browser: Any, tmp_path: Path) -> None:
    opened(browser, full_report(), tmp_path)
    cells = """return [...document.querySelectorAll("tr[data-rows]")].map((row) => [row.hidden, row.textContent,
      [...row.querySelectorAll("[data-figure]")].map((cell) =>
        [cell.innerHTML, cell.title, cell.className.split(" ").sort(), cell.dataset.sort || ""])])"""
    written = run(browser, cells)
    choose(browser, "energy", "normal")
    assert run(browser, cells) != written
    run(browser, "document.querySelector('#switches button[type=reset]').click()")
    run(browser, "return new Promise((done) => setTimeout(done, 50))")
    assert run(browser, cells) == written
    assert run(browser, "return document.getElementById('shown-now').textContent").endswith("as reported.")


def test_the_repricing_list_is_the_reports_and_follows_the_policy(browser: Any, tmp_path: Path) -> None:
    report = full_report()
    opened(browser, report, tmp_path)
    names = """return [...document.querySelectorAll("#repricing-table tbody tr:not([hidden])")]
      .map((row) => [0, 1, 2].map((column) => row.cells[column].textContent))"""
    assert run(browser, names) == [[row.tenant, row.sku, row.plan] for row in report.repricing]
    lengths = set()
    for policy in IDLE_CHOICES:
        choose(browser, "true", policy)
        rows = [row for row in report.skus if row.by_policy[policy].below_cost and row.plan != "internal"]
        rows.sort(key=lambda row: Decimal(row.by_policy[policy].margin or 0))
        assert run(browser, names) == [[row.tenant, row.sku, row.plan] for row in rows], policy
        lengths.add(len(rows))
    assert len(lengths) > 1


def edge_report() -> Report:
    """Figures where rounding and grouping can go wrong, in every switched column of every policy."""
    texts = ["0", "0.005", "-0.015", "0.0049", "0.000000000000001", "-999999.995", "1234567890123456789.125", "-0.00"]
    report = full_report()
    row = report.tenants[0]
    names = (
        "idle_share", "cost_total", "margin", "margin_ratio", "break_even_per_gpu_hour", "suggested_price_per_gpu_hour",
    )  # fmt: skip
    rows = []
    for text in [*texts, "1e3", "2.5E-3", "0.025", "0.0351", "999.995", "0.99999"]:
        figures = {p: row.by_policy[p].model_copy(update=dict.fromkeys(names, text)) for p in IDLE_CHOICES}
        rows.append(row.model_copy(update={"by_policy": figures}))
    return report.model_copy(update={"tenants": rows})


def test_the_browser_rounds_and_groups_figures_as_the_page_was_written_with(browser: Any, tmp_path: Path) -> None:
    report = edge_report()
    opened(browser, report, tmp_path)
    choose(browser, "true", "even")
    assert_rows(browser, "tenants", report.tenants, [at_true_cost(row, "even") for row in report.tenants])


SORT = """const head = document.querySelector(`#tenants-table th[data-key=${arguments[0]}]`);
  head.querySelector("button").focus(); return head.getAttribute("aria-sort")"""
COLUMN = """return [...document.querySelectorAll("#tenants-table tr[data-rows]")]
  .map((row) => row.querySelector(`[data-figure=${arguments[0]}]`).dataset.sort)"""


@pytest.mark.parametrize("key", [ENTER, SPACE], ids=["enter", "space"])
def test_a_table_sorts_by_key_as_numbers_with_unknown_last_and_back(browser: Any, tmp_path: Path, key: str) -> None:
    report = full_report()
    opened(browser, report, tmp_path)
    margins = [row.margin or "" for row in report.tenants]
    rising = sorted((text for text in margins if text), key=Decimal)
    assert "" in margins and margins != [*rising, ""]
    assert run(browser, SORT, "margin") == "none"
    for said, order in (("ascending", [*rising, ""]), ("descending", [*rising[::-1], ""]), ("none", margins)):
        press(browser, key)
        assert run(browser, SORT, "margin") == said
        assert run(browser, COLUMN, "margin") == order


def test_a_sorted_table_stays_sorted_when_a_switch_changes_its_figures(browser: Any, tmp_path: Path) -> None:
    report = full_report()
    opened(browser, report, tmp_path)
    run(browser, SORT, "cost_total")
    press(browser, ENTER)
    for cost, policy in (("true", "even"), ("energy", "even"), ("true", "apart")):
        choose(browser, cost, policy)
        found = [text for text in run(browser, COLUMN, "cost_total") if text]
        assert found == sorted(found, key=Decimal)
        wanted = {row.cost_energy if cost == "energy" else row.by_policy[policy].cost_total for row in report.tenants}
        assert set(found) == wanted - {None}


def test_a_click_sorts_names_as_words_and_details_stay_under_their_row(browser: Any, tmp_path: Path) -> None:
    opened(browser, full_report(), tmp_path)
    click = """[...document.querySelectorAll("#idle-table thead button")]
      .find((button) => button.textContent.includes(arguments[0])).click()"""
    rows = """return [...document.querySelectorAll("#idle-table > tbody > tr")].map((row) => row.dataset.node
      || "under " + row.querySelector("caption").textContent.split(" on ")[1].split(",")[0])"""
    for column in ("Machine", "Idle cost"):
        run(browser, click, column)
        found = run(browser, rows)
        for name in ("gpu-a00", "gpu-b01"):
            assert found[found.index(name) + 1] == f"under {name}"
        machines = [name for name in found if not name.startswith("under")]
        if column == "Machine":
            assert machines == sorted(machines)
    hours = "return [...document.querySelectorAll('#idle-table tr[data-node]')].map((row) => row.cells[7].title)"
    assert run(browser, hours) == sorted(run(browser, hours), key=Decimal)
