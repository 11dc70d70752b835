"""The terminal's verdict: twenty lines of a hundred columns that say what the report says."""

import io
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from wattledger_audit.report.model import Report
from wattledger_audit.report.terminal_audit import show_audit

from tests.report_sample import full_report, leakage_report, usage_only_report
from tests.unit.report_small import BRIDGE, file_used, row, small_report, step

LONG = "raise every H100 on-demand price of this tenant to 3.13 per GPU-hour before its contract is renewed in December"


def lines(report: Report, out: Path | None = Path("out/audit"), width: int = 80) -> list[str]:
    """What comes out where the terminal is narrow, or is a file."""
    written = io.StringIO()
    show_audit(Console(file=written, width=width, color_system=None), report, out)
    return written.getvalue().splitlines()


def squeezed(line: str) -> str:
    return " ".join(line.split())


def line_of(report: Report, word: str) -> str:
    [found] = [line for line in lines(report) if word in line]
    return found


def test_files_are_a_line_each_with_rows_hours_money_and_what_was_not_used() -> None:
    assert line_of(small_report(), "usage.csv") == (
        "usage.csv: usage, sacct -P: 12,345 rows, 41,200.12 GPU-h, 3 not used"
    )
    assert line_of(small_report(), "billing.csv") == (
        "billing.csv: billing, FOCUS 1.1: 12,345 rows, 36,780.00 EUR, 3 not used (120.00 EUR)"
    )


def test_of_a_long_file_name_and_format_the_figures_stay() -> None:
    line = line_of(small_report(files=[file_used("u" * 200 + ".csv")]), "uuu")
    assert line.endswith("…: usage, sacct -P: 12,345 rows, 41,200.12 GPU-h, 3 not used")
    assert cell_len(line) == 100
    much = file_used("u" * 200, format="f" * 60, money={"EUR": "1", "USD": "2"}, refused_money={"EUR": "3"})
    assert line_of(small_report(files=[much]), "uuu").endswith(
        "…: usage: 12,345 rows, 41,200.12 GPU-h, 1.00 EUR, 2.00 USD, 3 not used (3.00 EUR)"
    )


def test_the_bridge_leads_from_expected_to_billed_in_at_most_two_lines() -> None:
    found = lines(small_report())
    [start] = [place for place, line in enumerate(found) if line.startswith("Bridge:")]
    text = " ".join(line.strip() for line in found[start : start + 2])
    assert text == (
        "Bridge: expected 41,200.00 − unbilled 3,100.00 − quantity 20.00 − rate 800.00 − credits 500.00 "
        "+ without usage 0.00 = billed 36,780.00 EUR"
    )


def test_money_is_rounded_half_even_to_cents_exactly() -> None:
    amounts = {
        "0.005": "0.00",
        "0.015": "0.02",
        "-0.001": "0.00",
        "12345678901234567890.125": "12,345,678,901,234,567,890.12",
    }
    for amount, shown in amounts.items():
        assert line_of(small_report(bridge=[step("x", amount, "total")]), "Bridge") == f"Bridge: x {shown} EUR"


def test_an_unknown_step_says_so_or_gives_its_hours() -> None:
    bridge = [step("expected", None, "total"), step("unbilled", None, hours="12.5"), step("billed", "7", "total")]
    assert line_of(small_report(bridge=bridge), "Bridge") == (
        "Bridge: expected unknown ± unbilled 12.50 GPU-h = billed 7.00 EUR"
    )


def test_many_steps_give_way_to_those_that_are_not_zero() -> None:
    many = [BRIDGE[0], *(step(f"nothing number {n}", "0") for n in range(12)), *BRIDGE[1:]]
    text = "\n".join(lines(small_report(bridge=many)))
    assert "nothing number" not in text
    assert "− credits 500.00" in text and "= billed 36,780.00 EUR" in text


def test_a_bridge_that_does_not_fit_gives_its_totals_and_never_half_a_sum() -> None:
    many = [BRIDGE[0], *(step(f"a step with a long name {n}", "1234567890.5") for n in range(12)), BRIDGE[-1]]
    assert line_of(small_report(bridge=many), "Bridge") == (
        "Bridge: expected 41,200.00 = billed 36,780.00 EUR (12 steps are in the report)"
    )


def test_tenants_are_worst_first_without_a_margin_last_with_one_action_each() -> None:
    tenants = [
        row("unknown", margin=None),
        row("good", margin="5"),
        row("bad", margin="-1234.565"),
        row("poor", margin="1"),
    ]
    found = lines(small_report(tenants=tenants))
    start = next(place for place, line in enumerate(found) if line.startswith("Worst 4 of 4"))
    assert [line.split()[0] for line in found[start + 1 : start + 5]] == ["bad", "poor", "good", "unknown"]
    assert squeezed(found[start + 1]) == "bad loses cash −1,234.56 2.50 → 3.13 raise to 3.13 per GPU-hour"


