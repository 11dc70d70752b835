"""AMD's energy counter: its unit, and what becomes of stale, foreign, falling, wrapping and mis-scaled readings."""

import itertools

import pytest
from wattledger_agent.probes.amd_energy import CounterSample, CounterTrack, counts_of, microjoules
from wattledger_agent.probes.reading import (
    FOREIGN,
    IMPLAUSIBLE,
    NOT_READ,
    NOT_SUPPORTED,
    SENTINEL,
    STALE,
    Reading,
    unknown,
)

S = 1_000_000
UNKNOWN = unknown(NOT_READ)


def _sample(counts: int, second: int, stamp_ns: int | None = -1) -> CounterSample:
    return CounterSample(counts, second * 1_000_000_000 + 7 if stamp_ns == -1 else stamp_ns, second * S)


def _fed(track: CounterTrack, counts: list[int], watts: int, start: int = 0) -> list[Reading]:
    """One reading a second."""
    return [track.take(_sample(value, start + n), Reading(watts * 1000)) for n, value in enumerate(counts)]


def _steady(watts: int, seconds: int, start: int = 0) -> list[int]:
    return [start + watts * 65_536 * n for n in range(seconds)]


UNITS = [(65_536, 1_000_000), (65_628, 1_001_403), (0, 0), (1, 15), (64, 976), (65_536 * 10**12, 10**18)]


@pytest.mark.parametrize(("counts", "expected_uj"), UNITS)
def test_b22_a_count_is_2_to_the_minus_16_joule(counts: int, expected_uj: int) -> None:
    assert microjoules(counts) == expected_uj
    assert counts_of(expected_uj) <= counts


@pytest.mark.parametrize("counts", [1, 1023, 65_537, 4_750_896_266, (1 << 32) + 1, (1 << 63) + 12_345])
def test_b22_the_cumulative_is_exact_but_for_the_last_microjoule(counts: int) -> None:
    assert 0 <= counts * 15_625 - microjoules(counts) * 1024 < 1024


def test_good_vector_of_an_mi210_in_its_true_unit() -> None:
    # Joules as printed with 15.3 µJ a count, one second apart.
    printed_mj = [20_909_145_914, 20_909_188_578, 20_909_231_286, 20_909_273_989]
    counts = [round(mj * 1000 / 15.3) for mj in printed_mj]
    readings = _fed(CounterTrack(300_000), counts, 43)
    values = [reading.value for reading in readings[1:]]
    assert readings[0] == UNKNOWN
    steps = [(b or 0) - (a or 0) for a, b in itertools.pairwise(values)]
    assert [round(step / 1000) for step in steps] == [42_593, 42_588]


def test_the_counter_is_used_once_it_agrees_with_power() -> None:
    counts = _steady(100, 3, 9_000_000_000)
    assert _fed(CounterTrack(), counts, 100) == [UNKNOWN, *(Reading(microjoules(value)) for value in counts[1:])]


RATIOS = [(1_001, False), (999, True), (101, True), (11, True), (10, False), (1, False)]


@pytest.mark.parametrize(("counted_w", "is_used"), RATIOS)
def test_a_counter_is_used_only_within_a_factor_of_ten_of_power(counted_w: int, is_used: bool) -> None:
    readings = _fed(CounterTrack(5_000_000), _steady(counted_w, 4, 1), 100)
    assert [reading.value is not None for reading in readings] == [False, *[is_used] * 3]
    assert is_used or readings[-1].reason == IMPLAUSIBLE


def test_power_of_zero_or_unknown_confirms_nothing() -> None:
    for power in (unknown(IMPLAUSIBLE), unknown(SENTINEL)):
        track = CounterTrack()
        assert [track.take(_sample(v, n), power) for n, v in enumerate(_steady(100, 4, 1))] == [UNKNOWN] * 4


def test_a_device_without_power_readings_is_believed_its_moving_counter() -> None:
    track = CounterTrack()
    counts = _steady(100, 3, 1)
    readings = [track.take(_sample(value, n), unknown(NOT_SUPPORTED)) for n, value in enumerate(counts)]
    assert readings[1:] == [Reading(microjoules(value)) for value in counts[1:]]


