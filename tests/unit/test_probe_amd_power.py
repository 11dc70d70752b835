"""AMD power: which field of which generation, in which unit, and what is no power at all."""

import ctypes
from collections.abc import Mapping
from typing import Any

import pytest
from wattledger_agent.probes.amd_metrics import Metrics
from wattledger_agent.probes.amd_power import Power, choose_power, limits_of
from wattledger_agent.probes.amd_value import number, text
from wattledger_agent.probes.reading import (
    ABI_MISMATCH,
    IMPLAUSIBLE,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SENTINEL,
    Reading,
    unknown,
)

from tests.fake_amdsmi import power_bytes
from tests.fake_amdsmi_gpu import NA16, NA32, NA64, FakeGpu

CUR, AVG, SOC = "current_socket_power", "average_socket_power", "socket_power"
NONE = Metrics()


def _got(watts: int, field: str) -> Power:
    return Power(Reading(watts * 1000), field)


def _none(reason: str) -> Power:
    return Power(unknown(reason))


FIELDS: list[tuple[str, Mapping[str, object], Power]] = [
    ("B23: MI200 has an average only", {CUR: "N/A", AVG: 94}, _got(94, AVG)),
    ("B23: MI300 has a current one only", {CUR: 717, AVG: "N/A"}, _got(717, CUR)),
    ("B25: MI300X through 6.4 and later", {SOC: 717, CUR: 717, AVG: "N/A"}, _got(717, CUR)),
    ("raw 16-bit sentinel", {CUR: NA16, AVG: 94}, _got(94, AVG)),
    ("raw 32-bit sentinel, which the wrapper passes on", {CUR: NA32, AVG: NA32, SOC: 220}, _got(220, SOC)),
    ("64-bit sentinel", {SOC: NA64, CUR: NA32, AVG: 300}, _got(300, AVG)),
    ("with its unit", {CUR: {"value": 210, "unit": "W"}, AVG: "N/A"}, _got(210, CUR)),
    ("as text", {CUR: "210", AVG: "N/A"}, _got(210, CUR)),
    ("all sentinels", {SOC: NA64, CUR: NA32, AVG: NA16}, _none(SENTINEL)),
    ("nothing at all", {}, _none(NOT_SUPPORTED)),
    ("0 W is the reading of a die without one", {CUR: 0, AVG: NA16}, _none(IMPLAUSIBLE)),
    ("a negative number is none", {CUR: -5}, _none(ABI_MISMATCH)),
    ("more than 1.5 times the limit is none", {CUR: 1126}, _none(IMPLAUSIBLE)),
    ("1.5 times the limit may be", {CUR: 1125}, _got(1125, CUR)),
]


@pytest.mark.parametrize(("info", "expected"), [f[1:] for f in FIELDS], ids=[f[0] for f in FIELDS])
def test_power_of_the_structure(info: Mapping[str, object], expected: Power) -> None:
    assert choose_power(info, NONE, limit_mw=750_000) == expected


def test_b24_an_average_of_0_beside_a_current_power_is_flagged() -> None:
    power = choose_power({CUR: 717, AVG: 0, "power_limit": 65535}, NONE, limit_mw=750_000)
    assert power.reading == Reading(717_000)
    assert power.field == CUR
    assert "average_socket_power is 0 beside current_socket_power 717" in power.odd


def _layout(version: str) -> type[ctypes.Structure]:
    u32, u64 = ctypes.c_uint32, ctypes.c_uint64
    plain: list[tuple[str, Any]] = [
        (CUR, u32),
        (AVG, u32),
        ("gfx_voltage", u32),
        ("soc_voltage", u32),
        ("mem_voltage", u32),
    ]
    fields: list[tuple[str, Any]] = {
        "6.3": [*plain, ("power_limit", u32), ("reserved", u32 * 11)],
        "6.4": [(SOC, u64), *plain, ("power_limit", u32), ("reserved", u32 * 2)],
    }[version]
    return type(f"Power{version}", (ctypes.Structure,), {"_fields_": fields, "_pack_": 1})


def _read_as(wrapper: str, library: str, gpu: FakeGpu) -> dict[str, object]:
    layout = _layout(wrapper)
    written = power_bytes(gpu, library)
    value = layout.from_buffer_copy(written.ljust(ctypes.sizeof(layout), b"\0"))
    return {name: getattr(value, name) for name, *_ in layout._fields_}


def test_b24_the_layouts_have_the_sizes_of_their_versions() -> None:
    sizes = {version: len(power_bytes(FakeGpu(), version)) for version in ("6.3", "6.4", "7.0")}
    assert sizes == {"6.3": 68, "6.4": 40, "7.0": 192}
    assert [ctypes.sizeof(_layout(version)) for version in ("6.3", "6.4")] == [68, 40]


