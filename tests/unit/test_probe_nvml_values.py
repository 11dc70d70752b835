"""NVML's numbers and power fields, by tables: sentinels, what can't be, and what a reading averages over."""

import ctypes
from types import SimpleNamespace

import pytest
from wattledger_agent.probes import nvml_values as values
from wattledger_agent.probes.nvml_power import (
    ADA,
    AMPERE,
    AVERAGE,
    BLACKWELL,
    HOPPER,
    INSTANT,
    KEPLER,
    MAXWELL,
    PASCAL,
    TURING,
    USAGE,
    VOLTA,
    power_meaning,
)
from wattledger_agent.probes.reading import (
    GPU_LOST,
    IMPLAUSIBLE,
    NO_PERMISSION,
    NOT_READ,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    SENTINEL,
    TIMED_OUT,
    UNKNOWN_ERROR,
    Reading,
    unknown,
)

_H100, _A100, _A30, _GA102 = 0x2330_10DE, 0x20B2_10DE, 0x20B7_10DE, 0x2204_10DE


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (2, UNKNOWN_ERROR),
        (3, NOT_SUPPORTED),
        (4, NO_PERMISSION),
        (6, NOT_READ),
        (10, TIMED_OUT),
        (11, UNKNOWN_ERROR),
        (13, NOT_SUPPORTED),
        (15, GPU_LOST),
        (16, RESET_REQUIRED),
        (17, NO_PERMISSION),
        (21, NOT_READ),
        (25, NOT_SUPPORTED),
        (27, NOT_READ),
        (28, GPU_LOST),
        (999, UNKNOWN_ERROR),
        (12345, UNKNOWN_ERROR),
    ],
)
def test_each_return_code_has_its_reason(code: int, reason: str) -> None:
    assert values.reason_of(code) == reason


@pytest.mark.parametrize(
    ("case", "percent", "read"),
    [
        ("B03", 45, Reading(450_000)),
        ("B03", 4294967295, unknown(SENTINEL)),
        ("B03", 47, Reading(470_000)),
        ("B03", 808334905, unknown(IMPLAUSIBLE)),
        ("B03", 686103, unknown(IMPLAUSIBLE)),
        ("B03", 1980, unknown(IMPLAUSIBLE)),
        ("B04", 140737488355328, unknown(SENTINEL)),
        ("B04", 9223372036854775792, unknown(SENTINEL)),
        ("B05", 9223372036854775794, unknown(SENTINEL)),
        ("DCGM int32 blank", 2147483632, unknown(SENTINEL)),
        ("NVML u64", 18446744073709551615, unknown(SENTINEL)),
        ("all", 100, Reading(1_000_000)),
        ("none", 0, Reading(0)),
        ("over", 101, unknown(IMPLAUSIBLE)),
    ],
)
def test_a_share_that_can_not_be_is_unknown(case: str, percent: int, read: Reading) -> None:
    assert values.share_ppm(percent) == read, case


def test_b04_a_blank_beside_it_leaves_the_power_69_437_mw() -> None:
    assert values.power_mw(values.number(69_437), 300_000) == Reading(69_437)


@pytest.mark.parametrize(
    ("raw_mw", "max_limit_mw", "read"),
    [
        (700_000, 700_000, Reading(700_000)),
        (1_050_000, 700_000, Reading(1_050_000)),
        (1_050_001, 700_000, unknown(IMPLAUSIBLE)),
        (0, 700_000, unknown(IMPLAUSIBLE)),
        (9_000_000, None, Reading(9_000_000)),
        (4294967295, None, unknown(SENTINEL)),
    ],
)
def test_power_above_one_and_a_half_limits_or_of_nothing_can_not_be(
    raw_mw: int, max_limit_mw: int | None, read: Reading
) -> None:
    assert values.power_mw(values.number(raw_mw), max_limit_mw) == read


@pytest.mark.parametrize(
    ("power_mw", "busy", "read"),
    [
        (80, Reading(970_000), unknown(IMPLAUSIBLE)),
        (80, Reading(10_000), Reading(80)),
        (80, unknown(NOT_SUPPORTED), Reading(80)),
        (1_000, Reading(970_000), Reading(1_000)),
    ],
)
def test_b55_less_than_a_watt_under_load_is_a_broken_sensor(power_mw: int, busy: Reading, read: Reading) -> None:
    assert values.power_under_load(Reading(power_mw), busy) == read