def test_b20_the_same_stamp_twice_is_stale_and_not_0_joule() -> None:
    track = CounterTrack()
    before = _fed(track, _steady(200, 3, 8_152_136), 200)[-1]
    frozen = CounterSample(8_152_136 + 2 * 200 * 65_536, 2_000_000_007, 3 * S)
    assert track.take(frozen, Reading(200_000)) == unknown(STALE)
    again = track.take(_sample(8_152_136 + 4 * 200 * 65_536, 4), Reading(200_000))
    assert (again.value or 0) - (before.value or 0) == 400 * S  # the next good read closes the gap
    assert track.run == 0


def test_b20_the_same_stamp_twice_is_stale_without_a_power_to_compare_with() -> None:
    track = CounterTrack()
    for n, counts in enumerate(_steady(100, 3, 1)):
        track.take(_sample(counts, n), unknown(NOT_SUPPORTED))
    again = CounterSample(1 + 2 * 6_553_600, 2_000_000_007, 3 * S)
    assert track.take(again, unknown(NOT_SUPPORTED)) == unknown(STALE)


def test_b20_a_frozen_counter_with_a_moving_stamp_is_stale_while_power_is_drawn() -> None:
    assert _fed(CounterTrack(), [8_152_136] * 4, 200)[1:] == [unknown(STALE)] * 3


def test_b20_after_five_stale_readings_the_counter_must_prove_itself_again_in_a_new_run() -> None:
    track = CounterTrack()
    counts = _steady(200, 3, 8_152_136)
    _fed(track, counts, 200)
    assert _fed(track, [counts[-1]] * 5, 200, start=3) == [unknown(STALE)] * 5
    resumed = _fed(track, _steady(200, 7, counts[-1] + 65_536 * 1200), 200, start=8)
    assert [reading.value is not None for reading in resumed] == [False] * 4 + [True] * 3
    assert track.run == 1


def test_a_counter_that_goes_wrong_while_used_is_given_up() -> None:
    track = CounterTrack()
    counts = _steady(200, 3, 1)
    _fed(track, counts, 200)
    crawling = [counts[-1] + n for n in range(1, 8)]
    readings = _fed(track, crawling, 200, start=3)
    assert [reading.value is not None for reading in readings] == [True] * 4 + [False] * 3
    assert readings[-1] == unknown(IMPLAUSIBLE)


def test_b19_another_gpus_value_is_left_out_and_the_next_good_read_closes_the_gap() -> None:
    f110, c610 = CounterTrack(750_000), CounterTrack(750_000)
    power = Reading(43_000)
    for n in (3, 2, 1, 0):
        f110.take(
            CounterSample(4_750_896_266 - n * 2_818_048, 1_712_024_507_665 - n * 10**9, 1_712_024_507 - n * S), power
        )
        c610.take(
            CounterSample(4_734_149_698 - n * 2_801_664, 1_712_027_255_611 - n * 10**9, 1_712_027_255 - n * S), power
        )
    mixed = CounterSample(4_736_943_791, 1_713_024_458_751, 1_713_024_458)
    assert f110.take(mixed, power, [c610]) == unknown(FOREIGN)
    good = CounterSample(4_750_896_266 + 2 * 2_818_048, 1_714_024_458_751, 1_714_024_458)
    assert f110.take(good, power, [c610]) == Reading(microjoules(4_750_896_266 + 2 * 2_818_048))
    assert f110.run == 0


def test_two_counters_reset_together_are_not_taken_for_each_other() -> None:
    tracks = [CounterTrack(), CounterTrack()]
    for n in range(4):
        for track in tracks:
            track.take(_sample(10**10 + n * 100 * 65_536, n), Reading(100_000))
    for n in range(4, 8):
        for track in tracks:
            others = [other for other in tracks if other is not track]
            last = track.take(_sample((n - 3) * 100 * 65_536, n), Reading(100_000), others)
            assert last.value is None or last.value < 10**9
    assert [track.run for track in tracks] == [1, 1]