def test_five_of_many_are_shown_and_the_heading_says_of_how_many() -> None:
    found = lines(small_report(tenants=[row(f"t{n:02}", margin=str(n)) for n in range(40)]))
    assert [line.split()[0] for line in found if line.startswith("t")] == ["t00", "t01", "t02", "t03", "t04"]
    assert any(line.startswith("Worst 5 of 40") for line in found)


def test_prices_have_the_places_of_the_price_step() -> None:
    priced = row("t", break_even_per_gpu_hour="0.12345", suggested_price_per_gpu_hour="0.155")
    assert "0.123 → 0.155" in line_of(small_report(tenants=[priced], price_step="0.005"), "t           ")
    unpriced = row("t", break_even_per_gpu_hour=None, suggested_price_per_gpu_hour=None)
    assert "none → none" in line_of(small_report(tenants=[unpriced]), "t           ")


def test_an_action_that_does_not_fit_has_its_own_line_while_there_is_room() -> None:
    tenants = [row(f"tenant-{n}", action=LONG[:90], verdict="covers cash, not capital") for n in range(5)]
    for files, apart in ((2, 5), (4, 3), (6, 1)):
        found = lines(small_report(tenants=tenants, files=[file_used(f"{n}.csv") for n in range(files)]))
        assert sum(line == f"    {LONG[:90]}" for line in found) == apart
        assert sum("covers cash only" in line and line.endswith("…") for line in found) == 5 - apart
    assert len(found) == 20


def test_capacity_coverage_next_answer_and_place_are_there() -> None:
    found = "\n".join(lines(small_report()))
    assert "Capacity: billed ÷ installed 61.2 % of 74,400.00 GPU-h; free 26.9 %\n" in found
    assert "Coverage: measured 0 %, modelled 98 %, GPUs known 100 %, priced 100 %\n" in found
    assert "Next: a contract price for tenant b would settle 1 verdict\n" in found
    assert "Report: out/audit/report.html (2026-10-01 to 2026-11-01); also" in found


def test_before_any_cost_it_shows_used_beside_billed() -> None:
    tenants = [row("a", margin=None), row("b", margin=None, effective_rate_per_gpu_hour=None, action="bill it")]
    found = lines(small_report(stage="leakage", tenants=tenants, repricing=[]))
    start = next(place for place, line in enumerate(found) if line.startswith("Worst 2 of 2"))
    assert [squeezed(line) for line in found[start : start + 3]] == [
        "Worst 2 of 2 billable GPU-h billed GPU-h billed per GPU-h action",
        "a 100.00 90.00 10.00 0.10 raise to 3.13 per GPU-hour",
        "b 100.00 90.00 10.00 unknown bill it",
    ]
    assert not any("break-even" in line for line in found)


def test_without_billing_there_is_no_bridge_and_unknown_stays_unknown() -> None:
    tenants = [row("a", billed=None, billed_gpu_hours=None, margin=None, verdict="insufficient data")]
    report = small_report(bridge=[], tenants=tenants, billed_over_installed=None, unbilled=None, waterfall=[])
    found = lines(report)
    assert "No bridge: it needs a usage log and a billing export." in found
    assert "Capacity: no machine is known." in found
    assert "insufficient data  unknown" in line_of(report, "insufficient")


def test_no_name_moves_the_cursor_or_is_read_as_markup() -> None:
    name = "\x1b[2J\x9b1m[red]a[/red]\r\n\u202eb"
    report = small_report(
        tenants=[row(name, action=name)],
        files=[file_used(name)],
        headline=name,
        next_answer=name,
        bridge=[step(name, "1")],
    )
    text = "\n".join(lines(report))
    assert text.isprintable() or set(text) - {"\n"} == {c for c in text if c.isprintable()}
    assert "[red]a[/red]" in text


WIDE = "数据中心" * 40
REPORTS = [
    small_report(),
    full_report(),
    leakage_report(),
    usage_only_report(),
    small_report(files=[file_used(f"{n}.csv") for n in range(6)], headline=WIDE, next_answer=LONG * 3),
    small_report(files=[file_used(WIDE) for _ in range(60)], tenants=[row(WIDE, action=WIDE, verdict=WIDE)] * 60),
    small_report(
        files=[file_used(f"{n}.csv") for n in range(6)],
        bridge=[step(f"a step with a long name {n}", "1234567890123456.5") for n in range(30)],
        tenants=[row(LONG, action=LONG, margin="-" + "9" * 60)] * 5,
        next_answer=LONG * 3,
        headline=LONG * 3,
    ),
    small_report(files=[], bridge=[], tenants=[], waterfall=[], next_answer="", headline=""),
    small_report(stage="leakage", tenants=[row(LONG, billed="9" * 60, action=LONG)] * 9, headline=LONG * 3),
]


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_is_at_most_twenty_lines_of_a_hundred_columns_on_every_terminal(report: Report, width: int) -> None:
    found = lines(report, width=width)
    assert 7 <= len(found) <= 20
    assert max(cell_len(line) for line in found) <= 100
    assert all(line.strip() for line in found)


def test_only_the_path_of_the_report_is_never_cut() -> None:
    place = Path("/" + "long/" * 40)
    assert lines(small_report(), place)[-1] == f"Report: {place}/report.html"