@pytest.mark.parametrize(
    ("raw_mj", "read"),
    [
        (123456789, Reading(123456789000)),
        (42, Reading(42000)),
        (18446744073709551615, unknown(SENTINEL)),
        (9223372036854775807, unknown(SENTINEL)),
        (9223372036854776000, unknown(IMPLAUSIBLE)),
        (-1, unknown(IMPLAUSIBLE)),
    ],
)
def test_the_counter_is_given_in_microjoules(raw_mj: int, read: Reading) -> None:
    assert values.energy_uj(values.number(raw_mj)) == read


def test_a_counter_of_nothing_on_a_busy_card_counts_nothing() -> None:
    assert values.energy_under_load(Reading(0), Reading(10_000)) == unknown(IMPLAUSIBLE)
    assert values.energy_under_load(Reading(0), Reading(0)) == Reading(0)


@pytest.mark.parametrize(
    ("used", "read"),
    [
        (17782800384, Reading(17782800384)),
        (150754820097, unknown(IMPLAUSIBLE)),
        (18446744073709551615, unknown(SENTINEL)),
    ],
)
def test_memory_in_use_is_at_most_what_there_is(used: int, read: Reading) -> None:
    assert values.memory_bytes(used, 150754820096) == read


@pytest.mark.parametrize(
    ("raw", "read"), [(-5, Reading(-5)), (4294967295, unknown(SENTINEL)), (5000, unknown(IMPLAUSIBLE))]
)
def test_a_temperature_may_be_below_zero_and_not_beyond_reason(raw: int, read: Reading) -> None:
    assert values.temperature_c(raw) == read


@pytest.mark.parametrize(
    ("reasons", "bits"),
    [
        (0x00, 0),
        (0x01, 0),
        (0x04, 1),
        (0x20, 2),
        (0x40, 2),
        (0x60, 2),
        (0x08, 4),
        (0x80, 8),
        (0x02, 16),
        (0x10, 16),
        (0x100, 16),
        (0x1000, 16),
        (0x48, 6),
        (0x88, 12),
        (0xED, 15),
    ],
)
def test_clock_event_reasons_have_their_bits(reasons: int, bits: int) -> None:
    assert values.throttle(reasons) == Reading(bits)


def test_clock_event_reasons_of_all_ones_are_none() -> None:
    assert values.throttle(0xFFFF_FFFF_FFFF_FFFF) == unknown(SENTINEL)


@pytest.mark.parametrize(
    ("percent", "read"),
    [
        (33.3, Reading(333_000)),
        (100.0, Reading(1_000_000)),
        (100.9, Reading(1_000_000)),
        (129.4, unknown(IMPLAUSIBLE)),
        (-0.1, unknown(IMPLAUSIBLE)),
        (float("nan"), unknown(IMPLAUSIBLE)),
    ],
)
def test_gpm_beyond_its_tolerance_is_no_share(percent: float, read: Reading) -> None:
    assert values.gpm_share_ppm(percent) == read


class _Union(ctypes.Union):
    _fields_ = [
        ("dVal", ctypes.c_double),
        ("uiVal", ctypes.c_uint),
        ("ulVal", ctypes.c_ulong),
        ("ullVal", ctypes.c_ulonglong),
        ("sllVal", ctypes.c_longlong),
        ("siVal", ctypes.c_int),
        ("usVal", ctypes.c_ushort),
    ]


@pytest.mark.parametrize(
    ("kind", "member", "raw", "read"),
    [
        (0, "dVal", 52.6, Reading(53)),
        (0, "dVal", float("nan"), unknown(SENTINEL)),
        (1, "uiVal", 294_140, Reading(294_140)),
        (1, "uiVal", 4294967295, unknown(SENTINEL)),
        (3, "ullVal", 5_000_000_000, Reading(5_000_000_000)),
        (3, "ullVal", 18446744073709551615, unknown(SENTINEL)),
        (5, "siVal", -3, Reading(-3)),
        (6, "usVal", 65535, unknown(SENTINEL)),
        (6, "usVal", 700, Reading(700)),
        (9, "uiVal", 1, unknown(UNKNOWN_ERROR)),
    ],
)
def test_a_field_is_read_by_its_own_type(kind: int, member: str, raw: float, read: Reading) -> None:
    union = _Union()
    setattr(union, member, raw)
    assert values.field_number(SimpleNamespace(nvmlReturn=0, valueType=kind, value=union)) == read


def test_a_zero_beside_a_failed_return_code_is_no_reading() -> None:
    union = _Union()
    assert values.field_number(SimpleNamespace(nvmlReturn=3, valueType=1, value=union)) == unknown(NOT_SUPPORTED)