@pytest.mark.parametrize("library", ["6.4", "7.0"])
def test_b24_a_newer_library_read_by_a_wrapper_of_6_3(library: str) -> None:
    info = _read_as("6.3", library, FakeGpu())
    assert (info[CUR], info[AVG], info["power_limit"]) == (717, 0, 65535 if library == "6.4" else 0)
    power = choose_power(info, NONE, limit_mw=750_000)
    assert (power.reading, power.field) == (Reading(717_000), CUR)
    assert power.odd


@pytest.mark.parametrize("volts", [NA16, 850])
def test_b24_a_library_of_6_3_read_by_a_newer_wrapper_gives_no_power(volts: int) -> None:
    info = _read_as("6.4", "6.3", FakeGpu(gfx_voltage_mv=volts))
    assert info[SOC] == 281_470_681_744_077
    assert choose_power(info, NONE, limit_mw=750_000) == _none(ABI_MISMATCH)


def _table(**numbers: int) -> Metrics:
    return Metrics(numbers)


FALLBACKS: list[tuple[str, Mapping[str, object], Metrics, str, Power]] = [
    ("the cap could not be read, the power could", {CUR: 717, AVG: NA16}, NONE, NO_PERMISSION, _got(717, CUR)),
    ("no structure: the table has it", {}, _table(current_socket_power=700), NOT_SUPPORTED, _got(700, CUR)),
    ("sentinels: the table has it", {CUR: NA16, AVG: NA16}, _table(average_socket_power=94), "", _got(94, AVG)),
    ("a failed call's zeros are no power", {CUR: 0, AVG: 0}, NONE, NO_PERMISSION, _none(NO_PERMISSION)),
    ("a guest has none", {}, NONE, NOT_SUPPORTED, _none(NOT_SUPPORTED)),
    ("another library's bytes: the table has it", {SOC: 1 << 40, CUR: 850}, _table(current_socket_power=717), "",
     _got(717, CUR)),
    ("an APU's table in mW is not read as W", {}, _table(format_revision=2, average_socket_power=8_500), "",
     _none(IMPLAUSIBLE)),
    ("an APU's table in W", {}, _table(format_revision=3, average_socket_power=28), "", _got(28, AVG)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("info", "metrics", "failure", "expected"), [f[1:] for f in FALLBACKS], ids=[f[0] for f in FALLBACKS]
)
def test_power_when_the_structure_has_none(
    info: Mapping[str, object], metrics: Metrics, failure: str, expected: Power
) -> None:
    assert choose_power(info, metrics, failure) == expected


SMALL: list[tuple[int | None, Power]] = [
    (970_000, _none(IMPLAUSIBLE)),
    (500_001, _none(IMPLAUSIBLE)),
    (None, _none(IMPLAUSIBLE)),
    (10_000, Power(Reading(80), CUR)),
]


@pytest.mark.parametrize(("busy_ppm", "expected"), SMALL)
def test_b55_80_milliwatts_are_no_power_of_a_busy_device(busy_ppm: int | None, expected: Power) -> None:
    assert choose_power({CUR: {"value": 80, "unit": "mW"}}, NONE, busy_ppm=busy_ppm) == expected


CAPS: list[tuple[object, tuple[int | None, int | None]]] = [
    ({"power_cap": 750_000_000, "max_power_cap": 750_000_000}, (750_000, 750_000)),
    ({"power_cap": 300, "max_power_cap": 560}, (300_000, 560_000)),
    ({"power_cap": 500_000_000, "max_power_cap": NA64}, (500_000, None)),
    ({"power_cap": 0, "max_power_cap": 0}, (None, None)),
    ({"power_cap": NA16, "max_power_cap": "N/A"}, (None, None)),
    (None, (None, None)),
]


@pytest.mark.parametrize(("cap", "expected"), CAPS)
def test_limits_in_watts_or_microwatts(cap: object, expected: tuple[int | None, int | None]) -> None:
    assert limits_of(cap) == expected


RAW: list[tuple[object, bool, int | None]] = [
    (0, True, 0),
    (NA16, True, None),
    (NA16, False, NA16),
    (NA32, False, None),
    (NA64, False, None),
    ("N/A", True, None),
    ("[N/A]", True, None),
    ("ERR!", True, None),
    ("[Not Supported]", True, None),
    ("", True, None),
    (" 42 ", True, 42),
    ({"value": 0, "unit": "%"}, True, 0),
    ({"value": "N/A", "unit": "%"}, True, None),
    ({}, True, None),
    (None, True, None),
    (True, True, None),
    (61.7, True, 61),
    (float("nan"), True, None),
    (float("inf"), True, None),
    (["N/A"], True, None),
]


@pytest.mark.parametrize(("raw", "narrow", "expected"), RAW)
def test_raw_values_of_all_shapes(raw: object, narrow: bool, expected: int | None) -> None:
    assert number(raw, narrow) == expected


@pytest.mark.parametrize(("raw", "expected"), [(b"MI300X\0\0", "MI300X"), ("N/A", ""), (None, ""), (" a ", "a")])
def test_raw_texts(raw: object, expected: str) -> None:
    assert text(raw) == expected
