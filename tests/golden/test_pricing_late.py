"""Late prices on paper: one device held for one quarter-hour (0.25 GPU-hours), L = 60 s, so what is known before 960 s
prices it and what comes after corrects it."""

from decimal import Decimal

import pytest
from wattledger_core.cost import CostRow
from wattledger_core.ids import digest
from wattledger_core.price import Price

from tests.pricing_builders import QUARTER, S, costs, energy_line, price, price_log, pricer, reversed_line, tick
from tests.pricing_builders import time_line as line_of_quarter

EARLY = price("compute", "2.00", offset=0)
LATE = price("compute", "3.00", offset=9, gpu_model="H100", reason="supplier invoice came late")
LATE_REVISION = digest("price-revision", "p9", 0, 9, 0)


def compute(rows: list[CostRow]) -> list[tuple[Decimal | None, int, str, str]]:
    return [(row.cost, row.sign, row.entry, row.price_id) for row in rows if row.component == "compute"]


def test_a_late_price_takes_the_row_back_and_corrects_it() -> None:
    line = line_of_quarter()
    rows = [row for row in pricer(EARLY, tick(960), LATE).price([line]) if row.component == "compute"]
    assert compute(rows) == [
        (Decimal("0.50"), 1, "original", "p0"),
        (Decimal("-0.50"), -1, "reversal", "p0"),
        (Decimal("0.75"), 1, "correction", "p9"),
    ]
    base = digest("cost", line.line_id, "compute")
    assert [row.row_id for row in rows] == [
        base,
        digest("cost-reversal", LATE_REVISION, base),
        digest("cost-correction", LATE_REVISION, line.line_id, "compute"),
    ]
    assert [row.of_row_id for row in rows] == ["", base, ""]
    assert [row.cause_id for row in rows] == ["", LATE_REVISION, LATE_REVISION]
    assert [row.quantity for row in rows] == [QUARTER, -QUARTER, QUARTER]


@pytest.mark.parametrize(("known_s", "late"), [(959, False), (960, True), (961, True)])
def test_a_price_is_late_from_the_end_plus_the_lateness_on(known_s: int, late: bool) -> None:
    rows = pricer(EARLY, tick(known_s), LATE).price([line_of_quarter()])
    assert costs(rows, "compute") == (
        [Decimal("0.50"), Decimal("-0.50"), Decimal("0.75")] if late else [Decimal("0.75")]
    )


def test_repricing_gives_only_the_step_of_the_late_price() -> None:
    before = pricer(EARLY, tick(960))
    line = line_of_quarter()
    log = price_log(EARLY, tick(960), LATE)
    after = pricer(EARLY, tick(960), LATE)
    assert after.reprice([line], log.entries[1]) == after.price([line])[len(before.price([line])) :]
    assert after.reprice([line], log.entries[0]) == []
    assert after.reprice([line_of_quarter(quarter=1)], log.entries[1]) == []


def test_a_late_revision_that_changes_nothing_of_a_row_leaves_it() -> None:
    ended_later = price("compute", "2.00", offset=3, name="p0", end_us=4 * QUARTER)
    elsewhere = price("compute", "9.00", offset=4, site="fra2")
    assert costs(pricer(EARLY, tick(960), ended_later, elsewhere).price([line_of_quarter()]), "compute") == [
        Decimal("0.50")
    ]


def test_ending_a_price_late_and_publishing_another_corrects_twice() -> None:
    ended = price("compute", "2.00", offset=3, name="p0", end_us=0)
    other = price("compute", "2.40", offset=4, reason="typing error")
    rows = [
        row for row in pricer(EARLY, tick(2000), ended, other).price([line_of_quarter()]) if row.component == "compute"
    ]
    assert [(row.cost, row.sign, row.status) for row in rows] == [
        (Decimal("0.50"), 1, "priced"),
        (Decimal("-0.50"), -1, "priced"),
        (None, 1, "unpriced"),
        (None, -1, "unpriced"),
        (Decimal("0.60"), 1, "priced"),
    ]
    assert [row.of_row_id for row in rows if row.sign < 0] == [rows[0].row_id, rows[2].row_id]


def test_a_second_price_of_one_rank_that_comes_late_takes_the_price_away() -> None:
    rows = pricer(EARLY, tick(960), price("compute", "2.00", offset=9, reason="twice")).price([line_of_quarter()])
    assert [(row.cost, row.reason) for row in rows if row.component == "compute"] == [
        (Decimal("0.50"), ""),
        (Decimal("-0.50"), ""),
        (None, "ambiguous_price"),
    ]


