"""Curves against values worked out on paper."""

import numpy as np
import pytest
from wattledger_core.batch import Batch, SampledDevice
from wattledger_core.curve import COUNTER, POWER, build_curves, mark_text
from wattledger_core.policy import Policy

S = 1_000_000


def one_device(
    ticks_s: list[float],
    power_mw: list[int | None],
    counter_uj: list[int | None] | None = None,
    busy_ppm: list[int | None] | None = None,
    epoch_from: int = 0,
    floor_mw: int | None = None,
    period_s: int = 1,
) -> Batch:
    n = len(ticks_s)

    def column(values: list[int | None] | None) -> tuple[np.ndarray, np.ndarray]:
        given = values if values is not None else [None] * n
        return (
            np.array([[0 if v is None else v for v in given]], dtype=np.int64),
            np.array([[v is not None for v in given]]),
        )

    power, counter, busy = column(power_mw), column(counter_uj), column(busy_ppm)
    device = SampledDevice("GPU-0", 0, "0:0", 0, "H100", "550", "", "exclusive", "e", epoch_from, floor_mw)
    ticks = np.array([round(t * S) for t in ticks_s], dtype=np.int64)
    return Batch("n", "site", "a", "b", 0, period_s * S, ticks, (device,), *power, *counter, *busy)


def test_a_trapezoid_is_integrated_exactly_and_cut_inside_a_pair() -> None:
    curves = build_curves(one_device([0, 1, 2], [100_000, 300_000, 300_000]), Policy())
    whole = curves.whole()[0]
    # 1 s at a mean of 200 W, 1 s at 300 W
    assert whole.energy_uj == 500_000_000
    assert whole.method == POWER
    # C(0.5 s) = 100 W * 0.5 s + 200 W/s * 0.5^2/2 s = 50 J + 25 J
    assert curves.slice(0, 0, 500_000).energy_uj == 75_000_000
    assert curves.slice(0, 500_000, 2 * S).energy_uj == 425_000_000


def test_the_counter_wins_over_power_and_is_cut_along_a_line() -> None:
    curves = build_curves(one_device([0, 1, 2], [100_000] * 3, [0, 99_000_000, 198_000_001]), Policy())
    assert curves.whole()[0].energy_uj == 198_000_001
    assert curves.whole()[0].method == COUNTER
    assert curves.slice(0, S, 1_500_000).energy_uj == 49_500_000
    assert curves.slice(0, 1_500_000, 2 * S).energy_uj == 49_500_001


def test_a_counter_bridges_an_outage_of_any_length_and_says_so() -> None:
    curves = build_curves(one_device([0, 1200, 1201], [100_000] * 3, [0, 120_000_000_000, 120_100_000_000]), Policy())
    whole = curves.whole()[0]
    assert whole.energy_uj == 120_100_000_000
    assert whole.unknown_us == 0
    assert mark_text(whole.marks) == "interpolated"


def test_power_alone_does_not_bridge_a_gap() -> None:
    curves = build_curves(one_device([0, 1, 21, 22], [100_000] * 4), Policy())
    whole = curves.whole()[0]
    assert whole.energy_uj == 200_000_000
    assert whole.unknown_us == 20 * S
    assert curves.slice(0, 2 * S, 20 * S) == curves.slice(0, 2 * S, 20 * S)
    assert curves.slice(0, 2 * S, 20 * S).measured_us == 0


@pytest.mark.parametrize(
    ("counter", "power", "energy", "marks"),
    [
        # aitra-meter#59: 123456789 mJ falls to 42 mJ while power goes 300 -> 310 W: the trapezoid, a reset
        ([123_456_789_000, 42_000, 310_042_000], [300_000, 310_000, 310_000], 305_000_000 + 310_000_000, "reset"),
        # xpumanager#130: one bad low read; the next good one closes the gap
        ([22_000_000_000_000, 200_000_000, 22_000_600_000_000], [300_000] * 3, 600_000_000, "bad_read,interpolated"),
        # a missing read in the middle
        ([0, None, 600_000_001], [300_000] * 3, 600_000_001, "interpolated"),
        # no counter change at all while power flows
        ([7] * 8, [300_000] * 8, 7 * 300_000_000, "counter_frozen"),
        # a jump no card can make
        ([0, 10_000_000_000_000, 10_000_300_000_000], [300_000] * 3, 600_000_000, "implausible"),
        # counter and power 1.74 apart (zeus#181): the counter, marked
        ([0, 187_443_000], [326_883] * 2, 187_443_000, "disagree"),
    ],
)
def test_counters_are_repaired_or_refused(
    counter: list[int | None], power: list[int | None], energy: int, marks: str
) -> None:
    ticks = [float(i) for i in range(len(power))]
    whole = build_curves(one_device(ticks, power, counter), Policy()).whole()[0]
    assert (whole.energy_uj, mark_text(whole.marks)) == (energy, marks)


def test_ticks_of_two_epochs_are_never_differenced() -> None:
    # the counter restarted from 0 in a gap and already passed its old value
    curves = build_curves(
        one_device([0, 100, 101], [100_000] * 3, [50, 900_000_000, 1_000_000_000], epoch_from=1), Policy()
    )
    whole = curves.whole()[0]
    assert (whole.energy_uj, whole.unknown_us) == (99_999_999 + 1, 100 * S)
    assert "reset" in mark_text(whole.marks)


def test_idle_energy_is_that_of_pairs_that_were_not_busy() -> None:
    curves = build_curves(one_device([0, 1, 2, 3], [100_000] * 4, None, [0, 0, 500_000, None]), Policy())
    whole = curves.whole()[0]
    assert (whole.energy_uj, whole.idle_uj, whole.busy_us) == (300_000_000, 100_000_000, 500_000)


def test_the_idle_floor_is_capped_by_what_was_measured() -> None:
    curves = build_curves(one_device([0, 1, 2], [50_000, 50_000, 250_000], floor_mw=70_000), Policy())
    assert curves.slice(0, 0, 2 * S).static_uj == 50_000_000 + 70_000_000


def test_an_implausible_power_reading_is_not_integrated() -> None:
    curves = build_curves(one_device([0, 1, 2, 3], [100_000, 100_000, 4_294_967_295, 100_000]), Policy())
    whole = curves.whole()[0]
    assert (whole.energy_uj, whole.unknown_us, mark_text(whole.marks)) == (100_000_000, 2 * S, "implausible")
