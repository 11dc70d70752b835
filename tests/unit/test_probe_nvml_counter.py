"""Runs of the energy counter: a reset opens an epoch, a bad read does not, and no epoch ever falls."""

import pytest
from wattledger_agent.probes.nvml_counter import CounterRun
from wattledger_agent.probes.reading import IMPLAUSIBLE, NOT_SUPPORTED, Reading, unknown

_MOST_MW = 1_050_000
_MJ = 1_000


def _take(run: CounterRun, readings: list[int | None], step_s: float = 1.0) -> list[tuple[int | None, str]]:
    """(value in mJ, epoch number) of each reading in mJ; None: the card gave none."""
    told = []
    for place, raw in enumerate(readings):
        read = unknown(NOT_SUPPORTED) if raw is None else Reading(raw * _MJ)
        taken = run.take(read, place * step_s, _MOST_MW)
        told.append((None if taken.value is None else taken.value // _MJ, run.epoch.rpartition("/")[2]))
    return told


@pytest.mark.parametrize(
    ("case", "readings", "told"),
    [
        (
            "B01: reset; the fall is withheld once, then a new epoch rises from there",
            [123456789, 42, 300042, 600042],
            [(123456789, "0"), (None, "0"), (300042, "1"), (600042, "1")],
        ),
        (
            "B32: one bad read comes back and opens no epoch",
            [22_000_000, 200, 22_600_000, 22_900_000],
            [(22_000_000, "0"), (None, "0"), (22_600_000, "0"), (22_900_000, "0")],
        ),
        (
            "a bad read upwards comes back too",
            [1_000_000, 9_000_000, 1_600_000],
            [(1_000_000, "0"), (None, "0"), (1_600_000, "0")],
        ),
        (
            "a stuck bad value proves no new line",
            [1_000_000, 0, 0, 0, 2_200_000],
            [(1_000_000, "0"), (None, "0"), (None, "0"), (None, "0"), (2_200_000, "0")],
        ),
        (
            "two wild values that do not go on from each other",
            [1_000_000, 70_000_000, 3, 1_900_000],
            [(1_000_000, "0"), (None, "0"), (None, "0"), (1_900_000, "0")],
        ),
        (
            "a missing reading is no reset",
            [1_000_000, None, 1_600_000],
            [(1_000_000, "0"), (None, "0"), (1_600_000, "0")],
        ),
        (
            "an idle step of 0 is a reading: not resolvable, not a reset",
            [1_000_000, 1_000_000, 1_060_000],
            [(1_000_000, "0"), (1_000_000, "0"), (1_060_000, "0")],
        ),
        (
            "two resets",
            [5_000_000, 10, 300_000, 20, 60_020],
            [(5_000_000, "0"), (None, "0"), (300_000, "1"), (None, "1"), (60_020, "2")],
        ),
    ],
)
def test_what_is_told_of_a_counter(case: str, readings: list[int | None], told: list[tuple[int | None, str]]) -> None:
    assert _take(CounterRun("boot/590"), readings) == told, case


def test_the_withheld_reading_says_implausible() -> None:
    run = CounterRun("boot/590")
    run.take(Reading(123456789 * _MJ), 0.0, _MOST_MW)
    assert run.take(Reading(42 * _MJ), 10.0, _MOST_MW) == unknown(IMPLAUSIBLE)


def test_a_long_pause_explains_a_large_gain() -> None:
    run = CounterRun("boot/590")
    run.take(Reading(0), 0.0, _MOST_MW)
    assert run.take(Reading(3_600 * 700_000 * _MJ), 3_600.0, _MOST_MW).value is not None
    assert run.epoch == "boot/590/0"


def test_a_card_found_again_counts_in_a_new_epoch_even_when_its_counter_did_not_fall() -> None:
    run = CounterRun("boot/590")
    run.take(Reading(1_000_000), 0.0, _MOST_MW)
    run.begin_anew()
    assert run.take(Reading(1_300_000), 1.0, _MOST_MW) == Reading(1_300_000)
    assert run.epoch == "boot/590/1"


def test_a_card_that_never_counted_has_nothing_to_begin_anew() -> None:
    run = CounterRun("boot/590")
    run.begin_anew()
    run.take(Reading(1_000_000), 0.0, _MOST_MW)
    assert run.epoch == "boot/590/0"


def test_another_driver_is_another_epoch() -> None:
    run = CounterRun("boot/590.48.01")
    run.take(Reading(9_000_000), 0.0, _MOST_MW)
    run.run_under("boot/595.80")
    assert run.take(Reading(5), 1.0, _MOST_MW) == Reading(5)
    assert run.epoch == "boot/595.80/0"