def test_a_pool_that_comes_late_adds_a_row_and_one_that_is_withdrawn_leaves_none() -> None:
    pool = {"pool_name": "fabric", "driver": "installed_gpu_h"}
    added = price("pool", "0.40", offset=3, name="f", reason="forgotten", **pool)
    withdrawn = price("pool", "0.40", offset=4, name="f", end_us=0, **pool)
    rows = pricer(EARLY, tick(960), added, tick(970), withdrawn).price([line_of_quarter()])
    assert [(row.cost, row.entry) for row in rows if row.component == "pool:fabric"] == [
        (Decimal("0.10"), "correction"),
        (Decimal("-0.10"), "reversal"),
    ]


def test_the_rows_of_a_reversed_line_follow_the_same_chain_negated() -> None:
    line = line_of_quarter()
    found = pricer(EARLY, tick(960), LATE)
    original = [row for row in found.price([line]) if row.component == "compute"]
    reversal = [row for row in found.price([reversed_line(line)]) if row.component == "compute"]
    assert [(row.cost, row.sign, row.entry) for row in reversal] == [
        (Decimal("-0.50"), -1, "reversal"),
        (Decimal("0.50"), 1, "correction"),
        (Decimal("-0.75"), -1, "reversal"),
    ]
    assert reversal[0].of_row_id == original[0].row_id
    assert reversal[1].of_row_id == reversal[0].row_id
    assert reversal[2].of_row_id == original[2].row_id


def test_an_unmeasured_row_is_not_touched_by_a_late_tariff() -> None:
    found = pricer(price("energy", "0.30", offset=0), tick(960), price("energy", "0.50", offset=2, site="fra1"))
    assert [row.status for row in found.price([energy_line(energy_uj=None, reason="gap")])] == ["unmeasured"]


def test_a_price_change_at_noon_prices_either_side_with_its_own_rate() -> None:
    noon = 48
    morning = price("compute", "2.00", offset=0, end_us=noon * QUARTER)
    afternoon = price("compute", "2.80", offset=1, start_us=noon * QUARTER)
    rows = pricer(morning, afternoon, tick(100_000)).price([line_of_quarter(noon - 1), line_of_quarter(noon)])
    assert costs(rows, "compute") == [Decimal("0.50"), Decimal("0.70")]


def test_steps_are_written_in_log_order_whatever_the_component() -> None:
    rate = price("rate", "3.00", offset=3, reason="late")
    rows = pricer(EARLY, tick(960), rate, LATE).price([line_of_quarter()])
    assert [(row.component, row.cost) for row in rows] == [
        ("compute", Decimal("0.50")),
        ("billed", None),
        ("billed", None),
        ("billed", Decimal("0.75")),
        ("compute", Decimal("-0.50")),
        ("compute", Decimal("0.75")),
    ]


def test_two_batches_of_one_quarter_hour_may_stand_on_either_side_of_a_late_tariff() -> None:
    first, last = energy_line(), energy_line(line_id="last", group_start_us=870 * S, group_end_us=900 * S,
                                             start_us=870 * S, end_us=900 * S)  # fmt: skip
    dearer = price("energy", "0.50", offset=2, site="fra1")
    found = pricer(price("energy", "0.30", offset=0), tick(500), dearer, tick(2000))
    # 0.1 kWh: 0.03 known before 90 s, then corrected; the last batch, cut off at 960 s, knew 0.50
    assert costs(found.price([first, last])) == [
        Decimal("0.03"), Decimal("-0.03"), Decimal("0.05"), Decimal("0.05"),
    ]  # fmt: skip


def test_reach_names_the_lines_that_a_late_price_can_touch() -> None:
    book: list[Price] = [
        EARLY,
        price("compute", "3.00", offset=2, start_us=QUARTER, reason="late", gpu_model="H100"),
        price("compute", "2.00", offset=3, name="p0", end_us=2 * QUARTER),
        price("compute", "4.00", offset=4, start_us=40 * QUARTER),
    ]
    found = pricer(book[0], tick(10_000), *book[1:])
    assert [found.reach(entry) for entry in price_log(book[0], tick(10_000), *book[1:]).entries] == [
        None,
        (QUARTER, 9940 * S),
        (2 * QUARTER, 9940 * S),
        None,
    ]
