"""Expositions as text: series, values and times, and what a written value is worth."""

import pytest
from wattledger_agent.probes.reading import IMPLAUSIBLE, NO_PERMISSION, NOT_SUPPORTED, SENTINEL, Reading, unknown
from wattledger_agent.probes.scrape_metric import reading_of, time_us_of
from wattledger_agent.probes.scrape_text import SampleReader, TextSample

Learned = tuple[str, dict[str, str]]


def reader() -> SampleReader[Learned]:
    return SampleReader(("DCGM_",), lambda name, labels: (name, labels))


LINES = [
    ("no labels", "DCGM_A 1", ({}, "1", "")),
    ("labels", 'DCGM_A{gpu="0",UUID="GPU-a"} 52.636', ({"gpu": "0", "UUID": "GPU-a"}, "52.636", "")),
    ("a comma at the end and blanks", 'DCGM_A { gpu = "0" , } 7', ({"gpu": "0"}, "7", "")),
    ("a brace and a quote in a value", r'DCGM_A{cmd="a } \" b",gpu="1"} 7', ({"cmd": 'a } " b', "gpu": "1"}, "7", "")),
    ("a line break in a value", r'DCGM_A{x="a\nb\\"} 7', ({"x": "a\nb\\"}, "7", "")),
    ("time in milliseconds", 'DCGM_A{gpu="0"} 7 1767225600123', ({"gpu": "0"}, "7", "1767225600123")),
    ("time in seconds", 'DCGM_A{gpu="0"} 7 1767225600.123', ({"gpu": "0"}, "7", "1767225600.123")),
    ("an exemplar", 'DCGM_A{gpu="0"} 7 # {trace="a}b"} 1 1', ({"gpu": "0"}, "7", "")),
    ("tabs", 'DCGM_A{gpu="0"}\t7\t1767225600123', ({"gpu": "0"}, "7", "1767225600123")),
    ("words for a value", 'DCGM_A{gpu="0"} [Not Supported]', ({"gpu": "0"}, "[Not Supported]", "")),
    ("a carriage return", 'DCGM_A{gpu="0"} 7\r', ({"gpu": "0"}, "7", "")),
]


@pytest.mark.parametrize(("line", "expected"), [case[1:] for case in LINES], ids=[case[0] for case in LINES])
def test_a_line_is_a_series_a_value_and_perhaps_a_time(line: str, expected: tuple[dict[str, str], str, str]) -> None:
    known = reader()
    once = known.read(line + "\n")
    assert once == [TextSample(("DCGM_A", expected[0]), *expected[1:])]
    assert known.read(f"# HELP DCGM_A x\nother 1\n\n{line}\n") == once  # and again, from what was learned
    assert known.bad_lines == 0


BAD = [
    'DCGM_A{gpu="0" 7',
    'DCGM_A{gpu="0}',
    "DCGM_A",
    'DCGM_A{gpu="0"}',
    "DCGM_-A 7",
    'DCGM_A{x="' + "a" * 20_000 + '"} 7',
]


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_a_line_that_is_no_sample_is_counted_and_hides_no_other(line: str) -> None:
    known = reader()
    assert [sample.value for sample in known.read(f"DCGM_A 1\n{line}\nDCGM_B 2\n")] == ["1", "2"]
    assert known.bad_lines == 1
    known.read("DCGM_A 1\n")
    assert known.bad_lines == 0


def test_series_that_come_and_go_do_not_fill_the_memory() -> None:
    known = reader()
    for first in range(0, 60_000, 10_000):
        known.read("".join(f'DCGM_A{{pod="p{n}"}} 1\n' for n in range(first, first + 10_000)))
    assert len(known._known) <= 30_000


NONE = [
    # DCGM's blanks of 32 and 64 bits and of floats, the library's all ones (B03, B04, B05 and the sentinel table)
    "2147483632", "2147483647", "9223372036854775792", "9223372036854775793", "9223372036854775794",
    "9223372036854775795", "9223372036854775807", "9.223372036854776e+18", "9.223372036854775807e+18",
    "140737488355328", "140737488355328.0", "140737488355330.000000", "1.40737488355328e+14", "1.40737488355328e+16",
    "4294967295", "4294967294", "4.294967295e+09", "18446744073709551615", "18446744073709551614",
    "1.8446744073709552e+19", "NaN", "nan", "+Inf", "-Inf", "N/A", "[N/A]", "[Unknown Error]", "ERR!", "",
]  # fmt: skip


@pytest.mark.parametrize("unit", ["W", "mJ", "J", "%", "ratio", "MiB", "B", "C", ""])
@pytest.mark.parametrize("text", NONE)
def test_a_mark_for_no_value_is_a_sentinel_in_every_unit(unit: str, text: str) -> None:
    assert reading_of(unit, text) == unknown(SENTINEL)


WORTH = [
    ("W", "52.636000", Reading(52_636)),
    ("W", "295.01", Reading(295_010)),
    ("W", "6.274e+02", Reading(627_400)),
    ("W", "0.0005", Reading(0)),
    ("W", "0.0015", Reading(2)),
    ("W", "1e-999999", Reading(0)),
    ("W", "1e999999", unknown(IMPLAUSIBLE)),
    ("W", "5000.001", unknown(IMPLAUSIBLE)),
    ("W", "-1", unknown(IMPLAUSIBLE)),
    ("W", "1_0", unknown(SENTINEL)),
    ("W", "٤٢", unknown(SENTINEL)),
    ("W", "[Not Supported]", unknown(NOT_SUPPORTED)),
    ("W", "[Insufficient Permissions]", unknown(NO_PERMISSION)),
    ("mJ", "126272101025", Reading(126_272_101_025_000)),
    ("mJ", "1.26272101025e+11", Reading(126_272_101_025_000)),
    ("mJ", "9007199254740993", unknown(IMPLAUSIBLE)),
    ("mJ", "4503599627370497", Reading(4_503_599_627_370_497_000)),  # no float on the way: it has 2^52 + 1
    ("J", "1234567.891", Reading(1_234_567_891_000)),
    ("%", "45", Reading(450_000)),
    ("%", "808334905", unknown(IMPLAUSIBLE)),
    ("%", "686103", unknown(IMPLAUSIBLE)),
    ("%", "1980", unknown(IMPLAUSIBLE)),
    ("ratio", "0.714", Reading(714_000)),
    ("ratio", "1.004", Reading(1_000_000)),
    ("ratio", "1.294", unknown(IMPLAUSIBLE)),
    ("MiB", "65535", Reading(65_535 << 20)),
    ("B", "1.7782800384e+10", Reading(17_782_800_384)),
    ("C", "-5", Reading(-5)),
    ("C", "201", unknown(IMPLAUSIBLE)),
]


@pytest.mark.parametrize(("unit", "text", "expected"), WORTH)
def test_a_written_value_is_a_whole_number_of_its_unit_or_no_reading(unit: str, text: str, expected: Reading) -> None:
    assert reading_of(unit, text) == expected


@pytest.mark.parametrize(
    ("text", "expected_us"),
    [("1767225600123", 1_767_225_600_123_000), ("1767225600.5", 1_767_225_600_500_000), ("", None), ("-5", None)],
)
def test_a_samples_time_is_in_milliseconds_or_seconds(text: str, expected_us: int | None) -> None:
    assert time_us_of(text) == expected_us