def test_a_value_that_stays_with_another_counter_is_this_ones_after_all() -> None:
    one, other = CounterTrack(), CounterTrack()
    for n in range(4):
        one.take(_sample(10**10 + n * 6_553_600, n), Reading(100_000))
        other.take(_sample(5 * 10**9 + n * 6_553_600, n), Reading(100_000))
    readings = []
    for n in range(4, 13):
        other.take(_sample(5 * 10**9 + n * 6_553_600, n), Reading(100_000), [one])
        readings.append(one.take(_sample(5 * 10**9 + 9 + n * 6_553_600, n), Reading(100_000), [other]))
    assert [reading.reason for reading in readings] == [FOREIGN] * 5 + [IMPLAUSIBLE, NOT_READ, "", ""]
    assert one.run == 1


FALLS: list[tuple[str, list[int], list[bool], int]] = [
    ("B32: one bad read down", [10**9, 10**9 + 6_553_600, 200, 10**9 + 3 * 6_553_600], [False, True, False, True], 0),
    ("B32: one bad read up", [10**9, 10**9 + 6_553_600, 1 << 60, 10**9 + 3 * 6_553_600], [False, True, False, True], 0),
    ("a reset", [10**9, 10**9 + 6_553_600, 6_553_600, 2 * 6_553_600, 3 * 6_553_600], [False, True, False, False, True],
     1),
]  # fmt: skip


@pytest.mark.parametrize(("counts", "known", "runs"), [f[1:] for f in FALLS], ids=[f[0] for f in FALLS])
def test_what_falls_or_leaps_is_left_out_until_it_goes_on(counts: list[int], known: list[bool], runs: int) -> None:
    track = CounterTrack()
    assert [reading.value is not None for reading in _fed(track, counts, 100)] == known
    assert track.run == runs


def test_a_32_bit_accumulator_wraps_each_65536_joule() -> None:
    track = CounterTrack(300_000, is_32_bit=True)
    true = _steady(300, 700, 1_000_000)
    readings = _fed(track, [value % (1 << 32) for value in true], 300)
    assert readings[1:] == [Reading(microjoules(value)) for value in true[1:]]
    assert (true[-1] - true[0]) // (1 << 32) == 3
    assert track.run == 0


def test_a_32_bit_wrap_is_seen_where_the_table_does_not_tell_its_width() -> None:
    track = CounterTrack(300_000)
    true = _steady(300, 6, (1 << 32) - 4 * 300 * 65_536)
    assert not track.wraps
    readings = _fed(track, [value % (1 << 32) for value in true], 300)
    assert readings[1:] == [Reading(microjoules(value)) for value in true[1:]]
    assert track.wraps


def test_after_a_gap_in_which_a_32_bit_counter_may_have_wrapped_twice_a_new_run_begins() -> None:
    track = CounterTrack(300_000, is_32_bit=True)
    _fed(track, _steady(300, 3, 1), 300)
    assert track.take(_sample(5_000, 600), Reading(300_000)) == UNKNOWN
    assert track.run == 1


def test_a_64_bit_counter_bridges_a_long_gap() -> None:
    track = CounterTrack(750_000)
    _fed(track, _steady(700, 3, 10**12), 700)
    later = 10**12 + 700 * 65_536 * 86_400
    assert track.take(_sample(later, 86_400), Reading(700_000)) == Reading(microjoules(later))


def test_b48_a_second_reading_of_one_moment_is_left_out() -> None:
    track = CounterTrack()
    _fed(track, _steady(100, 3, 1), 100)
    assert track.take(CounterSample(10**6, 1, 2 * S), Reading(100_000)) == unknown(STALE)
    assert track.take(_sample(1 + 3 * 6_553_600, 3), Reading(100_000)).value is not None


def test_readings_never_fall_within_a_run() -> None:
    track = CounterTrack(750_000)
    raw = [*_steady(700, 5, 10**10), 5, *_steady(700, 4, 10**10 + 10**9), *_steady(300, 6, 77), 1 << 63]
    last = (0, 0)
    for n, value in enumerate(raw):
        reading = track.take(_sample(value, n), Reading(700_000))
        if reading.value is not None:
            assert (track.run, reading.value) >= last
            last = (track.run, reading.value)
    assert track.run > 0


def test_a_device_that_was_lost_counts_in_another_run() -> None:
    track = CounterTrack()
    _fed(track, _steady(100, 3, 10**9), 100)
    track.restart()
    assert _fed(track, _steady(100, 3, 5), 100, start=10)[0] == UNKNOWN
    assert track.run == 1