@pytest.mark.parametrize(
    ("field", "architecture", "chip", "model", "driver", "window_us", "refresh_us"),
    [
        (AVERAGE, HOPPER, _H100, "NVIDIA H100 PCIe", "535.104.05", 1_000_000, 100_000),
        (INSTANT, HOPPER, _H100, "NVIDIA H100 PCIe", "535.104.05", 25_000, 100_000),
        (USAGE, HOPPER, _H100, "NVIDIA H100 PCIe", "535.104.05", 1_000_000, 100_000),
        (USAGE, HOPPER, _H100, "NVIDIA H100 PCIe", "525.105.17", None, None),
        (INSTANT, HOPPER, 0x2335_10DE, "NVIDIA H200", "590.48.01", None, None),
        (AVERAGE, HOPPER, 0x2335_10DE, "NVIDIA H200", "590.48.01", 1_000_000, None),
        (AVERAGE, BLACKWELL, 0x2901_10DE, "NVIDIA B200", "590.48.01", 1_000_000, None),
        (INSTANT, BLACKWELL, 0x2901_10DE, "NVIDIA B200", "590.48.01", None, None),
        (AVERAGE, 13, 0, "NVIDIA R100", "620.10", 1_000_000, None),
        (USAGE, ADA, 0x2684_10DE, "NVIDIA GeForce RTX 4090", "525.60.13", 1_000_000, 100_000),
        (USAGE, ADA, 0x2684_10DE, "NVIDIA GeForce RTX 4090", "530.30.02", 100_000, 100_000),
        (USAGE, ADA, 0x2684_10DE, "NVIDIA GeForce RTX 4090", "535.104.05", 1_000_000, 100_000),
        (INSTANT, ADA, 0x2684_10DE, "NVIDIA GeForce RTX 4090", "535.104.05", 100_000, 100_000),
        (AVERAGE, ADA, 0x26B9_10DE, "NVIDIA L40S", "595.80", 1_000_000, None),
        (INSTANT, ADA, 0x26B9_10DE, "NVIDIA L40S", "595.80", None, None),
        (USAGE, AMPERE, _GA102, "NVIDIA GeForce RTX 3090", "530.41.03", 100_000, 100_000),
        (AVERAGE, AMPERE, _GA102, "NVIDIA RTX A3000", "535.54", 1_000_000, 100_000),
        (USAGE, AMPERE, _A100, "NVIDIA A100-SXM4-40GB", "470.82", 25_000, 100_000),
        (USAGE, AMPERE, _A100, "NVIDIA A100-SXM4-40GB", "535.54", 25_000, 100_000),
        (INSTANT, AMPERE, _A30, "NVIDIA A30", "535.54", 25_000, 100_000),
        (INSTANT, AMPERE, 0, "NVIDIA A100-PCIE-40GB", "535.54", 25_000, 100_000),
        (AVERAGE, AMPERE, 0, "NVIDIA RTX A3000 Laptop GPU", "535.54", 1_000_000, 100_000),
        (AVERAGE, AMPERE, _A100, "NVIDIA A100-SXM4-40GB", "535.54", None, None),
        (USAGE, TURING, 0x1EB8_10DE, "Tesla T4", "535.54", 100_000, 100_000),
        (USAGE, TURING, 0x1E30_10DE, "Quadro RTX 8000", "535.54", 20_000, 100_000),
        (INSTANT, VOLTA, 0x1DB4_10DE, "Tesla V100-PCIE-16GB", "535.54", 10_000, 20_000),
        (USAGE, PASCAL, 0x15F8_10DE, "Tesla P100-PCIE-16GB", "535.54", 10_000, 20_000),
        (USAGE, MAXWELL, 0x17FD_10DE, "Tesla M40", "470.82", None, None),
        (USAGE, KEPLER, 0x1023_10DE, "Tesla K40m", "470.82", None, None),
    ],
)
def test_what_a_power_field_averages_over_follows_chip_and_driver(
    field: str,
    architecture: int,
    chip: int,
    model: str,
    driver: str,
    window_us: int | None,
    refresh_us: int | None,
) -> None:
    meaning = power_meaning(field, architecture, chip, model, driver)
    assert (meaning.window_us, meaning.refresh_us) == (window_us, refresh_us)


def test_b62_the_a100s_window_is_a_quarter_of_its_refresh_so_a_100_ms_load_may_alias() -> None:
    meaning = power_meaning(INSTANT, AMPERE, _A100, "NVIDIA A100-SXM4-80GB", "590.48.01")
    assert meaning.window_us is not None
    assert meaning.refresh_us is not None
    assert meaning.window_us * 4 == meaning.refresh_us
