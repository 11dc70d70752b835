"""How figures are shown, the bars of the charts, and the figures of energy alone: values only."""

from decimal import Decimal

import pytest
from wattledger_audit.report import cell_text
from wattledger_audit.report.chart import Bar, bridge_bars, capacity_bars, drawn, share_bar
from wattledger_audit.report.model import IDLE_CHOICES, CapacityState, Report, Step
from wattledger_audit.report.switched_rows import energy_only, repricing_candidates
from wattledger_audit.report.table_columns import columns, groups, shape_of

from tests.report_sample import full_report, leakage_report

NBSP = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("text", "places", "expected"),
    [
        ("1234567.891", 2, "1,234,567.89"),
        ("-1234.5", 2, "-1,234.50"),
        ("0", 2, "0.00"),
        ("-0.00", 2, "0.00"),
        ("0.005", 2, "0.0050"),
        ("0.015", 2, "0.02"),
        ("0.025", 2, "0.02"),
        ("0.035", 2, "0.04"),
        ("-0.0004", 2, "-0.00040"),
        ("0.0000000000001234", 2, "0.00000000000012"),
        ("999.995", 2, "1,000.00"),
        ("2.4", 3, "2.400"),
        ("745", 0, "745"),
        ("1E+3", 2, "1,000.00"),
        ("1234567890123456789012345678.125", 2, "1,234,567,890,123,456,789,012,345,678.12"),
        (None, 2, "–"),
        ("620.00 USD", 2, "620.00 USD"),
        ("NaN", 2, "NaN"),
        ("", 2, ""),
    ],
)
def test_a_figure_is_shown_in_thousands_rounded_to_even_and_never_zero_when_it_is_not(
    text: str | None, places: int, expected: str
) -> None:
    assert cell_text.shown(text, places) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0.1234", "12.34"), ("-15.3995", "-1,539.95"), ("1", "100.00"), ("0.00001", "0.0010"), ("0", "0.00")],
)
def test_a_ratio_is_shown_as_per_cent(text: str, expected: str) -> None:
    assert cell_text.percent(text) == f"{expected}{NBSP}%"


def test_a_chosen_ratio_and_a_whole_number_have_no_needless_zeros() -> None:
    assert [cell_text.short_percent(text) for text in ("0.2", "0.125", "1", "0")] == [
        f"20{NBSP}%", f"12.5{NBSP}%", f"100{NBSP}%", f"0{NBSP}%",
    ]  # fmt: skip
    assert [cell_text.trimmed(text) for text in ("745.000000", "743.5", "0.50")] == ["745", "743.50", "0.50"]


@pytest.mark.parametrize(
    ("step", "places"), [("0.05", 2), ("1", 2), ("0.005", 3), ("0.0001", 4), ("0.50", 2), ("x", 2)]
)
def test_prices_have_the_decimals_of_the_price_step_and_two_at_least(step: str, places: int) -> None:
    assert cell_text.places_of(step) == places


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-10-01T00:00:00+02:00", "2026-10-01"),
        ("2026-10-01T00:00Z", "2026-10-01"),
        ("2026-10-01T08:30:00+02:00", "2026-10-01 08:30:00 +02:00"),
        ("2026-10-01", "2026-10-01"),
        ("October", "October"),
    ],
)
def test_a_moment_is_a_date_where_it_is_midnight(text: str, expected: str) -> None:
    assert cell_text.moment(text) == expected


def step(kind: str, amount: str | None) -> Step:
    return Step(
        step="s", label="s", kind=kind, amount=amount, hours=None, tenants=[], invoices=[], jobs=[], more=0, note=""
    )


def test_changes_of_the_bridge_start_where_the_step_before_ended() -> None:
    steps = [("total", "100"), ("change", "-30"), ("change", None), ("change", "5"), ("total", "75"), ("change", "-90")]
    assert bridge_bars(step(kind, amount) for kind, amount in steps) == [
        Bar(Decimal(0), Decimal(100), "total"),
        Bar(Decimal(70), Decimal(100), "fall"),
        None,
        Bar(Decimal(70), Decimal(75), "rise"),
        Bar(Decimal(0), Decimal(75), "total"),
        Bar(Decimal(-15), Decimal(75), "fall"),
    ]


def test_parts_of_capacity_are_taken_off() -> None:
    states = [
        CapacityState(step="s", label="s", kind=kind, gpu_hours=hours, cost=None, reasons=[])
        for kind, hours in (("total", "10"), ("part", "4"), ("part", "-1"), ("total", "7"))
    ]
    spans = [(int(bar.low), int(bar.high)) for bar in capacity_bars(states) if bar]
    assert spans == [(0, 10), (6, 10), (6, 7), (0, 7)]


def test_bars_share_one_scale_that_holds_zero() -> None:
    svgs = drawn([Bar(Decimal(0), Decimal(30), "total"), None, Bar(Decimal(-10), Decimal(10), "fall")])
    assert 'class="bar-total" x="250" y="3" width="750"' in svgs[0]
    assert svgs[1] == ""
    assert 'class="bar-fall" x="0" y="3" width="500"' in svgs[2]
    assert all('x1="250"' in svg for svg in (svgs[0], svgs[2]))
    assert drawn([None, Bar(Decimal(0), Decimal(0), "total")]) == ["", ""]


@pytest.mark.parametrize(("ratio", "width"), [("0.5", "500"), ("1.7", "1000"), ("-1", None), (None, None), ("0", None)])
def test_a_share_is_drawn_between_nothing_and_all(ratio: str | None, width: str | None) -> None:
    found = share_bar([(ratio, "total")])
    assert ("bar-total" in found) == (width is not None)
    assert width is None or f'width="{width}"' in found.split("bar-total")[1]


@pytest.mark.parametrize(
    ("energy", "billed", "margin", "ratio"),
    [
        ("11034.118273", "9800.00", "-1234.118273", "-0.1259"),
        ("0.00", "450", "450.00", "1.0000"),
        (None, "450", None, None),
        ("10", None, None, None),
        ("10", "0", "-10", None),
    ],
)
def test_energy_alone_is_set_against_what_was_billed_exactly(
    energy: str | None, billed: str | None, margin: str | None, ratio: str | None
) -> None:
    row = full_report().tenants[0].model_copy(update={"cost_energy": energy, "billed": billed})
    assert energy_only(row) == {"cost_total": energy, "margin": margin, "margin_ratio": ratio}


def test_candidates_for_repricing_are_the_reports_list_and_whom_another_policy_would_add() -> None:
    report = full_report()
    found = repricing_candidates(report)
    assert [item.row for item in found if item.listed] == report.repricing
    others = [item for item in found if not item.listed]
    assert all(report.skus[item.place] is item.row and item.row.plan != "internal" for item in others)
    names = {(item.row.tenant, item.row.sku) for item in found}
    below = {
        (row.tenant, row.sku)
        for row in report.skus
        if row.plan != "internal" and any(row.by_policy[policy].below_cost for policy in IDLE_CHOICES)
    }
    assert names == below


@pytest.mark.parametrize("report", [full_report(), leakage_report()], ids=["full", "leakage"])
def test_groups_of_columns_span_them_all(report: Report) -> None:
    shown = columns(shape_of(report))
    assert sum(count for _, count in groups(shown)) == len(shown) == len({column.key for column in shown})
